"""One step of one host: carried out, shown, and put on record."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from klops.actions.control import meta
from klops.errors import KlopsError
from klops.playbook.events import Warned
from klops.playbook.model import Item, Task
from klops.playbook.plays import includes
from klops.playbook.plays.includes import Includes
from klops.playbook.plays.lane import Lane
from klops.playbook.plays.notified import LEFT_OVER
from klops.playbook.plays.tally import Tally
from klops.playbook.plays.walk import Done, Position, Step
from klops.playbook.results import PlayRun, Status, TaskResult, TaskRun
from klops.playbook.tasks.outcome import failed, unknown
from klops.playbook.tasks.redaction import hidden, redacted, redacted_error

_LOST = (Status.FAILED, Status.RESCUED)


@dataclass(frozen=True)
class Outcome:
    """What became of a step: for the walk, and as a result that is not redacted (None for no task)."""

    done: Done
    result: TaskResult | None = None

    @property
    def lost(self) -> bool:
        """Failed or unreachable, and that is not ignored."""
        result = self.result
        return result is not None and not result.ignored and result.status in (*_LOST, Status.UNREACHABLE)

    @property
    def unreachable(self) -> bool:
        """Unreachable, and that is not ignored."""
        return self.lost and self.result is not None and self.result.status is Status.UNREACHABLE


@dataclass
class Steps:
    """Carries steps out and keeps the records of their tasks; used by the threads of all hosts of a batch."""

    record: PlayRun
    tally: Tally
    includes: Includes
    _entries: dict[tuple[Position, str], TaskRun] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def carry_out(self, lane: Lane) -> Outcome:
        """Do the step that a host is at."""
        step = lane.step
        if not isinstance(step, Step):
            self._put_down(lane)
            return Outcome(Done())
        result, included = self._result(lane, step)
        if lane.notes is not None:
            for text in lane.notes.warnings():
                self.tally.emit(Warned(lane.host.name, text))
        if result.status is Status.FAILED and step.caught and not result.ignored and not self.tally.cancelled:
            lane.play.note_failure(step.task, result)
            result = replace(result, status=Status.RESCUED)
        self._show(lane, step, result)
        if step.task.no_log:
            # it is what the host drops out with, and is told again at the end
            told = hidden(result)
            result = replace(result, error=told.error, message=told.message)
        lost = result.status in _LOST and not result.ignored
        if lost and result.error is not None and not step.caught and not self.tally.cancelled:
            lane.play.note_lost(step.task, result.error)
        return Outcome(Done(lost, _order(step.task, result), included), result)

    def _result(self, lane: Lane, step: Step) -> tuple[TaskResult, tuple[tuple[Item, ...], ...]]:
        due = step.due
        if due is not None and due.unsure:
            lane.play.may_run(step.task)
            return unknown(due.unsure), ()
        result = lane.play.run(step.task, step.ahead, caught=step.caught)
        included: tuple[tuple[Item, ...], ...] = ()
        if includes.has_tasks(step.task, result):
            try:
                included = self.includes.open(step.task, result, step.depth)
                result = replace(result, turns=max(len(included), 1))
            except KlopsError as error:
                result = failed(error)
        if due is not None and due.left_over:
            result = replace(result, message=f"{LEFT_OVER}: {result.message}".removesuffix(": "))
        if due is not None and lane.notes is not None and result.status not in (*_LOST, Status.UNREACHABLE):
            lane.notes.ran(step.task)
        return result, included

    def _put_down(self, lane: Lane) -> None:
        if lane.notes is None or self.tally.cancelled:
            return
        try:
            lane.notes.flushed()
        except KlopsError as error:
            text = f"{lane.notes.path} still names handlers that have run, and they will run again"
            why = redacted_error(error, self.tally.redactor)
            self.tally.emit(Warned(lane.host.name, f"{text}: {why}"))

    def _show(self, lane: Lane, step: Step, result: TaskResult) -> None:
        task = step.task
        if task.action.name == meta.NAME and result.status in (Status.OK, Status.SKIPPED):
            return
        shown = redacted(hidden(result) if task.no_log else result, self.tally.redactor)
        entry = self.entry(lane, step)
        entry.hosts[lane.host.name] = shown
        self.tally.finished(lane.host.name, entry, shown)

    def entry(self, lane: Lane, step: Step) -> TaskRun:
        """The record of a task; the first host that comes to it makes it."""
        key = (step.position, str(step.task.location))
        with self._guard:
            if key not in self._entries:
                handler = step.due is not None
                made = TaskRun(lane.play.title(step.task), step.task.action.name, handler=handler)
                self._entries[key] = made
                self.record.tasks.append(made)
                self.tally.started(made)
            return self._entries[key]

    def sort(self, hosts: Sequence[str]) -> None:
        """Put the tasks in the order of the playbook and their hosts in that of ``hosts``."""
        places = {id(entry): position for (position, _), entry in self._entries.items()}
        self.record.tasks.sort(key=lambda entry: places[id(entry)])
        for entry in self.record.tasks:
            entry.hosts = {name: entry.hosts[name] for name in hosts if name in entry.hosts}


def _order(task: Task, result: TaskResult) -> str:
    """What ``meta`` orders of the engine; no result of another action is an order, whatever it holds."""
    if task.action.name != meta.NAME or result.status is not Status.OK:
        return ""
    return str(task.params[meta.Meta.free_form])
