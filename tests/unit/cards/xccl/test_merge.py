from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.cards.xccl.judging.found import alike
from klops.cards.xccl.planning.merge import Runs, failed, kind, merged, wrong
from klops.cards.xccl.results import (
    COLLECTIVE,
    ERROR,
    FLAKY,
    INIT,
    OK,
    TIMEOUT,
    UNTESTED,
    WRONG,
    Outcome,
    Sample,
)

MIB = 1 << 20
GOOD = Outcome((2, 3), OK, samples=(Sample(MIB, 10, us=80.0),))
HANGS = Outcome((2, 3), TIMEOUT, COLLECTIVE, silent=(3,), failures=1)
FAILS = Outcome((2, 3), ERROR, INIT, "dev 0 lost", told=(2,), failures=1)
NEVER = Outcome((2, 3), UNTESTED)


def statuses(letters: str) -> list[Outcome]:
    return [{"O": GOOD, "T": HANGS, "E": FAILS, "U": NEVER}[letter] for letter in letters]


@pytest.mark.parametrize(
    ("runs", "status", "count", "failures"),
    [
        ("O", OK, 1, 0),
        ("OO", OK, 2, 0),
        # one that other tests explain isn't repeated: nothing speaks against it
        ("T", TIMEOUT, 1, 1),
        ("TT", TIMEOUT, 2, 2),
        ("TO", FLAKY, 2, 1),
        ("TOO", FLAKY, 3, 1),
        ("TOE", TIMEOUT, 3, 2),
        ("ET", ERROR, 2, 2),
        ("U", UNTESTED, 0, 0),
        ("TU", TIMEOUT, 1, 1),
        ("OU", OK, 1, 0),
    ],
)
def test_status_of_several_runs(runs: str, status: str, count: int, failures: int) -> None:
    found = merged(statuses(runs), needed=2)
    assert (found.status, found.runs, found.failures) == (status, count, failures)


def test_the_first_failure_is_what_is_told() -> None:
    found = merged(statuses("OET"), needed=2)
    assert (found.stage, found.error) == (INIT, "dev 0 lost")
    assert (found.silent, found.told) == ((3,), (2,))


def test_a_wrong_value_makes_a_run_fail_whatever_it_says_of_itself() -> None:
    sums = replace(GOOD, samples=(Sample(MIB, 10, wrong=1),))
    nans = replace(GOOD, samples=(Sample(MIB, 10, nan=1),))
    assert failed(sums)
    assert failed(nans)
    assert wrong(nans)
    assert merged([sums], 2).status == WRONG
    assert merged([sums, GOOD, GOOD], 2).status == FLAKY
    assert not failed(GOOD)
    assert not failed(NEVER)


def test_samples_add_their_rounds_and_keep_the_fastest_time() -> None:
    first = Outcome((0, 1), WRONG, samples=(Sample(MIB, 10, wrong=3, us=90.0, spread_us=4.0), Sample(8, 10)))
    again = Outcome((0, 1), OK, samples=(Sample(MIB, 10, us=70.0, spread_us=2.0),))
    assert merged([first, again], 1).samples == (
        Sample(8, 10),
        Sample(MIB, 20, wrong=3, us=70.0, spread_us=2.0),
    )
    untimed = Outcome((0, 1), OK, samples=(Sample(MIB, 10),))
    assert merged([untimed, again], 1).samples == (Sample(MIB, 20, us=70.0, spread_us=2.0),)


def test_errors_that_differ_in_numbers_only_are_alike() -> None:
    other = replace(FAILS, error="dev 7 lost")
    assert kind(FAILS) == kind(other)
    assert kind(FAILS) != kind(replace(FAILS, stage=COLLECTIVE))
    assert kind(FAILS) != kind(replace(FAILS, error="port 3 lost"))
    assert kind(HANGS) == kind(replace(HANGS, error="what it said last"))


def test_errors_that_differ_in_what_was_printed_before_are_alike() -> None:
    one, other = (replace(FAILS, error=f"dev {n} lost; log: {said}") for n, said in ((1, "a"), (2, "b | c")))
    assert kind(one) == kind(other) == kind(FAILS)
    assert alike([one, other])
    # which error it is may be told by the log alone
    told = replace(FAILS, error="dev 0 lost; log: dev 0 port 3 xpulink not active")
    assert kind(told) != kind(FAILS)


def test_doubt_ends_when_another_run_can_change_nothing() -> None:
    doubts = {}
    for letters in ("O", "T", "TO", "TT", "TOO", "TOT"):
        runs = Runs(tries=3, needed=2)
        for run in statuses(letters):
            runs.add(run)
        doubts[letters] = (runs.doubtful((3, 2)), runs.bad((3, 2)), runs.good((3, 2)))
    assert doubts == {
        "O": (False, False, True),
        "T": (True, False, False),
        "TO": (True, False, False),
        "TT": (False, True, False),
        "TOO": (False, False, True),
        "TOT": (False, True, False),
    }


def test_a_wrong_value_is_never_good() -> None:
    runs = Runs(tries=3, needed=2)
    for run in (Outcome((2, 3), WRONG, samples=(Sample(MIB, 10, wrong=1),), failures=1), GOOD, GOOD):
        runs.add(run)
    assert not runs.bad((2, 3))
    assert not runs.good((2, 3))


def test_tests_stay_in_the_order_in_which_they_first_ended() -> None:
    runs = Runs(tries=3, needed=2)
    for run in (GOOD, Outcome((4, 5), OK), Outcome((3, 2), OK), Outcome((1,), UNTESTED)):
        runs.add(run)
    assert [(one.cards, one.runs) for one in runs.outcomes()] == [((2, 3), 2), ((4, 5), 1), ((1,), 0)]
    assert runs.of((1,)) is None
    assert runs.of((0, 1)) is None


@given(st.text("OTE", min_size=1, max_size=6), st.integers(1, 4))
def test_the_order_of_runs_changes_no_count(letters: str, needed: int) -> None:
    found = merged(statuses(letters), needed)
    back = merged(statuses(letters[::-1]), needed)
    assert (found.runs, found.failures) == (back.runs, back.failures)
    assert (found.status == FLAKY) == (back.status == FLAKY)
    assert (found.status == OK) == (found.failures == 0)
