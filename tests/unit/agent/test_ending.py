"""Escalation goes by what still lives."""

from __future__ import annotations

import signal

from klops.agent.processes.procs import Process
from klops.agent.units.ending import GRACE, UNKILLABLE, Ending, unkillable


def process(pid: int, state: str = "S") -> Process:
    """A member."""
    return Process(pid, 1, 10, 10, state, pid * 10, f"p{pid}")


def sent(ending: Ending, living: list[Process], now: float) -> list[tuple[int, int]]:
    """Signals due, as (pid, signal)."""
    return [(who.pid, number) for who, number, _ in ending.due(living, now)]


def test_root_first_then_all_then_kill_then_unkillable() -> None:
    root, engine, worker = process(10), process(11), process(12)
    tree = [root, engine, worker]
    ending = Ending(100.0, 10, patience=30)
    assert sent(ending, tree, 100.0) == [(10, signal.SIGTERM)]
    assert sent(ending, tree, 110.0) == []
    # a TERM during the load of a model is lost: the root still lives when its time is up, and is asked again
    assert sent(ending, tree, 130.0) == [(pid, signal.SIGTERM) for pid in (10, 11, 12)]
    assert sent(ending, tree, 131.0) == []
    killed = 130.0 + GRACE
    assert sent(ending, tree, killed) == [(pid, signal.SIGKILL) for pid in (10, 11, 12)]
    stuck = [process(12, "D")]
    assert ending.stuck(stuck, killed + UNKILLABLE - 0.1) == []
    assert ending.stuck(stuck, killed + UNKILLABLE) == stuck
    assert "pid 12 (p12) in state D, card 3 5;" in unkillable(stuck, {12: [3, 5]})
    kills = [sent(ending, stuck, killed + second) for second in range(1, 30)]
    assert sum(len(some) for some in kills) == 2  # bounded: three in all
    assert ending.stuck([], killed + UNKILLABLE) == []
    assert [(one["cpid"], one["why"]) for one in ending.killed] == [
        (10, "outlived TERM"),
        (11, "outlived TERM"),
        (12, "outlived TERM"),
    ]


def test_it_counts_that_it_lives_and_not_in_which_state() -> None:
    ending = Ending(100.0, None, patience=30)
    for now in (100.0, 100.0 + GRACE):
        ending.due([process(12, "R")], now)
    spins = [process(12, "R")]  # in the driver, and the same start: it is the same process
    assert ending.stuck(spins, 100.0 + GRACE + UNKILLABLE) == spins
    assert "in state R, card none;" in unkillable(spins, {})


def test_after_the_root_is_gone_the_rest_is_asked_at_once() -> None:
    ending = Ending(100.0, 10, patience=30)
    sent(ending, [process(10), process(11)], 100.0)
    assert sent(ending, [process(11)], 100.3) == [(11, signal.SIGTERM)]


def test_a_killed_root_leaves_no_wait() -> None:
    assert sent(Ending(100.0, None, patience=30), [process(11)], 100.0) == [(11, signal.SIGTERM)]


def test_stopped_processes_cant_act_on_term() -> None:
    ending = Ending(100.0, None, patience=30)
    assert sent(ending, [process(11), process(12, "T")], 100.0) == [
        (11, signal.SIGTERM),
        (12, signal.SIGKILL),
    ]


def test_who_comes_late_is_ended_too() -> None:
    ending = Ending(100.0, None, patience=30)
    sent(ending, [process(11)], 100.0)
    assert sent(ending, [process(11), process(13)], 101.0) == [(13, signal.SIGTERM)]
    sent(ending, [process(11)], 100.0 + GRACE)
    assert sent(ending, [process(14)], 100.1 + GRACE) == [(14, signal.SIGKILL)]
    # and none is called unkillable before it had its own time after KILL
    sure = 100.0 + GRACE + UNKILLABLE
    both = [process(11), process(14)]
    assert ending.stuck([*both, process(15)], sure) == both[:1]
    assert sent(ending, [process(15)], sure) == [(15, signal.SIGKILL)]
    assert ending.stuck([*both, process(15)], sure + 0.2) == both
    assert ending.stuck([process(15)], sure + UNKILLABLE) == [process(15)]


def test_kill_is_repeated_to_each_and_not_more_often_than_once_a_second() -> None:
    ending, tree = Ending(100.0, None, patience=30), [process(11), process(12)]
    ending.due(tree, 100.0)
    times = [100.0 + GRACE + tick / 10 for tick in range(100)]
    kills = [(round(now - 100.0 - GRACE, 1), pid) for now in times for pid, _ in sent(ending, tree, now)]
    assert kills == [(second, pid) for second in (0.0, 1.0, 2.0) for pid in (11, 12)]
