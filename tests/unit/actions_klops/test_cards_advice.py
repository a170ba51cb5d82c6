"""``klops.cards``: whom a diagnosis advises on which cards, and what is said of cards that do worse."""

from __future__ import annotations

from typing import Any

import pytest

from klops.cards.record import quarantine
from klops.cards.xccl.results import OK, Outcome, Sample
from klops.errors import TaskFailed
from klops.remote.fake import reply

from .cardsworld import World

ALL = list(range(8))
SECOND = {"model": "/models/glm", "port": 8001}


def diagnosed(world: World, **params: Any) -> dict[str, Any]:
    """The values of a diagnosis, whatever it came to."""
    try:
        return world.apply("diagnosed", **params)
    except TaskFailed as failed:
        return dict(failed.values)


# -- cards that somebody keeps out ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [quarantine.HAND, "of a later klops"])
def test_a_card_that_is_kept_out_is_tested_and_no_service_is_to_get_it(kind: str) -> None:
    world = World()
    world.apply("excluded", cards=["3"], reason="fan")
    world.notes = [{**one, "kind": kind} for one in world.notes]
    found = world.apply("diagnosed")
    assert found["healthy"] == ALL
    assert found["scope"] == "card"
    assert found["summary"].endswith("kept out of service all the same: card 3")
    assert (found["recommended_tp"], found["recommended"], found["verified"]) == (
        4,
        {"main": [4, 5, 6, 7]},
        True,
    )
    assert world.start() == [4, 5, 6, 7], "which is where a start goes to"


def test_a_note_that_the_test_lifts_keeps_no_card_from_a_service() -> None:
    world = World(bad={3}, cards={"confirm": 1})
    diagnosed(world)
    assert [one["kind"] for one in world.notes] == [quarantine.VERDICT]
    world.bad.clear()
    found = world.apply("diagnosed")
    assert (found["scope"], found["recommended_tp"]) == ("none", 8)


def test_a_card_that_is_kept_out_and_fails_is_a_bad_one() -> None:
    world = World(bad={3})
    world.apply("excluded", cards=["3"], reason="fan")
    found = diagnosed(world)
    assert (found["scope"], found["excluded"], found["recommended_tp"]) == ("card", [3], 4)
    assert "kept out of service all the same" not in found["summary"]


def test_a_card_that_is_put_back_is_for_services_again() -> None:
    world = World()
    world.apply("excluded", cards=["3"], reason="fan")
    found = world.apply("restored", cards=["3"])
    assert (found["restored"], found["scope"]) == ([3], "none")


def test_a_host_whose_cards_all_work_is_learned_though_one_is_kept_out() -> None:
    world = World()
    world.apply("excluded", cards=["3"], reason="fan")
    assert world.apply("learned")["baseline"]


# -- services that run already -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "services",
    [
        {"main": {"cards": [0, 1, 2, 3]}, "second": {**SECOND, "cards": [4, 5, 6, 7]}},
        {"main": {"tp": 4}, "second": {**SECOND, "tp": 4}},
        {"second": SECOND},
    ],
    ids=["named", "sized", "automatic"],
)
def test_advice_is_for_services_that_have_no_cards_yet(services: dict[str, Any]) -> None:
    world = World(services=services)
    world.runs([0, 1, 2, 3])
    found = diagnosed(world)
    assert found["recommended"] == {"second": [4, 5, 6, 7]}
    assert (found["verified"], found["why"]) == (True, "")


@pytest.mark.parametrize("services", [{}, {"main": {"cards": [0, 1, 2, 3]}}], ids=["automatic", "named"])
def test_where_every_service_runs_nobody_is_advised(services: dict[str, Any]) -> None:
    world = World(services=services)
    world.runs([0, 1, 2, 3])
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    found = raised.value.values
    assert found["healthy"] == [4, 5, 6, 7]
    assert [found[key] for key in ("recommended_tp", "recommended_cards", "recommended")] == [None] * 3
    assert found["why"] == ""
    assert raised.value.hint == "klops down h ends main, then klops doctor xccl h"


# -- what serves, and does worse -----------------------------------------------------------------------------


class Slow(World):
    """A host on which each group with card 4 takes twice the time."""

    def _outcome(self, cards: tuple[int, ...]) -> Outcome:
        us = 270.0 if 4 in cards else 135.0
        return Outcome(cards, OK, samples=(Sample(2600000, 10, us=us, spread_us=1.0),))


def test_a_start_on_a_slow_card_says_so() -> None:
    world = Slow()
    assert world.apply("usable")["recommended"] == {"main": ALL}
    (told,) = world.stage.warnings
    assert told.endswith("card 4: alone it has 50% of the speed of the other cards")


def test_a_start_on_a_group_that_is_slower_than_was_learned_says_so() -> None:
    good = World()
    good.apply("learned")
    rows = good.baseline["bandwidth"]
    twice = {size: {count: gbps * 2 for count, gbps in of.items()} for size, of in rows.items()}
    world = World(baseline={**good.baseline, "bandwidth": twice})
    world.apply("usable")
    (told,) = world.stage.warnings
    assert told.endswith("cards 0, 1, 2, 3, 4, 5, 6, 7 together have 50% of the learned bandwidth")


def test_a_slow_card_that_no_service_gets_is_none_of_their_concern() -> None:
    world = Slow(services={"main": {"cards": [0, 1]}})
    world.apply("usable")
    assert world.stage.warnings == []


# -- what is wrong with the host -----------------------------------------------------------------------------


def without_control_node(world: World) -> None:
    lines = world.answer("nodes").text.splitlines(keepends=True)
    world.over["nodes"] = reply("".join(line for line in lines if "xpuctrl" not in line))


def lost_by_the_driver(world: World) -> None:
    buses = ("52", "55", "63", "66", "9a", "9b", "aa", "ab", "c0")
    world.over["lspci.1d22"] = reply("".join(f"{bus}:00.0 1200: 1d22:3686\n" for bus in buses))
    world.over["lspci.2057"] = reply("")


@pytest.mark.parametrize(
    ("fault", "said"),
    [(without_control_node, "/dev/xpuctrl, which every user"), (lost_by_the_driver, "at 0000:c0:00")],
)
def test_a_fault_of_the_host_is_no_pass_without_a_test_either(fault: Any, said: str) -> None:
    world = World()
    fault(world)
    failure = world.plan("checked").failure
    assert failure is not None
    assert (failure.code, said in failure.message) == ("cards-host", True)
    assert failure.values["findings"]
    assert failure.hint == "klops doctor xccl h tests the cards by collectives"


def test_fewer_cards_than_expected_are_no_pass() -> None:
    failure = World(cards={"expected": 9, "use": ALL}).plan("checked").failure
    assert failure is not None
    assert (failure.code, failure.message) == ("cards-host", "9 cards expected, 8 found")
