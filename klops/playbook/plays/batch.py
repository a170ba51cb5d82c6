"""A batch of hosts in a play: runs their steps, and draws from the results what becomes of each host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from klops.actions.control import meta
from klops.errors import KlopsError
from klops.playbook.events import PlayEnded
from klops.playbook.model import Play, Task
from klops.playbook.plays.batches import too_many
from klops.playbook.plays.lane import Lane
from klops.playbook.plays.steps import Outcome, Steps
from klops.playbook.plays.tally import Tally
from klops.playbook.plays.walk import Done, Position, Step
from klops.playbook.plays.workers import Workers
from klops.playbook.results import Status, TaskResult


@dataclass
class Batch:
    """The hosts of a play that are worked on at a time. ``size`` counts those that failed before, too."""

    play: Play
    lanes: Sequence[Lane]
    size: int
    steps: Steps
    workers: Workers
    tally: Tally
    #: ``meta: end_play`` was met
    ends_play: bool = False
    #: too many hosts have failed: no other play begins
    ends_playbook: bool = False
    #: where hosts don't wait for each other: who came first to a task whose action runs once
    _first: dict[tuple[Position, str], Lane] = field(default_factory=dict)

    # -- for the strategies ----------------------------------------------------------------------------------

    def going(self) -> list[Lane]:
        """Hosts that have something to do."""
        return [lane for lane in self.lanes if lane.going]

    def submit(self, lane: Lane) -> Future[Outcome]:
        """Have the step of a host carried out."""
        submitted = self.workers.submit(partial(self.steps.carry_out, lane))
        self.tally.speak()
        return submitted

    def together(self, lanes: Sequence[Lane]) -> None:
        """Carry out the step that these hosts are at, side by side, and move them on."""
        step = lanes[0].step
        task = step.task if isinstance(step, Step) else None
        once = task is not None and (task.run_once or task.action.once or _is_for_all(task))
        working = lanes[:1] if once else lanes
        if isinstance(step, Step) and step.task.action.name != meta.NAME:
            # its heading stands before what its hosts say
            self.steps.entry(lanes[0], step)
        jobs = [partial(self.steps.carry_out, lane) for lane in working]
        most = 0 if task is None else task.throttle
        found = self.workers.side_by_side(jobs, most, meanwhile=self.tally.speak)
        outcomes = {id(lane): outcome for lane, outcome in zip(working, found, strict=True)}
        if once and isinstance(step, Step):
            outcomes |= self._shared(step, lanes, found[0])
        lost = next((one.result for one in found if one.lost), None)
        fatal = lost if task is not None and (task.any_errors_fatal or once) else None
        if fatal is not None and task is not None:
            self._tell(
                task, fatal, [lane for lane in self.going() if not _has_failed(outcomes.get(id(lane)))]
            )
        for lane in lanes:
            self._move(lane, outcomes[id(lane)], fatal is not None)
        if fatal is not None:
            self._fail_others(lanes, task)
        self._obey_all((lane, outcomes[id(lane)].done.order) for lane in lanes)
        self._count_failures()

    def spare(self, lane: Lane) -> None:
        """Move one host on over tasks whose action runs once and that another host came to before."""
        while isinstance(step := lane.step, Step) and step.task.action.once:
            if self._first.setdefault((step.position, str(step.task.location)), lane) is lane:
                return
            lane.advance(Done())
            self._drop_failed(lane)

    def alone(self, lane: Lane, outcome: Outcome) -> None:
        """Move on one host whose step was carried out."""
        if lane.step is None:
            return  # ended by another host's meta meanwhile
        self._move(lane, outcome, False)
        self._obey_all([(lane, outcome.done.order)])

    # -- what follows from it --------------------------------------------------------------------------------

    def _shared(self, step: Step, lanes: Sequence[Lane], outcome: Outcome) -> dict[int, Outcome]:
        """A task with ``run_once`` gives its result to all hosts; what it includes is for the first alone.

        As in Ansible one whose action runs once by itself gives it to nobody else.
        """
        others = [lane for lane in self.going() if lane is not lanes[0]]
        if outcome.result is not None and step.task.action.name != meta.NAME:
            for lane in others:
                if step.task.run_once:
                    lane.play.adopt(step.task, outcome.result, caught=step.caught)
                if lane.notes is not None and step.due is not None and not outcome.lost:
                    lane.notes.ran(step.task)
        done = replace(outcome.done, included=())
        return {id(lane): Outcome(done) for lane in others}

    def _move(self, lane: Lane, outcome: Outcome, fatal: bool) -> None:
        result = outcome.result
        if outcome.lost and result is not None and result.status is not Status.RESCUED:
            lane.error = result.error or KlopsError(result.message)
        if outcome.unreachable:
            lane.reachable = False
            self.tally.dropped(lane.host, lane.error)
            return
        lane.advance(replace(outcome.done, failed=True) if fatal else outcome.done)
        self._drop_failed(lane)

    def _tell(self, task: Task, result: TaskResult, lanes: Iterable[Lane]) -> None:
        """Hosts that fail with another one: their rescues are told what failed, as on that one."""
        for lane in lanes:
            if isinstance(lane.step, Step) and lane.step.caught:
                lane.play.note_failure(task, result)

    def _fail_others(self, lanes: Sequence[Lane], task: Task | None) -> None:
        """Hosts elsewhere in the play fail where they are; their rescues may take care of that."""
        moved = {id(lane) for lane in lanes}
        for lane in self.going():
            if id(lane) not in moved:
                lane.advance(Done(failed=True))
                self._drop_failed(lane)
        if not self.going() and task is not None:
            once = task.run_once or task.action.once
            why = "runs once for all hosts" if once else "has any_errors_fatal"
            title = lanes[0].play.title(task)
            self.tally.emit(PlayEnded(self.play.name, f"{title!r} failed, and it {why}"))

    def _drop_failed(self, lane: Lane) -> None:
        if lane.failed and lane.host.error is None:
            # one that has no error of its own fails with another host, which has one
            self.tally.dropped(lane.host, lane.error)

    def _count_failures(self) -> None:
        gone = sum(lane.failed for lane in self.lanes)
        if self.ends_playbook or not too_many(gone, self.size, self.play.max_fail_percentage):
            return
        self.ends_playbook = True
        for lane in self.lanes:
            if lane.step is not None:
                lane.end()
                if lane.host.error is None:
                    self.tally.dropped(lane.host, None)
        most = f"max_fail_percentage is {self.play.max_fail_percentage:g}"
        self.tally.emit(PlayEnded(self.play.name, f"{gone} of {self.size} hosts failed, and {most}"))

    def _obey_all(self, orders: Iterable[tuple[Lane, str]]) -> None:
        """What hosts ordered: each for itself, or for all where the order is one of those."""
        for_all: dict[str, None] = {}
        for lane, order in orders:
            if order in meta.FOR_ALL:
                for_all[order] = None
            else:
                self._obey(order, lane)
        for order in for_all:
            self.ends_play |= order == meta.END_PLAY
            for lane in self.lanes:
                self._obey(order, lane)

    def _obey(self, order: str, lane: Lane) -> None:
        match order:
            case meta.END_PLAY | meta.END_BATCH:
                _end(lane)
            case meta.CLEAR_FACTS:
                lane.host.forget_facts()
            case meta.RESET_CONNECTION:
                lane.host.reset()
            case meta.CLEAR_HOST_ERRORS:
                self._revive(lane)
            case "" | meta.NOOP | meta.END_HOST | meta.FLUSH_HANDLERS:
                pass  # the walk of the host itself does what is to be done
            case _:
                raise ValueError(f"nobody knows the order {order!r}")

    def _revive(self, lane: Lane) -> None:
        self.tally.revived(lane.host)
        lane.failed = False
        if not lane.reachable:
            lane.reachable = True
            lane.advance(Done())


def _end(lane: Lane) -> None:
    if lane.reachable:
        lane.end()


def _has_failed(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.lost


def _is_for_all(task: Task) -> bool:
    return task.action.name == meta.NAME and task.params.get(meta.Meta.free_form) in meta.FOR_ALL
