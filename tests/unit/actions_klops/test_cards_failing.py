"""``klops.cards`` for services that fail since their cards were tested, and for those that begin again."""

from __future__ import annotations

from typing import Any

import pytest

from klops.cards.xccl.results import TIMEOUT, UNTESTED, Batch, Outcome
from klops.errors import KlopsError, TaskFailed
from klops.remote.base import Reply
from klops.remote.fake import Call, reply

from .cardsworld import World
from .test_cards_kept import on_four

ALL = list(range(8))


def well(**given: Any) -> World:
    """All cards are good, were tested just now, and the service is up on them; then a quarter of an hour."""
    world = World(**given)
    world.apply("usable")
    world.start()
    world.asked.clear()
    world.now += 900.0
    return world


def fails(world: World, state: str = "failed") -> None:
    """As the agent says it of a service that hung: since then it was not ready."""
    world.runs(world.unit["cards"], state)
    world.unit.setdefault("failed_at", world.now)
    world.now += 60.0


def verbs(world: World) -> list[str]:
    return [verb for verb, _ in world.asked]


@pytest.mark.parametrize("state", ["failed", "backoff", "starting", "unhealthy"])
def test_a_card_that_goes_bad_while_the_verdict_is_fresh_is_found_by_up(state: str) -> None:
    world = well()
    world.bad = {3}
    fails(world, state)
    found = world.apply("usable")
    assert verbs(world) == [*(["stop"] if state != "failed" else []), "xccl", "note"]
    assert found["diagnosis"]["excluded"] == [3]
    assert found["recommended"] == {"main": [4, 5, 6, 7]}


def test_why_it_is_tested_again_is_said() -> None:
    world = well()
    fails(world)
    (step,) = world.plan("usable").steps
    assert "main failed after its cards were tested" in step.change().what


def test_a_service_that_fails_for_other_reasons_costs_one_test() -> None:
    world = well()
    fails(world)
    world.apply("usable")
    assert verbs(world) == ["xccl", "note"]
    world.start()
    for _ in range(2):
        world.now += 60.0
        fails(world)
        plan = world.plan("usable")
        assert not plan.steps
        (told,) = plan.warnings
        assert told.startswith("main failed, and not for its cards: they were tested ")
        assert told.endswith("and are good; klops logs h -s main shows why")
        world.start()


def test_after_it_was_ready_again_a_failure_is_a_new_one() -> None:
    world = well()
    fails(world)
    world.apply("usable")
    world.start()
    del world.unit["failed_at"]
    world.now += 60.0
    assert not world.plan("usable").steps
    fails(world)
    assert world.plan("usable").steps


def test_where_nothing_is_tested_it_is_said_that_more_is_not_known() -> None:
    world = World(cards={"diagnose": "never"})
    world.apply("diagnosed")
    world.start()
    world.now += 900.0
    fails(world)
    plan = world.plan("usable")
    assert not plan.steps
    assert plan.message.endswith("klops.cards.diagnose is never: main failed after its cards were tested")


# -- services that begin again -------------------------------------------------------------------------------


def restarted(world: World) -> tuple[list[str], list[int]]:
    """What klops restart asks of the agent before it restarts, and where the service goes."""
    world.asked.clear()
    world.apply("usable", again=True)
    plan = world.plan_of("klops.services", state="restarted")
    assert plan.failure is None
    cards: list[int] = plan.result["cards"]["main"]
    return verbs(world), cards


def test_an_ordinary_restart_costs_no_test_however_old_the_last_is() -> None:
    world = well()
    world.now += 1e6
    assert restarted(world) == ([], ALL)
    assert world.plan("usable", again=True).message.startswith("services stay on the cards they have")


def test_a_restart_goes_to_a_smaller_group_only_when_that_was_formed() -> None:
    world = well()
    world.apply("excluded", cards=["3"], reason="fan")
    assert restarted(world) == (["stop", "xccl", "note"], [4, 5, 6, 7])
    assert [4, 5, 6, 7] in [list(one["cards"]) for one in world.verdict["result"]["outcomes"]]
    world.runs(ALL)
    assert restarted(world) == ([], [4, 5, 6, 7]), "it was formed, and is proven"


