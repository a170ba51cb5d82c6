"""From a task to what an action takes: everything rendered for one host and one turn of its loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klops.actions.base import LocalLook, Params, Plan, Probe, Seen, View
from klops.errors import TaskFailed
from klops.playbook import localfiles, params
from klops.playbook.model import Play, Task
from klops.playbook.tasks import loops
from klops.playbook.tasks.conditions import failing, hold
from klops.playbook.tasks.loops import ONLY, Turn
from klops.playbook.tasks.place import Place, Places
from klops.playbook.tasks.scopes import Scopes
from klops.playbook.tasks.surroundings import Surroundings
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import OMIT, Templar
from klops.remote.base import Reply
from klops.remote.environment import is_name, with_environment
from klops.secret import Redactor, Secret

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class Ready:
    """A task (or one turn of its loop), rendered for a host."""

    params: Params
    view: View
    probe: Probe
    place: Place


class Renderer:
    """Renders the tasks of one host of a play."""

    def __init__(
        self,
        name: str,
        play: Play,
        settings: Settings,
        around: Surroundings,
        scopes: Scopes,
        places: Places,
    ) -> None:
        self._name = name
        self._play = play
        self._settings = settings
        self._around = around
        self._scopes = scopes
        self._places = places

    def turns(self, task: Task) -> list[Turn]:
        """The turns of a task's loop; one without variables when there is no loop."""
        if task.loop is None:
            return [ONLY]
        templar = self._scopes.templar(task)
        try:
            found = templar.render(task.loop)
        except (TaskFailed, NotKnown):
            # as in Ansible: a condition that doesn't hold anyway spares the loop
            if _fails_without_item(task, templar):
                return [ONLY]
            raise
        return loops.turns(found, task.loop_control)

    def ready(self, task: Task, turn: Turn) -> Ready | str:
        """The task rendered, or the condition because of which it doesn't run here."""
        templar = self._scopes.templar(task, turn)
        condition = failing(task.when, templar)
        if condition:
            return condition
        place = self._places.of(task, templar)
        if task.delegate_to is not None:
            templar = self._scopes.templar(task, turn, self._scopes.delegated(place.host.name))
        rendered = params.render(task.action, task.params, templar)
        view = View(
            self._name,
            self._settings,
            templar.variables,
            templar.text,
            check=self._around.check or task.check_mode,
            diff=self._around.options.diff and task.diff is not False,
            run=self._around.run,
            environment=environment(task, templar, self._around.redactor),
            verbosity=self._around.options.verbosity,
            delegated=place.host.name != self._name,
            changed=place.host.told,
            find_local=lambda kind, path: find_local(self._files(task), kind, path),
        )
        probe = task.action.probe(rendered, view)
        # what a probe finds out is to be what the steps will find
        probe = replace(probe, reads=with_environment(probe.reads, view.environment))
        return Ready(rendered, view, probe, place)

    def begin(self, ready: Ready) -> None:
        """Have its looks at the control node carried out beside what the host is asked."""
        for look in ready.probe.local.values():
            self._around.looks.begin(look)

    def plan(self, task: Task, ready: Ready, replies: Mapping[str, Reply]) -> Plan:
        """What the action makes of the replies."""
        files = {
            key: localfiles.read_local(self._files(task), kind, path)
            for key, (kind, path) in ready.probe.files.items()
        }
        local = {key: self._looked(task, look) for key, look in ready.probe.local.items()}

        def made(known: Mapping[str, Reply]) -> Plan:
            plan: Plan = task.action.plan(ready.params, ready.view, Seen(known, files, local))
            return plan

        if not ready.view.check:
            return made(replies)
        return ready.place.host.foreseen.plan(made, ready.probe.reads, replies)

    def _looked(self, task: Task, look: LocalLook) -> object:
        def waits() -> None:
            self._around.progress(self._name, task.name, look.what, 0.0, None)

        return self._around.looks.answer(look, waits)

    def _files(self, task: Task) -> tuple[Path, ...]:
        """Beside which files of the control node are looked for, the nearest first."""
        return (task.file, self._play.file)


def find_local(files: Sequence[Path], kind: str, path: str) -> Path:
    """The file or folder of the control node that a task names. Raises :class:`TaskFailed`."""
    for place in localfiles.places(files, kind, path):
        if place.exists():
            return place
    raise localfiles.missing(files, kind, path)


def environment(task: Task, templar: Templar, redactor: Redactor) -> dict[str, str]:
    """``environment`` of a task as text, that of an inner block over that of an outer one.

    As in Ansible any value is written out as Python does it. Secrets are handed over, and the redactor learns
    them. Raises :class:`TaskFailed`.
    """
    found: dict[str, Any] = {}
    for raw in task.environment:
        rendered = templar.render(raw)
        if not isinstance(rendered, Mapping):
            text = f"environment gave {type(rendered).__name__}, not a mapping of names to values"
            raise TaskFailed(text, code="keyword")
        found |= rendered
    texts: dict[str, str] = {}
    for name, value in found.items():
        if not is_name(str(name)):
            raise TaskFailed(f"environment: {name!r} is no name for a variable", code="keyword")
        if isinstance(value, Secret):
            redactor.add(value)
            texts[str(name)] = value.reveal()
        elif value is not OMIT:
            texts[str(name)] = str(value)
    return texts


def _fails_without_item(task: Task, templar: Templar) -> bool:
    try:
        return not hold(task.when, templar)
    except (TaskFailed, NotKnown):
        return False
