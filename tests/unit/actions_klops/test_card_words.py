"""What ``klops.cards`` says to people: how cards are named, what comes next, what is no advice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.actions.catalog import catalog
from klops.actions.own.cards import naming, remedy, report
from klops.actions.own.cards.order import Order
from klops.actions.own.cards.record.standing import CardState, Standing
from klops.errors import Interrupted, KlopsError, TaskFailed, UsageError
from klops.remote.fake import Call, reply

from .cardsworld import World

ALL = list(range(8))
CARDS = Standing(
    tuple(
        CardState(
            index,
            {"index": index, "node": f"/x/dev/xpu{(index + 5) % 8}", "bdf": f"0000:{0x50 + index:x}:00"},
            None,
            "pass",
            "",
        )
        for index in ALL
    )
)


@pytest.mark.parametrize(
    ("names", "cards"),
    [
        (["3", "3", "0000:53:00", "3-3"], [3]),
        (["5", "0-2"], [5, 0, 1, 2]),
        (["xpu5"], [0]),
        (["/dev/xpu5"], [0]),
        (["/x/dev/xpu4", "53:00"], [7, 3]),
    ],
)
def test_cards_are_named_as_klops_prints_them_each_once(names: list[str], cards: list[int]) -> None:
    assert [one.index for one in naming.find(CARDS, names)] == cards


@pytest.mark.parametrize(
    ("name", "told"), [("5-3", "5-3 names no card"), ("6-9", "no card is called 8"), ("xpu9", "called xpu9")]
)
def test_what_names_no_card(name: str, told: str) -> None:
    with pytest.raises(TaskFailed, match=told) as raised:
        naming.find(CARDS, [name])
    assert raised.value.code == "card-unknown"
    assert raised.value.hint


def test_cards_in_use_are_followed_by_how_they_come_free() -> None:
    world = World()
    world.runs(ALL)
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    assert raised.value.hint == "klops down h ends main, then klops doctor xccl h"
    assert raised.value.message == "no card could be tested: card 0, 1, 2, 3, 4, 5, 6, 7: in use by main"
    assert raised.value.values["scope"] == "inconclusive"
    world.apply("excluded", cards=["3"])
    with pytest.raises(TaskFailed) as kept:
        world.apply("restored", cards=["3"])
    assert "klops down h ends main, then klops cards restore h 3" in kept.value.hint
    assert "klops cards restore h 3 --force" in kept.value.hint


@pytest.mark.parametrize(
    ("world", "commands"),
    [
        (World(bad={3}), ["klops up h serves on card 4, 5, 6, 7", "klops cards exclude h 3"]),
        (World(bad={1, 6}), ["klops cards exclude h 1 6", "klops cards restore h 1 6 after a repair"]),
        (World(links={frozenset((2, 6))}), ["klops up h serves on card"]),
        (World(bad=set(ALL)), ["klops"]),
    ],
)
def test_each_diagnosis_that_fails_says_what_comes_next(world: World, commands: list[str]) -> None:
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    for command in commands:
        assert command in raised.value.hint
    assert "HOST" not in raised.value.hint


@pytest.mark.parametrize("scope", ["none", "card", "link", "group", "stack", "host", "inconclusive"])
@pytest.mark.parametrize("verdict", ["pass", "degraded", "fail", "unknown"])
def test_no_hint_is_empty(scope: str, verdict: str) -> None:
    card = {"index": 3, "verdict": verdict, "reason": "", "in_use_by": ""}
    assert "h" in remedy.after("h", {"pairs": [], "scope": scope}, [card]).split()
    assert "klops doctor xccl h" in remedy.after("h", {}, [card])


def test_a_fault_that_is_no_card_s_is_told_once() -> None:
    cards = [{"index": index, "verdict": "unknown", "reason": "", "in_use_by": ""} for index in ALL]
    found = {"cards": cards, "pairs": [], "scope": "stack", "summary": "all fail alike", "hints": ["look"]}
    failure = report.failure(found, "h")
    assert failure is not None
    assert (failure.code, failure.message) == ("cards-stack", "all fail alike")
    assert failure.hint.startswith("look; klops up h --recreate")


def test_after_one_card_by_itself_all_are_tested() -> None:
    card = {"index": 3, "verdict": "unknown", "reason": "works alone", "in_use_by": ""}
    found: dict[str, Any] = {"pairs": [], "scope": "inconclusive", "recommended_cards": None}
    assert remedy.after("h", found, [card]) == "klops doctor xccl h tests all cards, each with others"
    assert "--full" in remedy.after("h", {**found, "recommended_cards": []}, [card])


def test_who_holds_a_card_is_shown_by_reap() -> None:
    card = {"index": 3, "verdict": "unknown", "reason": "held by python3 (pid 7)", "in_use_by": ""}
    assert "klops reap h" in remedy.after("h", {}, [card])


def test_a_test_of_named_cards_gives_no_advice_for_services() -> None:
    world = World()
    found = world.apply("diagnosed", cards=["3-4"])
    assert [card["index"] for card in found["cards"] if card["tested"]] == [3, 4]
    assert [found[key] for key in ("recommended_tp", "recommended_cards", "recommended")] == [None] * 3
    assert World().apply("diagnosed")["recommended_tp"] == 8


def test_a_card_that_was_tested_has_the_time_of_that() -> None:
    found = World().apply("diagnosed")
    assert {card["at"] for card in found["cards"]} == {found["at"]}
    assert found["at"] is not None


def test_the_budget_leaves_no_pair_behind_that_was_not_tested() -> None:
    world = World()
    pairs = [{"a": 0, "b": 1, "status": "ok"}, {"a": 0, "b": 2, "status": "untested"}]
    said = {"diagnosis": {"verdict": {"cards": {}, "pairs": pairs, "summary": "not known"}}}
    told = report.report(said, Standing(()), {}, {}, None)
    assert [(pair["a"], pair["b"]) for pair in told["pairs"]] == [(0, 1)]
    assert told["scope"] == "inconclusive"
    assert report.report({}, Standing(()), {}, {}, None)["scope"] == "inconclusive"
    assert "scope" not in world.plan("checked").result


def test_a_scan_of_one_card_is_refused_and_one_that_measured_nothing_says_so() -> None:
    world = World()
    failure = world.plan("diagnosed", scan=True, cards=["3", "3"]).failure
    assert isinstance(failure, UsageError)
    world.remote.on(
        lambda call: call.kind != "read" and "xccl" in call.argv,
        lambda call: reply(json.dumps({"result": {"scan": [], "failed": []}}) + "\n"),
    )
    with pytest.raises(TaskFailed, match="nothing was measured") as raised:
        world.apply("diagnosed", scan=True)
    assert raised.value.hint == "klops doctor xccl h says why"


def test_cards_that_are_gone_are_told_of_together() -> None:
    gone = [{"index": index, "missing": True, "reason": f"GPU-{index} is absent"} for index in (1, 5)]
    held = {"index": 3, "missing": False, "reason": "held by x"}
    assert report.alike([gone[0], held, gone[1]]) == ["card 1, 5: not there", "card 3: held by x"]


def test_where_the_engine_does_not_answer_the_list_says_so() -> None:
    world = World()
    world.apply("diagnosed")
    world.over["docker.version"] = reply(rc=1, stderr="Cannot connect to the Docker daemon")
    world.over["agent.status"] = reply(rc=1)
    result = world.plan("listed").result
    assert "docker engine" in result["notes"][0]
    assert "can't be asked" in result["verdict"]["why_stale"]


def test_a_test_that_could_not_be_made_has_changed_nothing() -> None:
    world = World(refuses={"code": "no-torch", "message": "the image has no torch", "hint": ""})
    for there, changes in ((world, 0), (World(), 1)):
        ctx = there.stage.ctx
        values = catalog()["klops.cards"].apply(there.plan("usable"), ctx)
        assert (len(ctx.done), "untested" in values) == (changes, False)


def test_an_interrupted_diagnosis_is_told_as_one() -> None:
    world = World()

    def interrupt(call: Call) -> object:
        raise Interrupted("h: docker exec -i c python3 -I /var/lib/klops/agent.pyz was interrupted")

    world.remote.on(lambda call: call.kind != "read" and "xccl" in call.argv, interrupt)  # type: ignore[arg-type]
    with pytest.raises(Interrupted) as raised:
        world.apply("diagnosed", cards=["3", "5"])
    assert raised.value.message == "the diagnosis was interrupted; nothing of it is left"
    assert raised.value.hint == "klops doctor xccl h --card 3 --card 5"


@pytest.mark.parametrize(
    ("order", "command"),
    [
        (Order("usable", ()), "klops up h"),
        (Order("learned", ()), "klops cards learn h"),
        (Order("restored", (), restore=(1, 2)), "klops cards restore h 1 2"),
        (Order("diagnosed", (), scan=True), "klops doctor xccl h --scan"),
    ],
)
def test_the_command_that_asks_once_more(order: Order, command: str) -> None:
    assert remedy.again("h", order) == command


def test_hints_have_the_name_of_the_host() -> None:
    world = World(bad={1, 6})
    with pytest.raises(KlopsError) as raised:
        world.apply("usable")
    assert "HOST" not in raised.value.hint
    assert "klops doctor xccl h" in raised.value.hint
    assert "of the free cards (0, 2, 3, 4, 5, 7) no group of 1 card or more" in raised.value.message
    with pytest.raises(TaskFailed) as started:
        world.plan_of("klops.services")
    assert "klops down h, then klops doctor xccl h" in started.value.hint


def test_what_is_learned_right_after_a_diagnosis_is_no_second_opinion() -> None:
    world = World(bad={5})
    with pytest.raises(TaskFailed):
        world.apply("diagnosed")
    with pytest.raises(TaskFailed):
        world.apply("learned")
    assert world.notes == []
    with pytest.raises(TaskFailed):
        world.apply("diagnosed")
    assert len(world.notes) == 1


@pytest.mark.parametrize(
    ("state", "params", "said", "hint"),
    [
        (
            "excluded",
            {},
            "notes on cards are written in it",
            "until then klops.cards.use without these cards",
        ),
        (
            "restored",
            {"force": True},
            "notes on cards are written in it",
            "klops up h makes and starts it, then",
        ),
        ("restored", {}, "cards are tested in it", "klops up h makes and starts it"),
    ],
)
def test_without_a_container_it_says_what_for_it_is_needed(
    state: str, params: dict[str, Any], said: str, hint: str
) -> None:
    world = World()
    world.over["container"] = reply(rc=1, stderr="Error: No such container: klops")
    failure = world.plan(state, cards=["3"], **params).failure
    assert failure is not None
    assert failure.code == "container-absent"
    assert failure.message.endswith(said)
    assert failure.hint.startswith(hint)
