"""A lock that is taken beside what a step begins with: nothing is changed, and nothing counts, before."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.errors import AgentError, LockHeld
from klops.playbook.model import Task
from klops.playbook.results import Status
from klops.playbook.tasks.taking import Taking
from klops.remote.fake import Call
from tests.unit.playbook.onehost import HERE, Bench


@dataclass(frozen=True)
class Early(Step):
    """Begins while the lock is being taken."""

    begun: threading.Event
    fails: bool = False
    awaits_lock: ClassVar[bool] = True

    def change(self) -> Change:
        """Something."""
        return Change("early")

    def carry_out(self, ctx: Context) -> None:
        """Begin, wait for the lock, change something."""
        self.begun.set()
        if self.fails:
            raise AgentError("it died before it was told anything")
        ctx.locked()
        ctx.remote.run(["work"])


@dataclass(frozen=True)
class Late(Step):
    """Any other step."""

    def change(self) -> Change:
        """Something."""
        return Change("late")

    def carry_out(self, ctx: Context) -> None:
        """Do it."""
        ctx.remote.run(["work"])


class Stepping(Action[Params]):
    """Has the steps that it was made with."""

    name = "stepping"
    params = Params

    def __init__(self, *steps: Step) -> None:
        self.steps = steps

    def probe(self, params: Params, view: View) -> Probe:
        """Nothing."""
        return Probe()

    def plan(self, params: Params, view: View, seen: Seen) -> Plan:
        """All of them."""
        return Plan(self.steps)


def bench(begun: threading.Event | None, error: Exception | None = None) -> Bench:
    """A host whose lock is taken (or not) only after ``begun``."""
    made = Bench()
    made.fleet.remote().on("work", "")
    lock = made.fleet.locks["h1"]

    def acquire() -> None:
        if begun is not None:
            assert begun.wait(30)
        if error is not None:
            raise error
        lock.taken += 1

    lock.acquire = acquire  # type: ignore[method-assign]
    return made


def stepping(*steps: Step, **keywords: Any) -> Task:
    return Task("stepping", Stepping(*steps), {}, HERE, **keywords)


def test_a_step_may_begin_while_the_lock_is_taken() -> None:
    begun = threading.Event()
    made = bench(begun)
    result = made.run(stepping(Early(begun), Late()))
    assert (result.status, made.fleet.locks["h1"].taken) == (Status.CHANGED, 1)
    assert [change.what for change in result.changes] == ["early", "late"]


@pytest.mark.parametrize("early", [True, False])
def test_where_the_lock_is_refused_nothing_is_changed_and_nothing_counts_as_done(*, early: bool) -> None:
    begun = threading.Event()
    made = bench(begun if early else None, LockHeld("somebody has it"))
    result = made.run(stepping(Early(begun) if early else Late(), Late()))
    assert result.status is Status.FAILED
    assert (result.message, result.changes) == ("somebody has it", ())
    assert made.fleet.remote().log == []
    assert made.fleet.host("h1").changes == 0


def test_any_other_step_is_not_begun_before() -> None:
    made = bench(None)
    before: list[int] = []

    def work(call: Call) -> str:
        before.append(made.fleet.locks["h1"].taken)
        return ""

    made.fleet.remote().on("work", work)
    made.run(stepping(Late()))
    assert before == [1]


def test_a_step_that_fails_before_the_lock_is_there_leaves_nobody_taking_it() -> None:
    begun = threading.Event()
    made = bench(begun)
    result = made.run(stepping(Early(begun, fails=True)))
    assert "it died" in result.message
    # it is given back with the run
    assert made.fleet.locks["h1"].taken == 1
    assert not [one for one in threading.enumerate() if one.name == "lock"]


def test_whoever_waits_twice_takes_it_once() -> None:
    taken: list[int] = []
    taking = Taking(lambda: taken.append(1))
    assert not taking.held()
    taking.wait()
    taking.wait()
    assert (taken, taking.held()) == ([1], True)
