"""One task on one host: its turns, each rendered, planned, applied and judged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from klops.actions.base import Progress
from klops.errors import HostUnreachable, Interrupted, KlopsError
from klops.playbook.model import Task
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks import retrying
from klops.playbook.tasks.carrying import Carrying
from klops.playbook.tasks.conditions import hold
from klops.playbook.tasks.failures import Failures
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.keeping import keep_facts, value_of
from klops.playbook.tasks.lookahead import Later, LookAhead
from klops.playbook.tasks.loops import ONLY, Turn
from klops.playbook.tasks.outcome import Done, Item, merged, planned, skipped, unknown
from klops.playbook.tasks.place import Places
from klops.playbook.tasks.reach import Reach
from klops.playbook.tasks.redaction import HIDDEN
from klops.playbook.tasks.rendering import Ready, Renderer
from klops.playbook.tasks.scopes import Scopes
from klops.playbook.tasks.surroundings import Notes, Surroundings
from klops.playbook.tasks.verdict import judged
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import Templar


@dataclass
class Parts:
    """What all tasks of a host in a play share."""

    host: Host
    around: Surroundings
    places: Places
    scopes: Scopes
    renderer: Renderer
    look: LookAhead
    failures: Failures


@dataclass
class Turning:
    """A task on its way through the turns of its loop, on one host."""

    parts: Parts
    notes: Notes | None
    task: Task
    ahead: Sequence[Task]
    done: Done
    began: float
    #: a rescue takes care of a failure
    caught: bool = False

    def __post_init__(self) -> None:
        self.around = self.parts.around
        self.scopes = self.parts.scopes
        self.look = self.parts.look
        self.checks = self.around.check or self.task.check_mode
        self.later = self.ahead[: self.look.reach.turns]
        self._asked_again = False

    def result(self) -> TaskResult:
        """All turns."""
        before = self.parts.host.changes
        try:
            self.look.facts_for(self.task, self.later)
            items = list(self._items())
        finally:
            # what was read ahead is worthless then
            changed = self.done.times > 0 or self._asked_again or self.parts.host.changes != before
            self.look.reach.after(changed=changed)
        # a condition that doesn't hold spares the loop: then there are no turns
        spared = len(items) == 1 and not items[0].variables
        return merged(items, looped=self.task.loop is not None and not spared)

    def _items(self) -> Iterator[Item]:
        control = self.task.loop_control
        turns = self.parts.renderer.turns(self.task)
        if turns == [ONLY]:
            yield Item(None, {}, self._turn(ONLY, (), self.later))
            return
        reach = Reach(len(turns))
        # made once: a slice of it for each turn costs next to nothing, a list built for each turn a lot
        laters = [(self.task, turn) for turn in turns]
        for place, turn in enumerate(turns):
            if place and self._paused(turn):
                reach.after(changed=True)
            # as far as it looks ahead; behind the last turn are the tasks that follow
            rest = laters[place + 1 : place + 1 + reach.turns]
            tasks = self.later if place + 1 + reach.turns >= len(turns) else ()
            times = self.done.times
            result = self._turn(turn, rest, tasks)
            reach.after(changed=self.done.times != times)
            seen = self._seen(turn, result)
            yield Item(self._label(turn, seen), turn.variables, result)
            if control.break_when and hold(control.break_when, seen):
                return
            if result.status is Status.UNREACHABLE and self.task.delegate_to is None:
                return

    def _paused(self, turn: Turn) -> bool:
        """Wait between two turns where the task says so; not in check mode, where nothing happens."""
        raw = self.task.loop_control.pause
        if not raw or self.checks:
            return False
        seconds = retrying.number("pause", raw, self.scopes.templar(self.task, turn))
        retrying.wait(seconds, self.around.cancelled)
        # what is waited for happens on the host: what was read before is no longer to be relied on
        self.parts.host.touched()
        return seconds > 0

    def _label(self, turn: Turn, seen: Templar) -> Any:
        label = self.task.loop_control.label
        return turn.item if label is None else seen.render(label)

    def _turn(self, turn: Turn, rest: Sequence[Later], tasks: Sequence[Task]) -> TaskResult:
        if self.around.cancelled.is_set():
            raise Interrupted("interrupted")
        changes, said = len(self.done.changes), len(self.done.said)
        place = ""
        try:
            ready = self.parts.renderer.ready(self.task, turn)
            if isinstance(ready, str):
                return skipped(ready)
            if ready.place.host.name != self.parts.host.name:
                place = ready.place.host.name
            result = self._tried(turn, ready, rest, tasks)
            keep_facts(self.task, result.values, self._facts_host(ready))
        except NotKnown as error:
            self._may_do(turn)
            result = unknown(str(error))
        except KlopsError as error:
            if self._interrupted(error):
                raise
            result = self.parts.failures.result(
                error, self.task, self.done.said[said:], self.done.changes[changes:]
            )
        return replace(result, place=place) if place else result

    def may_run(self) -> None:
        """A dry run: whether the task runs isn't known, and so what it would change isn't either."""
        try:
            turns = self.parts.renderer.turns(self.task)
        except (KlopsError, NotKnown):
            return
        for turn in turns:
            self._may_do(turn)

    def _may_do(self, turn: Turn) -> None:
        if not self.around.check:
            return
        try:
            ready = self.parts.renderer.ready(replace(self.task, when=()), turn)
            if isinstance(ready, Ready):
                plan = self.look.plan(self.task, ready)
                ready.place.host.foreseen.add(one.unsure for one in plan.touches)
        except (KlopsError, NotKnown):
            # where its parameters aren't known, nobody can say what it touches
            return

    def _facts_host(self, ready: Ready) -> Host:
        return ready.place.host if self.task.delegate_facts else self.parts.host

    def _tried(self, turn: Turn, ready: Ready, rest: Sequence[Later], tasks: Sequence[Task]) -> TaskResult:
        templar = self.scopes.templar(self.task, turn)
        most = retrying.tries(self.task, templar)

        def once(attempt: int) -> TaskResult:
            if attempt > 1:
                # only what this task needs is asked anew; who comes later reads for itself
                self._asked_again = True
                ready.place.replies.forget()
                result = self._once(turn, ready, (), ())
            else:
                result = self._once(turn, ready, rest, tasks)
            if most > 1:
                result = retrying.numbered(result, attempt)
            return judged(self.task, result, lambda seen: self._seen(turn, seen))

        if most == 1:
            return once(1)
        return retrying.until(
            self.task,
            most,
            retrying.delay(self.task, templar),
            once,
            lambda seen: self._seen(turn, seen),
            lambda attempt: self._progress(Progress(f"attempt {attempt} of {most}")),
            check=self.checks,
            cancelled=self.around.cancelled,
        )

    def _once(self, turn: Turn, ready: Ready, rest: Sequence[Later], tasks: Sequence[Task]) -> TaskResult:
        changes, said = len(self.done.changes), len(self.done.said)
        planned_values: Mapping[str, Any] = {}
        try:
            plan = self.look.plan(self.task, ready, rest, tasks)
            planned_values = plan.result
            if self.around.check:
                ready.place.host.foreseen.add(plan.touches)
            warnings = (*plan.warnings, *self.look.moved(self.task, turn, ready.place, plan))
            if plan.failure is None and (self.checks or plan.skipped or not plan.steps):
                return planned(plan, self.checks, warnings)
            self.done.said += warnings
            if plan.failure is not None:
                raise plan.failure
            added, message = self._carrying().apply(ready, plan)
        except KlopsError as error:
            if self._interrupted(error) or isinstance(error, HostUnreachable):
                raise
            done = self.done
            return self.parts.failures.result(
                error, self.task, done.said[said:], done.changes[changes:], planned_values
            )
        return planned(
            plan,
            check=False,
            warnings=self.done.said[said:],
            added=added,
            message=message,
            made=self.done.changes[changes:],
        )

    def _interrupted(self, error: KlopsError) -> bool:
        # connections are closed under the task then, which may look like anything
        return isinstance(error, Interrupted) or self.around.cancelled.is_set()

    def _carrying(self) -> Carrying:
        return Carrying(
            self.task,
            self.parts.places.home,
            lambda ready: self.look.plan(self.task, ready),
            self.done,
            self._progress,
            self.around.cancelled,
            self.notes,
        )

    def _seen(self, turn: Turn, result: TaskResult) -> Templar:
        """What sees a result of this task under the name that it registers."""
        registered = (
            {self.task.register: value_of(self.task, result, self.caught)} if self.task.register else {}
        )
        return self.scopes.templar(self.task, turn, registered)

    def _progress(self, now: Progress) -> None:
        message = HIDDEN if self.task.no_log else now.message
        elapsed = time.monotonic() - self.began
        self.around.progress(self.parts.host.name, self.task.name, message, elapsed, now.percent)