def test_a_restart_stays_on_its_cards_while_others_are_not_known_to_work() -> None:
    world = on_four(World())
    assert restarted(world) == ([], [4, 5, 6, 7])


def test_a_restart_of_one_that_fails_looks_at_its_cards() -> None:
    world = well()
    world.bad = {5}
    fails(world, "backoff")
    assert restarted(world) == (["stop", "xccl", "note"], [0, 1, 2, 3])


def test_a_restart_leaves_other_services_alone() -> None:
    second = {"model": "/models/glm", "port": 8001, "tp": 4}
    world = World(services={"main": {"tp": 4}, "second": second})
    world.runs([0, 1, 2, 3])
    world.apply("usable")
    world.asked.clear()
    world.apply("usable", again=True, names=["main"])
    assert not world.asked, "the second is stopped, and nobody starts it"


def test_a_restart_that_can_have_no_cards_says_why_and_stops_nothing() -> None:
    world = World(services={"main": {"tp": 4, "cards": [0, 1, 2, 3]}})
    world.apply("usable")
    world.start()
    world.apply("excluded", cards=["3"], reason="fan")
    with pytest.raises(TaskFailed, match="card 3 is kept out of service: fan"):
        world.apply("usable", again=True)
    assert "stop" not in verbs(world)


# -- a test that could not be had ----------------------------------------------------------------------------


class Cut(World):
    """The first group does not answer, and then the time is over."""

    def _outcomes(self, batch: Batch) -> list[Outcome]:
        cut = any(verb == "cut" for verb, _ in self.asked)
        self.asked.append(("cut", {}))
        if cut:
            return [Outcome(test.cards, UNTESTED) for test in batch.tests]
        return [
            Outcome(test.cards, TIMEOUT, "collective", silent=test.cards, failures=1) for test in batch.tests
        ]


def started_again(world: World) -> None:
    """The agent starts a unit again with what it has on record."""

    def act(call: Call) -> Reply:
        world.asked.append(("restart", {}))
        world.runs(world.unit["cards"], "starting")
        return reply("{}")

    world.remote.on(World._is("restart"), act)


def on_half(kind: type[World] = World) -> World:
    """The service is ready on four cards, and the others were repaired."""
    world = World(bad={0, 1, 2, 3}, cards={"confirm": 1})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    world.bad.clear()
    world.apply("restored", cards=["0", "1", "2", "3"])
    if kind is not World:
        other = kind(verdict=world.verdict, cards={"confirm": 1})
        other.runs(world.unit["cards"])
        world = other
    world.asked.clear()
    started_again(world)
    return world


def test_no_service_begins_on_a_group_of_which_the_test_did_not_end() -> None:
    world = Cut()
    with pytest.raises(TaskFailed, match="not known to work together") as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unknown"
    assert raised.value.hint.startswith("klops up h tests again")


def test_a_ready_service_goes_on_as_it_was_when_the_test_is_refused() -> None:
    world = on_half()
    world.refuses = {"code": "xccl-busy", "message": "another diagnosis is at work", "hint": ""}
    with pytest.raises(KlopsError, match="main was started again as it was") as raised:
        world.apply("usable")
    assert raised.value.code == "xccl-busy"
    assert verbs(world) == ["stop", "xccl", "restart"]
    assert (world.unit["desired"], world.unit["cards"]) == ("running", [4, 5, 6, 7])


def test_a_ready_service_goes_on_as_it_was_when_the_test_does_not_end() -> None:
    world = on_half(Cut)
    with pytest.raises(KlopsError, match="main was started again as it was") as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unknown"
    assert verbs(world)[-1] == "restart"


def test_one_that_failed_is_not_started_again_for_that() -> None:
    world = well()
    started_again(world)
    fails(world, "backoff")
    world.refuses = {"code": "xccl-busy", "message": "another diagnosis is at work", "hint": ""}
    with pytest.raises(KlopsError):
        world.apply("usable")
    assert verbs(world) == ["stop", "xccl"]
