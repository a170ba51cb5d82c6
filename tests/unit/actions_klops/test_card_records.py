"""What is kept of cards between diagnoses, and what it takes until one may serve again."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from klops.actions.own.cards import report
from klops.actions.own.cards.record.standing import CardState, Standing
from klops.cards.record import quarantine
from klops.cards.xccl.results import OK, UNTESTED, WRONG, Outcome, Sample
from klops.errors import KlopsError, TaskFailed
from klops.remote.base import Reply
from klops.remote.fake import reply
from klops.remote.reads import ABSENT
from klops.ui.cards import list_view

from .cardsworld import World

ALL = list(range(8))


class Together(World):
    """A host whose bad cards fail in collectives only, and work alone."""

    def _outcome(self, cards: tuple[int, ...]) -> Outcome:
        if len(cards) == 1:
            return Outcome(cards, OK, samples=(Sample(2600000, 10, us=20.0),))
        return super()._outcome(cards)


def diagnosed(world: World, *cards: str) -> dict[str, Any]:
    """The values of a diagnosis, whatever it came to."""
    try:
        return world.apply("diagnosed", cards=[*cards])
    except TaskFailed as failed:
        return dict(failed.values)


def noted(world: World) -> list[str]:
    return sorted(one["card"]["serial"] for one in world.notes)


def verdict_of(world: World, index: int) -> str:
    return str(world.plan("listed").result["cards"][index]["verdict"])


def serving(kind: type[World], bad: set[int]) -> World:
    """Its bad cards are noted, and the service is up on the others."""
    world = kind(bad=bad, cards={"confirm": 1})
    world.apply("usable")
    world.start()
    return world


# -- alone is not together -----------------------------------------------------------------------------------


def test_row_C16_a_card_that_fails_with_others_is_not_put_back_by_a_test_of_itself() -> None:
    world = serving(Together, {0, 1, 2, 3})
    with pytest.raises(TaskFailed, match="works alone; not tested together with others") as raised:
        world.apply("restored", cards=["0"])
    assert raised.value.code == "cards-unknown"
    assert raised.value.values["restored"] == []
    assert any("klops cards restore h 0,1,2,3 tests them together" in text for text in world.stage.warnings)
    assert diagnosed(world, "1")["scope"] == "inconclusive"
    assert noted(world) == ["SN00", "SN01", "SN02", "SN03"]
    assert [row["n"] for row in world.verdict["consecutive"]] == [1] * 4
    assert [verdict_of(world, index) for index in (0, 1)] == ["fail", "fail"]


def test_row_C16_together_they_are_put_back_when_they_work() -> None:
    world = serving(Together, {0, 1, 2, 3})
    world.bad.clear()
    assert world.apply("restored", cards=["0", "1", "2", "3"])["restored"] == [0, 1, 2, 3]
    assert not world.notes
    assert world.apply("usable")["recommended"] == {"main": ALL}


def test_row_C16_one_is_tested_with_all_cards_that_are_free() -> None:
    world = Together(bad={0, 1}, cards={"confirm": 1})
    world.apply("usable")
    with pytest.raises(TaskFailed) as raised:
        world.apply("restored", cards=["0"])
    assert raised.value.code == "card-still-bad"
    assert world.verbs("xccl")[-1]["aim"]["cards"] == [0, 2, 3, 4, 5, 6, 7]
    world.bad.clear()
    assert world.apply("restored", cards=["0"])["restored"] == [0]
    assert noted(world) == ["SN01"]


@pytest.mark.parametrize("confirm", [1, 2])
def test_a_card_that_failed_alone_is_put_back_when_it_works_alone(confirm: int) -> None:
    world = World(bad={0, 1, 2, 3}, cards={"confirm": confirm})
    world.apply("usable")
    world.start()
    world.bad.clear()
    assert world.apply("restored", cards=["0"])["restored"] == [0]
    assert noted(world) == (["SN01", "SN02", "SN03"] if confirm == 1 else [])
    assert len(world.verdict["consecutive"]) == 3
    assert [verdict_of(world, index) for index in (0, 1)] == ["unknown", "fail"], "with others it isn't known"


def test_a_card_kept_out_by_hand_is_not_put_back_by_a_test_of_itself() -> None:
    world = World(cards={"diagnose": "never"}, services={"main": {"tp": 4}})
    world.runs([4, 5, 6, 7])
    world.apply("excluded", cards=["0", "1", "2", "3"], reason="fan")
    with pytest.raises(TaskFailed, match="works alone"):
        world.apply("restored", cards=["0"])
    assert len(world.notes) == 4
    assert world.apply("restored", cards=["0", "1"])["restored"] == [0, 1]


def test_a_service_on_one_card_asks_for_no_more() -> None:
    world = Together(cards={"confirm": 1}, services={"main": {"tp": 1}})
    world.runs([7])
    world.apply("excluded", cards=["0", "1", "2", "3", "4", "5", "6"], reason="fan")
    assert world.apply("restored", cards=["0"])["restored"] == [0]


def test_a_host_of_one_card_has_nobody_to_test_it_with() -> None:
    world = World(cards={"use": [3]})
    found = world.apply("diagnosed")
    assert (found["scope"], found["healthy"]) == ("none", [3])


def test_that_a_card_works_alone_is_no_news_of_one_that_works_with_others() -> None:
    world = World()
    world.apply("usable")
    assert diagnosed(world, "2")["scope"] == "inconclusive"
    assert verdict_of(world, 2) == "pass"
    assert not world.plan("usable").steps


# -- what a test of some cards says of the others ------------------------------------------------------------


def test_a_bad_link_is_remembered_when_one_of_its_ends_is_tested() -> None:
    world = World(links={frozenset((2, 6))})
    assert diagnosed(world)["scope"] == "link"
    diagnosed(world, "2")
    diagnosed(world, "4", "5", "6", "7")
    assert len(world.start()) == 4
    assert not {2, 6} <= {*world.unit["cards"]}
    world.unit.update(state="stopped", desired="stopped", lineage=[])
    world.links.clear()
    diagnosed(world, "2", "6")
    assert world.start() != ALL, "the eight were not tested again"
    world.unit.update(state="stopped", desired="stopped", lineage=[])
    diagnosed(world)
    assert world.start() == ALL


def test_a_bad_link_is_forgotten_when_a_group_with_both_its_ends_works() -> None:
    world = World(links={frozenset((2, 6))}, baseline=learned())
    diagnosed(world)
    world.links.clear()
    assert diagnosed(world)["collectives_run"] == 1
    assert world.start() == ALL


def test_a_group_that_fails_is_remembered_when_some_of_it_are_tested() -> None:
    world = World(size=8)
    diagnosed(world)
    diagnosed(world, "0", "1", "2", "3")
    assert len(world.start()) == 4


def test_a_group_that_worked_is_remembered_until_one_of_its_cards_fails() -> None:
    world = World()
    world.apply("usable")
    diagnosed(world, "0", "1", "2", "3")
    assert not world.plan("usable").steps
    world.links.add(frozenset((0, 1)))
    diagnosed(world, "0", "1")
    assert frozenset(ALL) not in {frozenset(one["cards"]) for one in world.verdict["result"]["outcomes"]}


def test_what_is_known_of_cards_that_other_settings_use_stays() -> None:
    world = World(bad={5}, links={frozenset((6, 7))})
    diagnosed(world)
    four = World(
        cards={"use": [0, 1, 2, 3], "groups": [[0, 1, 2, 3]]},
        verdict=world.verdict,
        services={"main": {"tp": 4}},
    )
    assert diagnosed(four)["scope"] == "none"
    again = World(bad={5}, verdict=four.verdict)
    cards = again.plan("listed").result["cards"]
    assert [card["verdict"] for card in cards] == ["pass"] * 5 + ["fail"] + ["pass"] * 2
    assert cards[5]["at"] == world.verdict["at"]
    assert [one["serial"] for one in again.verdict["cards"]] == [f"SN0{index}" for index in range(8)]
    assert [(one["a"], one["b"]) for one in again.verdict["result"]["pairs"] if one["status"] == "error"] == [
        (6, 7)
    ]
    # also of one that is not there, without the node that it had
    hidden = World(cards=four.cards, verdict=four.verdict)
    for key, parts in (("smi.m", "\n"), ("smi.q", "XPU 0000")):
        text = hidden.answer(key).text
        hidden.over[key] = reply(parts.join(part for part in text.split(parts) if "SN07" not in part))
    diagnosed(hidden)
    (last,) = (one for one in hidden.verdict["cards"] if one["serial"] == "SN07")
    assert (last["bdf"] != "", last["minor"], last["node"]) == (True, None, None)


class Hurried(World):
    """There is time for the first ``left`` tests only."""

    left: int = 0

    def _outcome(self, cards: tuple[int, ...]) -> Outcome:
        self.left -= 1
        return Outcome(cards, UNTESTED, runs=0) if self.left < 0 else super()._outcome(cards)


def on_four(kind: type[World] = World) -> World:
    """A host whose cards all passed, how fast they are is learned, and its service gets four of them."""
    world = kind(baseline=learned(), services={"main": {"tp": 4}})
    world.baseline["bandwidth"]["4"] = world.baseline["bandwidth"]["8"]
    if isinstance(world, Hurried):
        world.left = 1000
    diagnosed(world)
    world.start()
    assert world.unit["cards"] == [0, 1, 2, 3]
    world.unit.update(state="stopped", desired="stopped", lineage=[])
    return world


def test_a_test_of_the_group_that_is_asked_for_leaves_what_is_known_of_the_others() -> None:
    world = on_four()
    world.now += 90000.0
    found = world.apply("usable")
    assert world.verbs("xccl")[-1]["aim"]["first"] == [[0, 1, 2, 3]]
    assert [card["tested"] for card in found["diagnosis"]["cards"]] == [True] * 4 + [False] * 4
    assert (found["diagnosis"]["scope"], found["recommended"]) == ("none", {"main": [0, 1, 2, 3]})
    assert found["diagnosis"]["summary"].endswith(
        "the 4 cards that were tested work together; cards 4, 5, 6, 7 not tested"
    )
    assert not world.stage.warnings
    cards = world.plan("listed").result["cards"]
    assert [card["verdict"] for card in cards] == ["pass"] * 8
    assert [card["stale"] for card in cards] == [False] * 4 + [True] * 4


def test_a_diagnosis_without_time_leaves_what_is_known_and_is_no_pass() -> None:
    world = on_four(Hurried)
    assert isinstance(world, Hurried)
    world.left = 0
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    assert (raised.value.code, raised.value.values["healthy"]) == ("cards-inconclusive", [])
    assert not any(card["tested"] for card in raised.value.values["cards"])
    assert [card["verdict"] for card in world.plan("listed").result["cards"]] == ["pass"] * 8


def test_a_service_that_failed_gets_no_cards_back_that_there_was_no_time_to_test() -> None:
    world = on_four(Hurried)
    assert isinstance(world, Hurried)
    world.left = 0
    world.runs([0, 1, 2, 3], "failed")
    world.unit["failed_at"] = world.now + 10.0
    world.now += 60.0
    with pytest.raises(TaskFailed, match="main failed after its cards were tested") as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unknown"


def test_where_nothing_shows_which_card_had_which_rank_no_card_keeps_its_pass() -> None:
    answered = {
        "sure": False,
        "diagnosis": {
            "verdict": {"cards": {"0": {"verdict": "unknown", "reason": "a fault was found"}}},
            "outcomes": [],
        },
    }
    standing = Standing((CardState(0, {}, None, "pass", "works"),))
    (card,) = report.report(answered, standing, {}, {}, None)["cards"]
    assert (card["tested"], card["reason"]) == (True, "a fault was found")


# -- how often, and for how long -----------------------------------------------------------------------------


def test_a_card_is_counted_as_one_also_where_its_serial_could_not_be_read() -> None:
    world = World(bad={0})
    diagnosed(world)
    world.over["smi.q"] = reply(rc=124)
    diagnosed(world)
    (note,) = world.notes
    assert (note["card"]["bdf"], note["card"]["uuid"]) == ("0000:52:00", "")
    assert [row["n"] for row in world.verdict["consecutive"]] == [2]


def test_one_failure_that_was_not_confirmed_is_for_one_boot() -> None:
    world = World(bad={0}, cards={"diagnose": "never"})
    diagnosed(world)
    assert world.start() == [4, 5, 6, 7]
    world.runs([4, 5, 6, 7], "failed")
    world.boot = "b1"
    card = world.plan("listed").result["cards"][0]
    assert card["verdict"] == "unknown"
    assert card["reason"].startswith("failed before the host was booted")
    assert world.start() == ALL
    # a test of others that takes place now makes it no failure of this boot
    world.unit.update(state="stopped", desired="stopped", lineage=[])
    diagnosed(world, "4", "5", "6", "7")
    assert [verdict_of(world, index) for index in (0, 4)] == ["unknown", "pass"]
    assert [row["n"] for row in world.verdict["consecutive"]] == [1]
    # and it still is one of two in a row
    diagnosed(world)
    assert noted(world) == ["SN00"]
    world.boot = "b2"
    assert world.start() == [4, 5, 6, 7]


# -- words and notes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["", "fan"])
def test_an_exclusion_twice_is_one(reason: str) -> None:
    world = World()
    world.apply("excluded", cards=["3"], reason=reason)
    assert world.notes[0]["reason"].startswith(reason or "excluded by ")
    plan = world.plan("excluded", cards=["3"], reason=reason)
    assert not plan.steps
    assert plan.message == "kept out of service already"


def test_what_only_a_process_lifts_is_seen_beside_a_person_s_word() -> None:
    world = World()
    world.apply("excluded", cards=["3"], reason="fan")
    (hand,) = world.notes
    process = {"pid": 40, "start": 99, "ns": 7, "name": "VLLM::Worker_TP", "state": "D"}
    world.notes.append(
        quarantine.note(hand["card"], "state D", by="unit main", at=5.0, boot_id="b0", process=process)
    )
    with pytest.raises(KlopsError, match="pid 40") as raised:
        world.apply("restored", cards=["3"], force=True)
    assert raised.value.code == "card-quarantined"
    assert len(world.notes) == 2


class Sums(World):
    """Sums with a bad card are wrong; alone each works."""

    def _outcome(self, cards: tuple[int, ...]) -> Outcome:
        if len(cards) > 1 and self.bad & {*cards}:
            return Outcome(
                cards, WRONG, "check", samples=(Sample(2600000, 10, wrong=10, us=1.0),), failures=1
            )
        return Outcome(cards, OK, samples=(Sample(2600000, 10, us=135.0), Sample(1 << 24, 10, us=900.0)))


def test_wrong_sums_of_all_cards_that_are_free_are_not_the_set_up() -> None:
    world = serving(Sums, {0, 1, 2, 3})
    with pytest.raises(TaskFailed, match="no good partner was free to test with") as raised:
        world.apply("restored", cards=["0", "1", "2", "3"])
    assert raised.value.values["scope"] == "inconclusive"
    assert raised.value.hint == "klops down h ends main, then klops cards restore h 0 1 2 3"
    assert [verdict_of(world, index) for index in range(4)] == ["fail"] * 4
    assert len(world.notes) == 4


# -- a word that stands --------------------------------------------------------------------------------------


def test_a_word_that_stands_is_not_cut_short_by_another() -> None:
    world = World()
    world.apply("excluded", cards=["1"], reason="ticket 4711")
    for shorter in ({"for_seconds": 5.0}, {"for_seconds": 5.0, "reason": "a look"}):
        with pytest.raises(TaskFailed, match="card 1: ticket 4711, for ever") as raised:
            world.apply("excluded", cards=["1", "2"], **shorter)
        assert raised.value.code == "card-excluded"
        assert raised.value.hint.startswith("klops cards restore h 1 ")
    assert [one["reason"] for one in world.notes] == ["ticket 4711"], "nor was card 2 noted"
    assert not world.plan("excluded", cards=["1"]).steps, "no new reason, no new end"


def test_a_word_may_be_prolonged_and_what_was_said_before_is_told() -> None:
    world = World()
    world.apply("excluded", cards=["1"], reason="ticket 4711", for_seconds=600.0)
    world.apply("excluded", cards=["1"], for_seconds=7200.0)
    (note,) = world.notes
    assert (note["reason"], note["expires"]) == ("ticket 4711", world.now + 7200.0)
    world.apply("excluded", cards=["1"], reason="broken fan")
    (note,) = world.notes
    assert (note["reason"], note["expires"]) == ("broken fan", None)
    assert world.stage.warnings[-1] == "card 1 was kept out of service before: ticket 4711, for 2 h more"


@pytest.mark.parametrize("expires", ["soon", float("inf"), float("nan")])
def test_a_word_whose_end_is_no_time_stands_for_ever(expires: object) -> None:
    world = World()
    world.apply("excluded", cards=["1"], reason="ticket 4711")
    world.notes[0]["expires"] = expires
    with pytest.raises(TaskFailed, match="card 1: ticket 4711, for ever"):
        world.apply("excluded", cards=["1"], for_seconds=5.0)
    assert not world.plan("excluded", cards=["1"]).steps
    assert world.plan("listed").result["cards"][1]["quarantine"]["expires"] is None


# -- what was learned ----------------------------------------------------------------------------------------


def learned() -> dict[str, Any]:
    world = World()
    world.apply("learned")
    return world.baseline


@pytest.mark.parametrize("check", [False, True])
def test_nothing_is_learned_where_it_would_not_be_read(check: bool) -> None:
    world = World(cards={"baseline": "/etc/klops/baseline.json"})
    failure = world.plan("learned", check=check).failure
    assert failure is not None
    assert failure.code == "cards-baseline"
    assert "klops.cards.baseline is /etc/klops/baseline.json" in failure.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"driver": "5.0.1 (xpu-smi)"}, "it is of driver 5.0.1 (xpu-smi)"),
        ({"serial": "SN99"}, "card 3 is none of those that it is of"),
    ],
)
def test_what_was_learned_of_other_cards_or_another_driver_is_no_measure(
    change: dict[str, str], said: str
) -> None:
    baseline = learned()
    if "serial" in change:
        baseline["cards"][3].update(uuid="GPU-9", serial="SN99")
    world = World(baseline={**baseline, **{key: change[key] for key in change if key == "driver"}})
    found = diagnosed(world)
    (request,) = world.verbs("xccl")
    assert bool(request["aim"]["baseline"]) == (not said)
    assert bool(found["baseline"]) == (not said)
    told = [text for text in world.stage.warnings if "not compared with what was learned" in text]
    assert len(told) == bool(said)
    assert said in json.dumps(told)


def test_nobody_is_told_to_learn_what_a_setting_would_keep_from_being_read() -> None:
    other = {**learned(), "driver": "5.0.1 (xpu-smi)"}
    world = World(baseline=other, cards={"baseline": "/etc/klops/baseline.json"})
    diagnosed(world)
    (told,) = [text for text in world.stage.warnings if "not compared with what was learned" in text]
    deleted = (
        "correct /etc/klops/baseline.json; or delete klops.cards.baseline, then klops cards learn h learns"
    )
    assert deleted in told


@pytest.mark.parametrize(
    "said", [{"8": {"2.6MB": 19.3}}, {"8": {"2600000": "19.3 GB/s"}}, {"8": 19.3}, [19.3]]
)
def test_bandwidths_in_another_form_are_no_measure_and_that_is_said(said: Any) -> None:
    world = World(baseline={**learned(), "bandwidth": said})
    found = world.apply("usable")
    assert found["diagnosis"]["baseline"] == {}
    (told,) = world.stage.warnings
    assert "the bandwidths in /data/klops/baseline.json are not as klops cards learn writes them" in told
    assert told.endswith("klops cards learn h learns them anew")


@pytest.mark.parametrize("schema", ["1", None, 2])
def test_a_document_of_another_schema_is_not_read(schema: Any) -> None:
    world = World(baseline={**learned(), "schema": schema})
    world.apply("diagnosed")
    (told,) = world.stage.warnings
    assert "/data/klops/baseline.json can't be read, or is of a newer klops" in told


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (reply(rc=ABSENT), "which klops.cards.baseline names, isn't there"),
        (reply("{"), "can't be read"),
        (reply(rc=1, stderr="Permission denied"), "can't be read"),
    ],
)
@pytest.mark.parametrize("state", ["usable", "diagnosed"])
def test_a_baseline_that_the_settings_name_and_that_is_not_to_be_had_is_a_warning(
    state: str, there: Reply, why: str
) -> None:
    world = World(cards={"baseline": "/etc/klops/baseline.json"})
    world.over["cards.baseline"] = there
    world.apply(state)
    (told,) = world.stage.warnings
    assert "/etc/klops/baseline.json" in told
    assert why in told
    listed = world.plan("listed").result
    assert listed["baseline"] is None
    assert told in listed["notes"]
    shown = io.StringIO()
    Console(file=shown, width=400).print(list_view({"h": listed}, str))
    assert why in shown.getvalue()
    assert "no bandwidth was learned yet" not in shown.getvalue(), "learning would be refused"


def test_where_nothing_was_learned_nothing_is_missed() -> None:
    world = World()
    world.apply("diagnosed")
    assert world.stage.warnings == []
    assert world.plan("listed").result["baseline_unread"] == ""
