"""One play on one host, task by task: render, probe, plan, apply, judge, keep."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from klops.errors import KlopsError, TaskFailed
from klops.playbook.model import Play, Task
from klops.playbook.plays.handlers import meant
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks.failures import Failures, placed
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.keeping import keep_facts, notify, register
from klops.playbook.tasks.lookahead import LookAhead
from klops.playbook.tasks.outcome import Done, failed, unknown
from klops.playbook.tasks.place import Place, Places
from klops.playbook.tasks.redaction import redacted_error
from klops.playbook.tasks.rendering import Renderer
from klops.playbook.tasks.scopes import Scopes
from klops.playbook.tasks.surroundings import Notes, PlayHosts, Surroundings
from klops.playbook.tasks.turning import Parts, Turning
from klops.playbook.tasks.verdict import forgiven, without_diff
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import Templar, is_template
from klops.yamlsource import nearest

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

__all__ = ["HostPlay", "Surroundings"]


#: the variable that tells the tasks of an ``always`` what the host fails with
FAILED = "klops_failed"

#: how Python writes values that no author means to show: the template says more
_NO_TEXT = re.compile(r"<[\w.]+ object\b|\brange\(-?\d+, -?\d+")


@dataclass
class HostPlay:
    """A play on one host. ``variables`` are the host's merged ones, templates not rendered.

    ``hosts``: who else is in the play; ``notes``: where it is taken down that handlers are still to run.
    """

    host: Host
    play: Play
    settings: Settings
    variables: Mapping[str, Any]
    around: Surroundings
    hosts: PlayHosts | None = None
    notes: Notes | None = None
    _parts: Parts = field(init=False)
    #: actions of tasks that have begun to carry something out, in order
    _applied: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        alone = (self.host.name,)
        hosts = self.hosts or PlayHosts(alone, alone, lambda: alone)
        host, around = self.host, self.around
        places = Places(host, self.play, self.settings, around)
        # whole, with all defaults, and secrets as the type that shows itself as stars
        settings = self.settings.model_dump(by_alias=True)
        scopes = Scopes(host, self.play, self.variables, settings, around, places, hosts)
        places.templar = scopes.of_play
        renderer = Renderer(host.name, self.play, self.settings, around, scopes, places)
        look = LookAhead(host, renderer, scopes, places)
        failures = Failures(host.name, around)
        self._parts = Parts(host, around, places, scopes, renderer, look, failures)

    # -- for who runs a play over its hosts ------------------------------------------------------------------

    def run(self, task: Task, ahead: Sequence[Task], *, caught: bool = False) -> TaskResult:
        """Carry a task out (in check mode: look what it would do); never raises.

        Registers its result and facts, and notifies its handlers. ``caught``: a rescue would take care of
        its failure.
        """
        done, began = Done(), time.monotonic()
        try:
            result = Turning(self._parts, self.notes, task, ahead, done, began, caught).result()
        except NotKnown as error:
            result = unknown(str(error))
        except Exception as error:
            result = failed(self._parts.failures.of_any(error, task), done.said, done.changes)
        if done.times:
            self._applied.append(task.action.name)
        result = self._kept(task, result, caught)
        return replace(result, seconds=time.monotonic() - began)

    def may_run(self, task: Task) -> None:
        """A dry run: a handler that runs only if something changes that nobody can tell."""
        Turning(self._parts, self.notes, task, (), Done(), time.monotonic()).may_run()

    def adopt(self, task: Task, result: TaskResult, *, caught: bool = False) -> None:
        """Register what a task (``run_once``) gave on another host, as if it had run here."""
        turns = result.values.get("results", ())
        for values in (result.values, *(turns if isinstance(turns, list) else ())):
            if isinstance(values, Mapping):
                keep_facts(task, values, self.host)
        # who ran it notifies the handlers
        register(task, result, self.host, caught)
        self._parts.failures.tentative |= result.tentative

    def note_lost(self, task: Task, error: KlopsError) -> None:
        """Give the tasks of an ``always`` what the host fails with, and what may have been changed by then.

        ``code``, ``message``, ``hint``; ``action``: that of the task; ``applied``: all of this play that have
        begun to carry something out.
        """
        told = redacted_error(error, self.around.redactor).as_json()
        applied = list(dict.fromkeys(self._applied))
        self.host.data[FAILED] = {**told, "action": task.action.name, "applied": applied}

    def note_failure(self, task: Task, result: TaskResult) -> None:
        """Give the tasks of a ``rescue`` the variables that tell what failed."""
        told = {
            "name": self.name(task),
            "action": task.action.name,
            "args": dict(task.params),
            "register": task.register or None,
            "tags": list(task.tags),
        }
        self.host.data["ansible_failed_task"] = told
        self.host.data["ansible_failed_result"] = dict(result.values)

    def title(self, task: Task) -> str:
        """:meth:`name` as it is shown: secrets masked."""
        return self.around.redactor(self.name(task))

    def name(self, task: Task) -> str:
        """The name of a task, rendered where that is possible without asking the host."""
        if not is_template(task.name):
            return task.name
        try:
            name = str(self._parts.scopes.templar(task, asks=False).render(task.name))
        except (KlopsError, NotKnown):
            return task.name
        return task.name if _NO_TEXT.search(name) else name

    def notifications(self, task: Task) -> tuple[str, ...]:
        """Names of handlers and topics that a task notifies, rendered; raises what rendering does."""
        names: list[str] = []
        for raw in task.notify:
            rendered = self.templar(task).render(raw)
            names += [str(name) for name in (rendered if isinstance(rendered, list) else [rendered])]
        return tuple(names)

    def templar(self, task: Task) -> Templar:
        """What renders a keyword of a task that isn't about one turn of its loop."""
        return self._parts.scopes.templar(task)

    @property
    def keeper(self) -> Place:
        """The host itself for what klops keeps there."""
        return self._parts.places.keeper

    def watch(self, made: Callable[[Place], None]) -> None:
        """Have ``made`` called with each place on the host itself before a task uses it."""
        self._parts.places.made = made

    # -- a task that has run ---------------------------------------------------------------------------------

    def _kept(self, task: Task, result: TaskResult, caught: bool) -> TaskResult:
        """Keep what is to stay of a result, and say whether its failure is ignored."""
        try:
            result = without_diff(task, forgiven(task, result, self.templar(task)))
            register(task, result, self.host, caught)
            if task.notify and result.status in (Status.CHANGED, Status.UNKNOWN):
                # their names may tell of the result
                notify(task, result, self.host, self._meaningful(self.notifications(task)))
        except NotKnown as error:
            result = unknown(str(error))
            register(task, result, self.host, caught)
        except KlopsError as error:
            result = failed(placed(error, task), result.warnings, result.changes)
            register(task, result, self.host)
        self._parts.failures.tentative |= result.tentative
        return result

    def _meaningful(self, names: Sequence[str]) -> Sequence[str]:
        """Names of handlers and topics; raises :class:`TaskFailed` for one that no handler answers to.

        Most are looked at when the playbook is read: not those that are templates, or that handlers' names
        as templates may come to.
        """
        handlers = self.play.handlers
        for name in names:
            if not meant(handlers, name, self.name):
                known = {called for handler in handlers for called in (self.name(handler), *handler.listen)}
                near = nearest(name, known)
                hint = f"did you mean {near!r}?" if near else "name a handler, or a topic that one listens to"
                raise TaskFailed(
                    f"notifies {name!r}, and this play has no such handler", hint=hint, code="keyword"
                )
        return names
