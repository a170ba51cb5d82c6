"""In which order the hosts of a batch carry out their steps."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from klops.playbook.plays.walk import Step

if TYPE_CHECKING:
    from klops.playbook.model import Play, Task
    from klops.playbook.plays.batch import Batch
    from klops.playbook.plays.lane import Lane
    from klops.playbook.plays.steps import Outcome


def linear(batch: Batch) -> None:
    """All hosts at the least position do their task side by side, then all at the next one.

    A host that is behind, because it has more tasks in a rescue or an included file, catches up so.
    """
    while going := batch.going():
        first = min((lane.step for lane in going if lane.step), key=lambda step: step.position)
        batch.together([lane for lane in going if lane.step and lane.step.same_place(first)])


def free(batch: Batch) -> None:
    """Each host goes on as soon as its own task is done; ``throttle`` counts the hosts at one task.

    Of a task whose action runs once, the first host that comes to it takes care.
    """
    working: dict[Future[Outcome], Lane] = {}
    while True:
        busy = {id(lane) for lane in working.values()}
        for lane in batch.going():
            if id(lane) in busy:
                continue
            batch.spare(lane)
            if lane.going and _has_room(lane, working.values()):
                working[batch.submit(lane)] = lane
        if not working:
            return
        for future in batch.workers.done(working):
            lane = working.pop(future)
            batch.alone(lane, future.result())


def not_with_free(play: Play, tasks: Iterable[Task]) -> list[str]:
    """Keywords that a play uses and that, as in Ansible, are without effect with the free strategy."""
    tasks = list(tasks)
    used = {
        "run_once": any(task.run_once for task in tasks),
        "any_errors_fatal": any(task.any_errors_fatal for task in tasks),
        "max_fail_percentage": play.max_fail_percentage is not None,
    }
    return [keyword for keyword, is_used in used.items() if is_used]


def _has_room(lane: Lane, working: Iterable[Lane]) -> bool:
    step = lane.step
    if not isinstance(step, Step) or step.task.throttle <= 0:
        return True
    there = [other for other in working if other.step is not None and step.same_place(other.step)]
    return len(there) < step.task.throttle
