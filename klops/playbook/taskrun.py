"""One play on one host, task by task: render, probe, plan, apply."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from klops.actions.base import Change, Context, Params, Plan, Probe, Progress, Seen, View
from klops.errors import ConnectionLost, HostUnreachable, Interrupted, KlopsError, TaskFailed
from klops.log import get_logger
from klops.playbook import params, waits
from klops.playbook.conditions import failing
from klops.playbook.host import Host, Replies
from klops.playbook.localfiles import read_local
from klops.playbook.model import Play, Task
from klops.playbook.outcome import Item, failed, merged, planned, skipped, unknown
from klops.playbook.pending import NotKnown, Pending
from klops.playbook.reach import Reach
from klops.playbook.results import Status, TaskResult
from klops.playbook.scope import Layer
from klops.playbook.template import Templar, scope
from klops.remote.base import ReadOnlyRemote, Remote
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.reads import Read

T = TypeVar("T")
#: codes of failures that an earlier task may prevent by what it makes
_MAY_COME = ("absent", "no-such-user", "no-such-group")
_NO_ITEM = object()


@dataclass(frozen=True)
class Surroundings:
    """What a run gives to all its hosts."""

    playbook: Path
    check: bool
    #: what its locks are called
    run: str
    extra: Mapping[str, Any]
    redactor: Redactor
    cancelled: threading.Event
    #: host, task, message, elapsed seconds, percentage
    progress: Callable[[str, str, str, float, float | None], None]


@dataclass(frozen=True)
class Ready:
    """A task (or one turn of its loop), rendered for a host."""

    params: Params
    view: View
    probe: Probe


@dataclass
class HostPlay:
    """A play on one host. ``variables`` are the host's merged ones, templates not rendered."""

    host: Host
    play: Play
    settings: Settings
    variables: Mapping[str, Any]
    around: Surroundings
    #: tasks that come after the current one
    ahead: Sequence[Task] = ()
    replies: Replies = field(init=False)
    _settings: Mapping[str, Any] = field(init=False)
    #: what the first look at the host would have had each task change
    _first: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    _looked: bool = False
    #: check mode, and an earlier task would have changed something or may have
    _tentative: bool = False
    #: what the current task has changed and warned of so far
    _done: list[Change] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replies = Replies(self._remote)
        # whole, with all defaults, and secrets as the type that shows itself as stars
        self._settings = self.settings.model_dump()

    def run(self, task: Task, ahead: Sequence[Task]) -> TaskResult:
        """Carry a task out (in check mode: look what it would do); never raises.

        Registers its result and facts, and notifies its handlers.
        """
        self._done, self._said = [], []
        began = time.monotonic()
        try:
            items = list(self._run_items(task, ahead, began))
            result = merged(items, looped=task.loop is not None)
        except NotKnown as error:
            result = unknown(str(error))
        except Exception as error:
            result = failed(self._as_klops_error(error, task), self._said, self._done)
        result = replace(result, seconds=time.monotonic() - began)
        self._keep(task, result)
        return result

    # -- one task --------------------------------------------------------------------------------------------

    def _run_items(self, task: Task, ahead: Sequence[Task], began: float) -> Iterator[Item]:
        turns = [(task, turn) for turn in self._turns(task)]
        reach = Reach(len(turns))
        for place, (_, turn) in enumerate(turns):
            if self.around.cancelled.is_set():
                raise Interrupted("interrupted")
            # as far as it looks ahead; behind the last turn are the tasks that follow
            rest = turns[place + 1 : place + 1 + reach.turns]
            self.ahead = ahead if place + 1 + reach.turns >= len(turns) else ()
            item = None if turn is _NO_ITEM else turn
            done, said, forgotten = len(self._done), len(self._said), self.replies.forgotten
            try:
                result = self._run_item(task, turn, rest, began)
            except NotKnown as error:
                result = unknown(str(error))
            except (HostUnreachable, Interrupted):
                raise
            except KlopsError as error:
                result = self._failed(error, task, self._said[said:], self._done[done:])
            reach.after(changed=self.replies.forgotten != forgotten)
            yield Item(item, result)

    def _turns(self, task: Task) -> list[Any]:
        """The values of ``item``; one without any when there is no loop."""
        if task.loop is None:
            return [_NO_ITEM]
        templar = self._templar(task, _NO_ITEM)
        try:
            found = templar.render(task.loop)
        except (TaskFailed, NotKnown):
            # as in Ansible: a condition that doesn't hold anyway spares the loop
            if self._conditions_without_item(task, templar):
                return [_NO_ITEM]
            raise
        if not isinstance(found, list):
            raise TaskFailed(f"loop gave {type(found).__name__}, not a list", code="loop")
        return found

    def _conditions_without_item(self, task: Task, templar: Templar) -> bool:
        try:
            return bool(failing(task.when, templar))
        except (TaskFailed, NotKnown):
            return False

    def _run_item(self, task: Task, turn: Any, rest: list[tuple[Task, Any]], began: float) -> TaskResult:
        ready = self._ready(task, turn)
        if isinstance(ready, str):
            return skipped(ready)
        plan = self._plan(task, ready, rest)
        warnings = (*plan.warnings, *self._moved(task, turn, plan))
        if plan.failure is not None:
            return self._failed(plan.failure, task, warnings)
        if self._checks(task) or plan.skipped or not plan.steps:
            return planned(plan, self._checks(task), warnings)
        return self._apply(task, ready, plan, warnings, began)

    def _ready(self, task: Task, turn: Any) -> Ready | str:
        """The task rendered, or the condition because of which it doesn't run here."""
        templar = self._templar(task, turn)
        condition = failing(task.when, templar)
        if condition:
            return condition
        rendered = params.render(task.action, task.params, templar)
        view = View(
            self.host.name,
            self.settings,
            templar.variables,
            templar.text,
            check=self._checks(task),
            run=self.around.run,
        )
        return Ready(rendered, view, task.action.probe(rendered, view))

    def _plan(self, task: Task, ready: Ready, rest: list[tuple[Task, Any]]) -> Plan:
        replies = self.replies.of(ready.probe, lambda: self._reads_ahead(task, rest))
        if ready.probe.reads and not self._looked:
            self._looked = True
            self._note_first(task, rest)
        return self._planned(task, ready, replies)

    def _planned(self, task: Task, ready: Ready, replies: Mapping[str, Any]) -> Plan:
        files = {
            key: read_local(self.around.playbook, kind, path)
            for key, (kind, path) in ready.probe.files.items()
        }
        plan: Plan = task.action.plan(ready.params, ready.view, Seen(replies, files))
        return plan

    def _apply(
        self, task: Task, ready: Ready, plan: Plan, warnings: tuple[str, ...], began: float
    ) -> TaskResult:
        message, said = plan.message, len(self._said)
        self._said += warnings
        try:
            added = self._carry_out(task, ready, plan, began)
        except ConnectionLost as lost:
            if self.around.cancelled.is_set():
                raise
            again = self._plan_again(task, ready, lost)
            message = "the connection was lost in mid-change; the host was asked again, and " + (
                "the rest was done by a new plan" if again.steps else "nothing was left to do"
            )
            added = self._carry_out(task, ready, again, began) if again.steps else dict(again.result)
        return planned(plan, check=False, warnings=self._said[said:], added=added, message=message)

    def _plan_again(self, task: Task, ready: Ready, lost: ConnectionLost) -> Plan:
        """After a lost connection: what is left to do. A change is never repeated without having looked."""
        self.replies.forget()
        again = self._plan(task, ready, [])
        if again.unknown:
            # nothing on the host tells whether it had its effect
            text = f"{lost.message}: whether {again.steps[0].change().what!r} had its effect is not known"
            raise ConnectionLost(text, hint="look at the host before you run it again") from lost
        if again.failure is not None:
            raise again.failure
        return again

    def _carry_out(self, task: Task, ready: Ready, plan: Plan, began: float) -> dict[str, Any]:
        def progress(now: Progress) -> None:
            if self.around.cancelled.is_set():
                raise Interrupted("interrupted")
            self.around.progress(
                self.host.name, task.name, now.message, time.monotonic() - began, now.percent
            )

        try:
            if plan.changes:
                self.host.lock(self.play.become, self.settings)
            context = Context(self._remote(), ready.view, progress, self._said.append, self._done)
            return task.action.apply(plan, context)
        finally:
            self.replies.forget()

    # -- looking ahead ---------------------------------------------------------------------------------------

    def _reads_ahead(self, task: Task, rest: list[tuple[Task, Any]]) -> list[Read]:
        return [read for _, _, ready in self._ready_ahead(task, rest) for read in ready.probe.reads]

    def _ready_ahead(self, task: Task, rest: list[tuple[Task, Any]]) -> Iterator[tuple[Task, Any, Ready]]:
        """Later turns and tasks that can be rendered now."""
        variables = self._templar(task, _NO_ITEM).variables
        for later in waits.renderable(self.ahead, variables, task.assigns):
            rest = [*rest, *((later, turn) for turn in _unless_wrong(self._turns, later) or ())]
        for later, turn in rest:
            ready = _unless_wrong(self._ready, later, turn)
            if isinstance(ready, Ready):
                yield later, turn, ready

    def _note_first(self, task: Task, rest: list[tuple[Task, Any]]) -> None:
        """Remember what later tasks would change by the first look, to say so when that moves."""
        for later, turn, ready in self._ready_ahead(task, rest):
            plan = _unless_wrong(self._plan_from_known, later, ready)
            if plan is not None and plan.failure is None and not plan.unknown:
                self._first[_turn_key(later, turn)] = tuple(change.what for change in plan.changes)

    def _plan_from_known(self, task: Task, ready: Ready) -> Plan:
        return self._planned(task, ready, self.replies.of(ready.probe, lambda: ()))

    def _moved(self, task: Task, turn: Any, plan: Plan) -> tuple[str, ...]:
        first = self._first.pop(_turn_key(task, turn), None)
        now = tuple(change.what for change in plan.changes)
        if first is None or first == now or self.replies.forgotten == 0:
            return ()
        return (f"the plan moved after an earlier change: {_list(first)} became {_list(now)}",)

    # -- what is kept ----------------------------------------------------------------------------------------

    def _keep(self, task: Task, result: TaskResult) -> None:
        facts = result.values.get("ansible_facts")
        if isinstance(facts, Mapping):
            self.host.data.update(facts)
        reason = f"the result of {task.name!r} only shows when it is applied"
        if result.status is Status.UNKNOWN:
            self.host.data.update({name: Pending({}, reason) for name in task.assigns - {task.register}})
        if task.register:
            tentative = self._checks(task) and result.status in (Status.CHANGED, Status.UNKNOWN)
            values = dict(result.values)
            if tentative:
                # of a loop's turns nothing is certain
                values.pop("results", None)
            if result.status is Status.UNKNOWN:
                values.pop("changed", None)
            self.host.data[task.register] = Pending(values, reason) if tentative else values
        self._tentative |= self._checks(task) and result.status in (Status.CHANGED, Status.UNKNOWN)
        if result.status is Status.CHANGED:
            self.host.notified.update(dict.fromkeys(task.notify, ""))
        elif result.status is Status.UNKNOWN:
            for name in task.notify:
                self.host.notified.setdefault(name, f"runs only if {task.name!r} changes something")

    # -- small things ----------------------------------------------------------------------------------------

    def _checks(self, task: Task) -> bool:
        return self.around.check or task.check_mode

    def _remote(self) -> Remote:
        remote = self.host.remote(self.play.become)
        return ReadOnlyRemote(remote) if self.around.check else remote

    def _templar(self, task: Task, turn: Any) -> Templar:
        item = {} if turn is _NO_ITEM else {"item": turn}
        magic = {
            "ansible_check_mode": self._checks(task),
            "playbook_dir": str(self.around.playbook.resolve().parent),
            "klops_settings": self._settings,
        }
        return Templar(
            scope(
                Layer(item, templates=False),
                Layer(self.around.extra, templates=True),
                Layer(self.host.data, templates=False),
                Layer(task.vars, templates=True),
                Layer(self.variables, templates=True),
                Layer(magic, templates=False),
            )
        )

    def _failed(
        self, error: KlopsError, task: Task, warnings: Sequence[str] = (), done: Sequence[Change] = ()
    ) -> TaskResult:
        if self._tentative and error.code in _MAY_COME:
            return unknown(
                f"as things are it would fail, but an earlier task may change that: {error.message}"
            )
        return failed(self._placed(error, task), warnings, done)

    def _placed(self, error: KlopsError, task: Task) -> KlopsError:
        """Mistakes in what the author wrote say where that is."""
        if error.code in ("template", "undefined", "parameters", "condition", "loop"):
            error.message = f"{task.location}: {error.message}"
            error.args = (error.message,)
        return error

    def _as_klops_error(self, error: Exception, task: Task) -> KlopsError:
        if self.around.cancelled.is_set():
            # connections were closed under the task: whatever that looks like, this is what it is
            return error if isinstance(error, Interrupted) else Interrupted("interrupted")
        if isinstance(error, KlopsError):
            return self._placed(error, task)
        log = get_logger("klops.playbook")
        trace = self.around.redactor("".join(traceback.format_exception(error)))
        log.debug("fault of klops", host=self.host.name, task=task.name, traceback=trace)
        text = f"a fault of klops in {task.action.name}: {type(error).__name__}: {error}"
        return KlopsError(text, hint="run it again with -v and report what it shows", code="internal")


def _unless_wrong(work: Callable[..., T], *args: Any) -> T | None:
    """What ``work`` gives, or None: a task that can't be looked at ahead says why when its turn comes."""
    try:
        return work(*args)
    except (KlopsError, NotKnown):
        return None


def _turn_key(task: Task, turn: Any) -> tuple[int, str]:
    return id(task), "" if turn is _NO_ITEM else repr(turn)


def _list(changes: tuple[str, ...]) -> str:
    return "; ".join(changes) if changes else "nothing to do"
