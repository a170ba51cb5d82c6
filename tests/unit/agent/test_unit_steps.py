"""The state machine as a table: a record and what is seen, to the next state and what is to be done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klops.agent.errors import VerbError
from klops.agent.units import unit
from klops.agent.units.unit import (
    BACKOFF,
    FAILED,
    READY,
    STARTING,
    STOPPED,
    UNHEALTHY,
    Check,
    Policy,
    Record,
    Seen,
)

POLICY = Policy(start_timeout=100, failures=3, delay=1, max_delay=8, limit=5, window=60)
OK = Check(unit.OK, "fine", smoked=True)
SLOW = Check(unit.SLOW, "no answer")
LOST = Check(unit.LOST, "/health answers 503")


def record(state: str, **fields: Any) -> Record:
    """A running generation unless said otherwise."""
    started = {"root": [7, 70], "launched": 990.0} if state in (STARTING, READY, UNHEALTHY) else {}
    base: dict[str, Any] = {"name": "llm", "desired": "running", "state": state, "generation": 1, **started}
    base["was_ready"] = state in (READY, UNHEALTHY)
    return Record(**{**base, **fields})


def seen(**fields: Any) -> Seen:
    """A whole, living tree unless said otherwise."""
    return replace(Seen(now=1000.0, clock=5000.0, root_alive=True, living=5), **fields)


STALLED = Check(unit.STALLED, "no request progresses")
LESS = "pid 9 is gone"
DEAD = {"root_alive": False}
GONE = {"root_alive": False, "living": 0}

TABLE: list[tuple[str, Record, dict[str, Any], str, str]] = [
    # what, record, seen, state afterwards, action
    ("stopped stays", record(STOPPED, desired="stopped"), GONE, STOPPED, unit.NOTHING),
    ("wanted and not there", record(STOPPED), GONE, STOPPED, unit.LAUNCH),
    ("wanted, but leftovers live", record(STOPPED), DEAD, STOPPED, unit.END),
    ("a first answer", record(STARTING), {"check": OK}, READY, unit.NOTHING),
    ("no answer yet", record(STARTING), {"check": SLOW}, STARTING, unit.NOTHING),
    ("not in time", record(STARTING, launched=899.0), {"check": SLOW}, STARTING, unit.END),
    ("died while loading, engine lives", record(STARTING), DEAD, STARTING, unit.END),
    ("died while loading, all gone", record(STARTING), GONE, BACKOFF, unit.NOTHING),
    (
        "key refused for the third time",
        record(STARTING, failing=2, lost=2),
        {"check": LOST},
        STARTING,
        unit.END,
    ),
    ("one check lost", record(READY), {"check": SLOW}, READY, unit.NOTHING),
    ("three checks lost", record(READY, failing=2), {"check": SLOW}, UNHEALTHY, unit.NOTHING),
    (
        "busy for long is no reason to end it",
        record(UNHEALTHY, failing=99),
        {"check": SLOW},
        UNHEALTHY,
        unit.NOTHING,
    ),
    ("back again", record(UNHEALTHY, failing=9), {"check": OK}, READY, unit.NOTHING),
    ("requests stall", record(READY), {"check": STALLED}, UNHEALTHY, unit.NOTHING),
    ("and for however long", record(UNHEALTHY, failing=999), {"check": STALLED}, UNHEALTHY, unit.NOTHING),
    (
        "they stall, and a worker is gone",
        record(READY, failing=2),
        {"part_lost": LESS, "check": STALLED, "tried": True},
        UNHEALTHY,
        unit.END,
    ),
    (
        "engine dead, seen for the third time",
        record(READY, failing=2, lost=2),
        {"check": LOST},
        UNHEALTHY,
        unit.END,
    ),
    ("a worker is gone: a completion is asked for", record(READY), {"part_lost": LESS}, READY, unit.NOTHING),
    (
        "a check that began before a worker was gone",
        record(READY),
        {"part_lost": LESS, "check": LOST},
        READY,
        unit.NOTHING,
    ),
    (
        "without a worker it gives no completion",
        record(READY),
        {"part_lost": LESS, "check": LOST, "tried": True},
        UNHEALTHY,
        unit.END,
    ),
    (
        "without a worker it gives none in time: it may be busy",
        record(READY),
        {"part_lost": LESS, "check": SLOW, "tried": True},
        READY,
        unit.NOTHING,
    ),
    (
        "without a worker it gives none in time, for the third time",
        record(READY, failing=2),
        {"part_lost": LESS, "check": SLOW, "tried": True},
        UNHEALTHY,
        unit.END,
    ),
    ("root killed, engine lives", record(READY), DEAD, UNHEALTHY, unit.END),
    ("root killed, still ending", record(UNHEALTHY, ending="killed"), DEAD, UNHEALTHY, unit.END),
    ("root killed, all gone now", record(UNHEALTHY, ending="killed"), GONE, BACKOFF, unit.NOTHING),
    ("waiting", record(BACKOFF, not_before=1001.0), GONE, BACKOFF, unit.NOTHING),
    ("waited", record(BACKOFF, not_before=999.0), GONE, BACKOFF, unit.LAUNCH),
    ("waited, but something lives", record(BACKOFF, not_before=999.0), DEAD, BACKOFF, unit.END),
    ("the fifth failed start", record(STARTING, failed_starts=4), GONE, BACKOFF, unit.NOTHING),
    ("the sixth failed start", record(STARTING, failed_starts=5), GONE, FAILED, unit.NOTHING),
    (
        "lost thrice within seconds of the start: it may still come",
        record(STARTING, failing=2, lost=2, lost_since=998.5),
        {"check": LOST},
        STARTING,
        unit.NOTHING,
    ),
    ("failed stays", record(FAILED), GONE, FAILED, unit.NOTHING),
    ("failed, but something lives", record(FAILED), DEAD, FAILED, unit.END),
    ("stop while loading", record(STARTING, desired="stopped"), {}, UNHEALTHY, unit.END),
    (
        "stop: the root is gone, the rest lives",
        record(UNHEALTHY, desired="stopped"),
        DEAD,
        UNHEALTHY,
        unit.END,
    ),
    ("stop done", record(UNHEALTHY, desired="stopped", ending="asked"), GONE, STOPPED, unit.NOTHING),
    ("stop of a failed one", record(FAILED, desired="stopped", ending="asked"), GONE, STOPPED, unit.NOTHING),
    ("its state was lost", record(FAILED, desired="stopped"), GONE, FAILED, unit.NOTHING),
    ("its state was lost, leftovers live", record(FAILED, desired="stopped"), DEAD, FAILED, unit.END),
    ("the container is stopped", record(READY), {"closing": True}, UNHEALTHY, unit.END),
    (
        "the container is stopped, all gone",
        record(UNHEALTHY),
        {**GONE, "closing": True},
        STOPPED,
        unit.NOTHING,
    ),
    ("the container is stopped, failed", record(FAILED), {**GONE, "closing": True}, FAILED, unit.NOTHING),
    (
        "outlives KILL",
        record(UNHEALTHY, ending="x"),
        {**DEAD, "stuck": "unkillable: pid 9"},
        FAILED,
        unit.END,
    ),
    ("restart asked, old one lives", record(STARTING, ending="asked", again=True), {}, STARTING, unit.END),
    (
        "restart asked, old one gone",
        record(STARTING, ending="asked", again=True),
        GONE,
        STARTING,
        unit.LAUNCH,
    ),
]


@pytest.mark.parametrize(
    ("before", "what", "state", "action"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_step(before: Record, what: dict[str, Any], state: str, action: str) -> None:
    after = Record.load(before.dump())
    assert unit.step(after, POLICY, seen(**what)) == action
    assert after.state == state


def test_two_generations_are_never_asked_for() -> None:
    for row in TABLE:
        for living in (1, 5):
            what = seen(**{**row[2], "living": living})
            assert unit.step(Record.load(row[1].dump()), POLICY, what) != unit.LAUNCH, row[0]


def fail_once(one: Record, now: float) -> None:
    """One generation is launched and dies."""
    unit.launched(one, [7, 70], seen(now=now))
    unit.step(one, POLICY, seen(now=now + 0.5, **GONE))


def test_delays_double_up_to_the_longest_then_it_fails_loudly() -> None:
    one = record(STOPPED)
    delays = []
    for number in range(5):
        fail_once(one, 1000.0 + 200 * number)  # slow loads: further apart than the window
        assert one.state == BACKOFF
        delays.append(one.not_before - (1000.5 + 200 * number))
    assert delays == [1, 2, 4, 8, 8]
    fail_once(one, 2000.0)
    assert one.state == FAILED
    assert "6 failure(s)" in one.error


def test_however_often_it_has_failed_the_longest_delay_comes_next() -> None:
    one, policy = record(STARTING, failed_starts=5000), replace(POLICY, limit=10_000)
    unit.step(one, policy, seen(**GONE))
    assert (one.state, one.failures, one.not_before) == (BACKOFF, 5001, 1000.0 + POLICY.max_delay)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_it_is_started_again_as_often_as_the_limit_says(limit: int) -> None:
    one, now = record(STOPPED, generation=0), 1000.0
    while one.state != FAILED:
        now += 1.0
        unit.launched(one, [7, 70], seen(now=now))
        unit.step(one, replace(POLICY, limit=limit), seen(now=now + 0.5, **GONE))
    assert (one.restarts, one.generation) == (limit, limit + 1)


def test_a_refused_start_leaves_no_generation_and_counts_once() -> None:
    one = record(STARTING, root=[7, 70])  # its record could not be written
    unit.refused(one, "no space left", final=False, policy=POLICY, seen=seen())
    assert (one.state, one.root, one.failed_starts) == (BACKOFF, None, 1)
    unit.step(one, POLICY, seen(**GONE))
    assert (one.failed_starts, one.error) == (1, "no space left")


def test_crashes_far_apart_are_forgiven_and_close_ones_are_not() -> None:
    for apart, state in ((100.0, BACKOFF), (5.0, FAILED)):
        one = record(STOPPED)
        for number in range(6):
            now = 1000.0 + apart * number
            unit.launched(one, [7, 70], seen(now=now))
            unit.step(one, POLICY, seen(now=now + 1, check=OK))
            unit.step(one, POLICY, seen(now=now + 2, **GONE))
        assert one.state == state


def test_a_restart_clears_failed_and_an_equal_start_changes_nothing() -> None:
    one = record(FAILED, failed_starts=5, crashes=[1.0], error="x", first_error="y", restarts=4)
    unit.command_restart(one, 1000.0, 5000.0)
    assert unit.step(one, POLICY, seen(**GONE)) == unit.LAUNCH
    assert (one.failed_starts, one.crashes, one.error, one.first_error, one.restarts) == (0, [], "", "", 0)
    running = record(READY)
    before = running.dump()
    unit.command_start(running, changed=False, now=1.0, clock=2.0)
    assert running.dump() == before
    # no look has seen yet that its API server is gone: what its restart policy says of that is no answer
    gone = record(READY)
    unit.command_start(gone, changed=False, now=1.0, clock=2.0, gone=True)
    assert (gone.state, unit.step(gone, replace(POLICY, always=False), seen(**GONE))) == (
        STARTING,
        unit.LAUNCH,
    )
    unit.command_start(running, changed=True, now=1.0, clock=2.0)
    assert running.state == STARTING  # a wait that begins now must not take the old generation for the new
    assert unit.step(running, POLICY, seen()) == unit.END


def test_the_first_failure_of_a_series_stays_on_record_until_somebody_asks_for_a_start() -> None:
    one = record(STOPPED, generation=0)
    for number, why in enumerate(("ended with status 1", "was killed by signal 9", "ended with status 2")):
        now = 1000.0 + 10 * number
        unit.launched(one, [7, 70], seen(now=now))
        if number:  # that it was ready in between makes no new series of it
            unit.step(one, POLICY, seen(now=now + 1, check=OK))
            assert one.error == ""
        unit.step(one, POLICY, seen(now=now + 2, **GONE, exit=why))
        assert one.error == f"the API server {why}"
        assert (one.failures, one.first_why) == (number + 1, "the API server ended with status 1")
        one.first_tail = one.first_tail or ["a line"]
    assert one.first_tail == ["a line"]
    unit.launched(one, [7, 70], seen(now=1000.0 + POLICY.window + 100))
    unit.step(one, POLICY, seen(now=1001.0 + POLICY.window + 100, check=OK))
    unit.step(one, POLICY, seen(now=1002.0 + POLICY.window + 100, **GONE, exit="ended with status 3"))
    assert (one.failures, one.first_why) == (1, "the API server ended with status 3"), "the window is over"
    assert one.first_tail == []
    unit.command_restart(one, 2000.0, 5000.0)
    assert (one.failures, one.first_why, one.error) == (0, "", "")


def test_a_stall_is_told_until_requests_progress_again() -> None:
    one = record(READY)
    for _ in range(50):
        assert unit.step(one, POLICY, seen(check=STALLED)) == unit.NOTHING
        assert (one.state, one.error) == (UNHEALTHY, "no request progresses")
    unit.step(one, POLICY, seen(check=SLOW))
    assert (one.state, one.error) == (UNHEALTHY, "no request progresses")
    unit.step(one, POLICY, seen(check=OK))
    assert (one.state, one.error, one.failing) == (READY, "", 0)


def test_policy_never_fails_at_the_first_end() -> None:
    one = record(READY)
    unit.step(one, replace(POLICY, always=False), seen(**GONE, exit="ended with status 0"))
    assert one.state == FAILED
    assert one.error == "the API server ended with status 0 (restart policy: never)"


def test_a_new_life_of_the_container_starts_what_is_wanted_at_once() -> None:
    one = record(BACKOFF, not_before=1e9, failed_starts=3)
    unit.new_home(one, "another", 1.0, 2.0)
    assert unit.step(one, POLICY, seen(now=1.0, **GONE)) == unit.LAUNCH
    assert one.failed_starts == 0


def test_a_unit_whose_state_was_lost_stays_failed_until_somebody_says() -> None:
    for command, state, action in (
        (unit.command_stop, STOPPED, unit.NOTHING),
        (lambda one: unit.command_restart(one, 1.0, 2.0), STARTING, unit.LAUNCH),
    ):
        one = record(FAILED, desired="stopped", error="the state is damaged")
        for home in ("another", "a third"):
            unit.new_home(one, home, 1.0, 2.0)
            assert unit.step(one, POLICY, seen(now=1.0, **GONE)) == unit.NOTHING
            assert (one.state, one.home, one.error) == (FAILED, home, "the state is damaged")
        command(one)
        assert unit.step(one, POLICY, seen(now=1.0, **GONE)) == action
        assert (one.state, one.error) == (state, "")


def test_a_record_of_another_version_is_read() -> None:
    assert Record.load({"schema": 1, "name": "llm", "from_the_future": 1}).name == "llm"


@pytest.mark.parametrize(
    "damage",
    [
        {"root": [1]},
        {"root": 7},
        {"crashes": 1},
        {"crashes": ["x"]},
        {"since": []},
        {"state": None},
        {"vital": [7]},
    ],
)
def test_a_damaged_record_is_named(damage: dict[str, Any]) -> None:
    with pytest.raises(VerbError, match="state of unit llm") as caught:
        Record.load({**record(READY).dump(), **damage})
    assert caught.value.code == "damaged"


def test_a_stall_is_over_when_something_shows_it_and_not_with_another_supervisor() -> None:
    one = record(READY)
    unit.step(one, POLICY, seen(check=STALLED))
    assert (one.state, one.error) == (UNHEALTHY, STALLED.message)
    again = Record.load(one.dump())
    # its first readings say nothing of movement yet
    unit.step(again, POLICY, seen(check=Check(unit.OK, "/health answers")))
    assert (again.state, again.error) == (UNHEALTHY, STALLED.message)
    said = Check(unit.OK, "/health answers")
    for shows in (replace(said, live=True), replace(said, smoked=True), replace(said, answered=True)):
        other = Record.load(again.dump())
        unit.step(other, POLICY, seen(check=shows))
        assert (other.state, other.stalled, other.error) == (READY, False, "")
    unit.launched(again, [8, 80], seen())
    assert not again.stalled


@pytest.mark.parametrize(
    ("before", "what", "after"),
    [
        (record(STARTING, launched=899.0), [{"check": SLOW}, GONE], 5000.0),
        (record(READY), [GONE], 5000.0),
        (record(READY), [{"check": STALLED}], 5000.0),
        (record(READY, failing=2), [{"check": SLOW}], 0.0),
        (record(STARTING, failed_at=4000.0), [GONE], 4000.0),
        (record(STARTING, failed_at=4000.0), [{"check": OK}], 0.0),
    ],
    ids=["too slow", "died", "stalls", "busy", "again", "ready at last"],
)
def test_since_when_it_is_not_well(before: Record, what: list[dict[str, Any]], after: float) -> None:
    for fields in what:
        unit.step(before, POLICY, seen(**fields))
    assert before.failed_at == after


def test_a_start_by_hand_does_not_forget_since_when() -> None:
    before = record(BACKOFF, failed_at=4000.0, restarts=2)
    unit.command_restart(before, 1000.0, 5000.0)
    assert (before.restarts, before.failed_at) == (0, 4000.0)
    unit.command_stop(before)
    unit.step(before, POLICY, seen(**GONE))
    assert (before.state, before.failed_at) == (STOPPED, 4000.0)


def test_a_stop_that_a_start_is_to_follow_is_known_as_such() -> None:
    one = record(READY)
    unit.command_stop(one, resumes=True)
    assert (one.desired, one.resumes) == (STOPPED, True)
    unit.command_stop(one, resumes=True)  # the run that came after was cut short, too
    assert one.resumes
    unit.command_start(one, False, 1000.0, 5000.0)
    assert (one.desired, one.resumes) == ("running", False)
    unit.command_stop(one)
    unit.command_stop(one, resumes=True)  # somebody had stopped it for good
    assert not one.resumes
