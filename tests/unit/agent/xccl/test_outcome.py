"""What one run comes to, from what its ranks said."""

from __future__ import annotations

from typing import Any

from klops.agent.xccl.outcome import Report, outcome
from klops.cards.xccl.results import Sample

PATIENCE = 20.0


def done(*us: float, wrong: tuple[int, ...] = (), nan: tuple[int, ...] = ()) -> dict[int, dict[str, Any]]:
    """One size of a rank."""
    return {1024: {"us": list(us), "wrong": list(wrong), "nan": list(nan)}}


def test_a_round_takes_as_long_as_its_slowest_rank() -> None:
    found = outcome([Report(3, done(10.0, 50.0, 20.0)), Report(5, done(30.0, 20.0, 21.0))], PATIENCE, 1.25)
    assert (found.cards, found.status, found.runs, found.failures) == ((3, 5), "ok", 1, 0)
    # 30, 50, 21: their median, and the median of 0, 20 and 9
    assert found.samples == (Sample(1024, 3, us=30.0, spread_us=9.0),)
    assert found.seconds == 1.25


def test_rounds_with_a_wrong_value_at_any_rank_are_counted_once() -> None:
    reports = [
        Report(0, done(1.0, 1.0, 1.0, wrong=(0, 2), nan=(2,))),
        Report(1, done(1.0, 1.0, 1.0, wrong=(2,))),
    ]
    found = outcome(reports, PATIENCE, 1.0)
    assert (found.status, found.stage, found.failures) == ("wrong", "check", 1)
    assert (found.samples[0].wrong, found.samples[0].nan) == (2, 1)
    assert found.error == "wrong values at 1024 bytes in 2 of 3 rounds, seen by all ranks"
    assert found.told == ()


def test_a_wrong_value_in_a_warm_up_alone_counts() -> None:
    found = outcome([Report(0, done(1.0, 1.0, wrong=(-1, -2))), Report(1, done(1.0, 1.0))], PATIENCE, 1.0)
    assert (found.status, found.samples[0].wrong) == ("wrong", 1)
    assert found.error.endswith("in 1 of 2 rounds, seen by card 0")


def test_who_is_silent_comes_before_who_waited_for_it() -> None:
    waited = Report(0, error="RuntimeError: timed out", stage="init", at=5.0, waited=20.0)
    silent = Report(1, stage="collective", silent=True, log="a line")
    found = outcome([waited, silent], PATIENCE, 22.0)
    assert (found.status, found.stage, found.silent, found.told) == ("timeout", "collective", (1,), (0,))
    assert found.error == "no answer within 20 s; log: a line; a peer said: RuntimeError: timed out"


def test_row_F40_ranks_that_all_waited_in_vain_hung_and_did_not_fail() -> None:
    reports = [
        Report(card, error="RuntimeError: timed out", stage="collective", at=5.0 + card, waited=19.0)
        for card in (2, 3)
    ]
    found = outcome(reports, PATIENCE, 20.0)
    assert (found.status, found.silent, found.told) == ("timeout", (), (2, 3))
    early = outcome([one._replace(waited=1.0) for one in reports], PATIENCE, 20.0)
    assert early.status == "error"


def test_row_F41_the_first_error_is_told_with_its_log() -> None:
    reports = [
        Report(0, error="ValueError: code= 1", stage="init", at=2.0, log="addr_window not properly set"),
        Report(1, error="ConnectionError: reset", stage="init", at=1.0),
        Report(2, error="its rank was killed by signal 11", stage="init", at=3.0, died=True, log="SIGSEGV"),
    ]
    found = outcome(reports, PATIENCE, 4.0)
    # what a dead rank left alone had no chance to be quicker to say so
    assert (found.status, found.stage, found.told) == ("error", "init", (2, 1, 0))
    assert found.error == "its rank was killed by signal 11; log: SIGSEGV"


def test_sizes_that_not_every_rank_has_done_say_nothing() -> None:
    both, one = done(1.0), {1024: done(3.0)[1024], 2048: done(9.0)[1024]}
    failed = Report(1, both, error="RuntimeError: lost", stage="collective", at=1.0)
    found = outcome([Report(0, one), failed], PATIENCE, 1.0)
    assert [sample.bytes for sample in found.samples] == [1024]
    assert found.samples[0].us == 3.0
    assert found.failures == 1
