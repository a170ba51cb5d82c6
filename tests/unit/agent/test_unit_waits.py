"""Units whose cards are missing: they wait, whoever started them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent.units import unit
from klops.agent.units.unit import BACKOFF, FAILED, READY, RUNNING, STARTING, STOPPED, Policy, Record, Seen

POLICY = Policy(delay=1, max_delay=8, limit=2, window=60)
GONE = Seen(now=0.0, clock=0.0)
MISSING = "card 3 (minor 5, /dev/xpu5) is not in this container"


def at(now: float, **fields: object) -> Seen:
    """Nothing of the unit lives at that time, unless said otherwise."""
    return replace(GONE, now=now, clock=now, **fields)  # type: ignore[arg-type]


def booted() -> Record:
    """A unit that ran when the container went down."""
    one = Record("llm", desired=RUNNING, state=READY, root=[7, 70], was_ready=True, generation=3)
    unit.new_home(one, "another", 0.0, 0.0)
    return one


@given(
    st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=60),
    st.sampled_from([POLICY, replace(POLICY, always=False), replace(POLICY, limit=0)]),
)
def test_it_waits_for_ever_and_counts_nothing(pauses: list[float], policy: Policy) -> None:
    one, now = booted(), 0.0
    for pause in pauses:
        now += pause
        action = unit.step(one, policy, at(now))
        due = now >= one.not_before
        assert action == (unit.LAUNCH if due else unit.NOTHING)
        if due:
            unit.lacking(one, MISSING, at(now))
        assert (one.state, one.error, one.waits) == (BACKOFF, MISSING, True)
        assert (one.restarts, one.failed_starts, one.crashes, one.generation) == (0, 0, [], 3)
        assert now < one.not_before <= now + unit.LACKING
    now = one.not_before
    assert unit.step(one, policy, at(now)) == unit.LAUNCH
    unit.launched(one, [8, 80], at(now))
    assert (one.state, one.error, one.waits, one.generation) == (STARTING, "", False, 4)


@given(st.lists(st.sampled_from(["missing", "crash"]), max_size=12))
def test_missing_cards_between_crashes_change_no_count(events: list[str]) -> None:
    """The same crashes, with and without: the same state, the same number of restarts."""
    found = []
    for told in (events, [event for event in events if event == "crash"]):
        one, now = booted(), 0.0
        for event in told:
            now = max(now + 1.0, one.not_before) if told is events else now + 1.0
            if unit.step(one, POLICY, at(max(now, one.not_before))) != unit.LAUNCH:
                continue
            if event == "missing":
                unit.lacking(one, MISSING, at(now))
            else:
                unit.launched(one, [7, 70], at(now))
                unit.step(one, replace(POLICY, window=1e9), at(now))
        found.append((one.state == FAILED, one.restarts, one.failed_starts, one.generation))
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["start", "restart"])
@pytest.mark.parametrize("state", [STOPPED, BACKOFF, FAILED, STARTING])
def test_one_that_was_asked_for_too_early_waits_as_any_other(command: str, state: str) -> None:
    one = booted()
    if state == BACKOFF:
        unit.lacking(one, MISSING, at(1.0))
    else:
        one.state = state
    if command == "start":
        unit.command_start(one, changed=False, now=2.0, clock=2.0)
    else:
        unit.command_restart(one, 2.0, 2.0)
    assert unit.step(one, POLICY, at(2.0)) == unit.LAUNCH
    unit.lacking(one, MISSING, at(2.0))
    assert (one.state, one.error, one.waits) == (BACKOFF, MISSING, True)
    assert unit.step(one, POLICY, at(one.not_before)) == unit.LAUNCH
    unit.launched(one, [7, 70], at(one.not_before))
    assert (one.state, one.error, one.restarts) == (STARTING, "", 0)


def test_another_supervisor_does_not_repeat_what_the_one_before_saw() -> None:
    one = booted()
    unit.lacking(one, MISSING, at(1.0))
    unit.taken_over(one)
    assert (one.state, one.error, one.waits) == (BACKOFF, "", False)
    assert unit.step(one, POLICY, at(1.0)) == unit.LAUNCH
    unit.refused(one, "port 8000 is taken", final=False, policy=POLICY, seen=at(1.0))
    unit.taken_over(one)
    assert (one.error, unit.step(one, POLICY, at(1.0))) == ("port 8000 is taken", unit.NOTHING)


def test_a_stop_ends_the_wait() -> None:
    one = booted()
    unit.lacking(one, MISSING, at(1.0))
    unit.command_stop(one)
    assert unit.step(one, POLICY, at(2.0)) == unit.NOTHING
    assert (one.state, one.error) == (STOPPED, "")


def test_another_hindrance_is_not_taken_for_a_missing_card() -> None:
    one = booted()
    unit.lacking(one, MISSING, at(1.0))
    unit.refused(one, "port 8000 is taken", final=False, policy=POLICY, seen=at(5.0))
    unit.launched(one, [8, 80], at(7.0))
    assert (one.error, one.restarts) == ("port 8000 is taken", 1)
