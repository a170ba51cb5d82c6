"""Units whose cards are missing: waited for while nobody asks, told at once when somebody does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent import unit
from klops.agent.unit import BACKOFF, FAILED, READY, RUNNING, STARTING, STOPPED, Check, Policy, Record, Seen

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
def test_who_asks_is_told_at_once_and_the_next_life_of_the_container_tries_again(
    command: str, state: str
) -> None:
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
    assert (one.state, one.error, one.waits) == (FAILED, MISSING, False)
    assert unit.step(one, POLICY, at(1e6)) == unit.NOTHING

    again = Record.load(one.dump())
    unit.new_home(again, "a third", 3.0, 3.0)
    assert unit.step(again, POLICY, at(3.0)) == unit.LAUNCH
    unit.lacking(again, MISSING, at(3.0))
    assert again.state == BACKOFF


def test_a_start_that_was_done_is_not_asked_for_any_more() -> None:
    one = booted()
    unit.command_start(one, changed=False, now=1.0, clock=1.0)
    unit.launched(one, [7, 70], at(1.0))
    running = at(2.0, root_alive=True, living=1, check=Check(unit.OK))
    assert unit.step(one, POLICY, running) == unit.NOTHING
    unit.command_start(one, changed=False, now=3.0, clock=3.0)  # the same again: nothing is due
    unit.step(one, POLICY, at(4.0))  # it dies, and its card has gone with it
    assert one.restarts == 1
    assert unit.step(one, POLICY, at(9.0)) == unit.LAUNCH
    unit.lacking(one, MISSING, at(9.0))
    assert (one.state, one.restarts) == (BACKOFF, 1)


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
