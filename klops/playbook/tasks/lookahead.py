"""What later tasks and turns need is read together with what the current one needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from klops.actions.base import Plan
from klops.errors import KlopsError
from klops.playbook.model import Task
from klops.playbook.tasks import facts, waits
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.loops import Turn
from klops.playbook.tasks.place import Place, Places
from klops.playbook.tasks.reach import Reach
from klops.playbook.tasks.rendering import Ready, Renderer
from klops.playbook.tasks.scopes import Scopes
from klops.playbook.template.pending import NotKnown

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: Letters of a change from which on it is told shortly.
_LONG = 80

T = TypeVar("T")
#: a later turn of the current task, or of a later one
Later = tuple[Task, Turn]
#: one of them, rendered
Found = tuple[Task, Turn, Ready]


@dataclass
class LookAhead:
    """For one host of a play."""

    host: Host
    renderer: Renderer
    scopes: Scopes
    places: Places
    #: how many of the tasks that follow are looked at with the current one
    reach: Reach = field(default_factory=lambda: Reach(spared=1))
    #: what the first look at the host would have had each task change
    _first: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    _looked: bool = False

    def plan(self, task: Task, ready: Ready, rest: Sequence[Later] = (), tasks: Sequence[Task] = ()) -> Plan:
        """The plan of a task. ``rest``, turns of it, and ``tasks`` after it may be read with this one."""
        found: list[Found] = []

        def ahead() -> Iterator[Read]:
            found.extend(self._ready(task, ready.place, rest, tasks))
            # those that are planned right after this
            for one in (ready, *(() if self._looked else (later for _, _, later in found))):
                self.renderer.begin(one)
            return self._reads(task, ready.place, found, tasks)

        replies = ready.place.replies.of(ready.probe, ahead)
        if ready.probe.reads and not self._looked:
            self._looked = True
            self._note_first(found or self._ready(task, ready.place, rest, tasks))
        return self.renderer.plan(task, ready, replies)

    def facts_for(self, task: Task, tasks: Sequence[Task]) -> None:
        """Read the facts of the host if ``task`` needs them, with what ``tasks`` after it read there."""
        if self.host.facts is None and facts.NAMES & waits.needed(task, self.scopes.templar(task).variables):
            home = self.places.home
            found = self._ready(task, home, (), tasks)
            home.replies.of(facts.PROBE, lambda: self._reads(task, home, found, tasks))
            facts.of(self.host, lambda: home.replies)

    def moved(self, task: Task, turn: Turn, place: Place, plan: Plan) -> tuple[str, ...]:
        """Says so when the plan differs from what the first look at the host would have given."""
        first = self._first.pop(_key(task, turn), None)
        now = tuple(change.what for change in plan.changes)
        if task.action.follows or first is None or first == now or place.replies.forgotten == 0:
            return ()
        return (f"the plan moved after an earlier change: {_list(first)} became {_list(now)}",)

    def _reads(
        self, task: Task, place: Place, found: Iterable[Found], tasks: Sequence[Task]
    ) -> Iterator[Read]:
        if place is self.places.home and self.host.facts is None and self._facts_wanted(task, tasks):
            yield from facts.PROBE.reads
        for _, _, ready in found:
            yield from ready.probe.reads

    def _facts_wanted(self, task: Task, tasks: Sequence[Task]) -> bool:
        variables = self.scopes.templar(task).variables
        return any(facts.NAMES & waits.needed(later, variables) for later in tasks)

    def _ready(
        self, task: Task, place: Place, rest: Sequence[Later], tasks: Sequence[Task]
    ) -> Iterator[Found]:
        """Later turns and tasks at ``place`` that can be rendered now."""
        variables = self.scopes.templar(task).variables
        # nothing is rendered that would have facts read by itself
        unknown = task.assigns if self.host.facts is not None else task.assigns | facts.NAMES
        wanted = list(rest)
        for later in waits.renderable(tasks, variables, unknown):
            wanted += [(later, turn) for turn in _unless_wrong(self.renderer.turns, later) or ()]
        for later, turn in wanted:
            ready = _unless_wrong(self.renderer.ready, later, turn)
            if isinstance(ready, Ready) and ready.place is place:
                yield later, turn, ready

    def _note_first(self, found: Iterable[Found]) -> None:
        """Remember what later tasks would change by the first look, to say so when that moves."""
        for later, turn, ready in found:
            plan = _unless_wrong(self._plan_from_known, later, ready)
            if plan is not None and plan.failure is None and not plan.unknown:
                self._first[_key(later, turn)] = tuple(change.what for change in plan.changes)

    def _plan_from_known(self, task: Task, ready: Ready) -> Plan:
        return self.renderer.plan(task, ready, ready.place.replies.of(ready.probe, tuple))


def _unless_wrong(work: Callable[..., T], *args: Any) -> T | None:
    """What ``work`` gives, or None: a task that can't be looked at ahead says why when its turn comes."""
    try:
        return work(*args)
    except (KlopsError, NotKnown):
        return None


def _key(task: Task, turn: Turn) -> tuple[int, str]:
    return id(task), turn.key


def _list(changes: tuple[str, ...]) -> str:
    return "; ".join(map(_short, changes)) if changes else "nothing to do"


def _short(change: str) -> str:
    """A change for a line with another: what is in brackets of a long one, such as a command, is left out."""
    return change if len(change) <= _LONG else f"{change[:_LONG].partition(' (')[0]} ..."
