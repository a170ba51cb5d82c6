"""Drives a plan: its batches go to the ranks, what came of them goes back to it, until it has its result."""

from __future__ import annotations

from typing import Any, Callable, Generator, List, Mapping, Sequence

from klops.agent.xccl.runner import Runner
from klops.cards.xccl import bandwidth
from klops.cards.xccl.planning import tournament
from klops.cards.xccl.planning.merge import Runs
from klops.cards.xccl.results import OK, UNTESTED, Aim, Batch, Diagnosis, Outcome, Test

#: Batches beside those of the tournament: the first groups, singles, candidates.
_BESIDE = 3
#: Sizes of groups of a scan.
WORLDS = (2, 4, 8)
#: Bytes a rank. 2.6 MB is what one layer of a served model adds up (p800.md 3.5).
SIZES = {
    "cuda": (64 << 10, 1 << 20, 2_600_000, 16 << 20, 256 << 20),
    "cpu": (64 << 10, 1 << 20, 2_600_000, 4 << 20),
}
Plan = Generator[Batch, Sequence[Outcome], Diagnosis]
#: Told what is done now, and percent.
Progress = Callable[[str, float], None]


def drive(plan: Plan, runner: Runner, aim: Aim, progress: Progress) -> Diagnosis:
    """Carry a plan out. How much there is to come isn't known before the end: percent are of what may be."""
    expected = _BESIDE + len(tournament.rounds(aim.cards, aim.serial))
    done = 0
    try:
        batch = next(plan)
        while True:
            progress(batch.title, min(95.0, round(100.0 * done / expected, 1)))
            outcomes = runner.batch(batch)
            done += 1
            batch = plan.send(outcomes)
    except StopIteration as end:
        diagnosis: Diagnosis = end.value
        return diagnosis


def scan(runner: Runner, aim: Aim, progress: Progress) -> Mapping[str, Any]:
    """All-reduces of the first 2, 4 and 8 cards.

    ``scan`` has a row a size, ``failed`` the groups that failed, ``untested`` how large those were that there
    was no time for. One that fails is repeated in fresh processes, as in a diagnosis, while that could change
    whether it counts as failed: ``failures`` of its ``runs``.
    """
    runs = Runs(aim.tries, aim.needed)
    rows: List[Mapping[str, Any]] = []
    failed: List[Mapping[str, Any]] = []
    untested: List[int] = []
    worlds = [world for world in WORLDS if world <= len(aim.cards)]
    for number, world in enumerate(worlds):
        title, fresh = f"the first {world} cards together", False
        test = Test(tuple(aim.cards[:world]))
        while not fresh or runs.doubtful(test.cards):
            progress(title, round(100.0 * number / len(worlds), 1))
            (run,) = runner.batch(Batch((test,), fresh, title))
            runs.add(run)
            if run.status == UNTESTED:
                break
            title, fresh = f"the first {world} cards once more", True
        one = runs.of(test.cards)
        if one is None:
            untested.append(world)
            continue
        rows += [_row(world, sample.bytes, sample.us, sample.wrong) for sample in one.samples]
        if one.status != OK:
            told = {"status": one.status, "stage": one.stage, "error": one.error}
            failed.append({"world": world, **told, "runs": one.runs, "failures": one.failures})
    return {"scan": rows, "failed": failed, "untested": untested}


def _row(world: int, count: int, us: float, wrong: int) -> Mapping[str, Any]:
    algbw = bandwidth.algorithm(count, us)
    return {
        "world": world,
        "bytes": count,
        "us": us,
        "algbw": round(algbw, 4),
        "busbw": round(bandwidth.bus(algbw, world), 4),
        "wrong": wrong,
    }
