"""``klops.cards`` on a host whose agent runs the real plan of a diagnosis over cards that are bad or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from klops.actions.own.cards.action import CardsParams
from klops.errors import AgentError, KlopsError, TaskFailed
from klops.remote.fake import reply

from .cardsworld import World

ALL = list(range(8))


def test_a_start_on_cards_that_were_never_tested_forms_one_group_where_all_is_well() -> None:
    world = World(baseline=learned())
    found = world.apply("usable")
    assert found["recommended"] == {"main": ALL}
    assert found["diagnosis"]["collectives_run"] == 1
    assert world.start() == ALL
    assert not world.stage.warnings


def learned() -> dict[str, Any]:
    world = World()
    world.apply("learned")
    return world.baseline


def test_what_was_learned_is_who_the_cards_are_and_how_fast() -> None:
    world = World()
    found = world.apply("learned")
    assert [card["serial"] for card in world.baseline["cards"]] == [f"SN0{n}" for n in ALL]
    assert found["baseline"] == world.baseline["bandwidth"]
    assert set(found["baseline"]) == {"2", "4", "8"}
    assert world.baseline["bandwidth"]["8"]["2600000"] == pytest.approx(2600000 / 135.0 / 1000, abs=1e-3)
    assert set(world.baseline) == {"schema", "at", "by", "boot_id", "driver", "cards", "links", "bandwidth"}


def test_nothing_is_learned_from_a_host_with_a_bad_card() -> None:
    world = World(bad={5})
    with pytest.raises(TaskFailed, match="nothing was learned") as raised:
        world.apply("learned")
    assert raised.value.code == "cards-bad"
    assert raised.value.values["excluded"] == [5]
    assert not world.baseline
    world.apply("learned", force=True)
    assert world.baseline


def test_row_C16_a_start_goes_to_the_cards_that_work_and_says_so_in_every_numbering() -> None:
    world = World(bad={0, 1, 2, 3})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    said = "\n".join(world.stage.warnings)
    assert "main runs with TP=4 on cards 4, 5, 6, 7 instead of TP=8: card 0: failed" in said
    status = world.plan_of("klops.status").result
    by = {card["index"]: card for card in status["cards"]}
    assert [by[i]["verdict"] for i in ALL] == ["fail"] * 4 + ["pass"] * 4
    # index, minor and the container's number of card 5 differ, and the node is that of the minor
    shown = {key: by[5][key] for key in ("minor", "node", "container_node", "container_index", "bdf")}
    assert shown == {
        "minor": 6,
        "node": "/dev/xpu6",
        "container_node": "/dev/xpu6",
        "container_index": 6,
        "bdf": "0000:9b:00",
    }
    less = status["services"]["main"]["fallback"]
    assert (less["tp"], less["asked"]) == (4, 8)
    assert [one["index"] for one in less["out"]] == [0, 1, 2, 3]


def test_row_C16_the_ranks_get_the_container_s_own_numbers() -> None:
    world = World()
    world.apply("diagnosed", cards=["4", "5"])
    (request,) = world.verbs("xccl")
    _, card = request["cards"]
    assert (card["index"], card["minor"], card["node"], card["inside"]) == (5, 6, "/dev/xpu6", 6)
    assert request["visible_env"] == "XPU_VISIBLE_DEVICES"


def test_row_C17_lost_access_inside_excludes_no_card() -> None:
    world = World()
    status = world.answer("agent.status").json()
    lost = {"node": "/dev/xpu6", "error": "Operation not permitted", "fault": "container"}
    world.over["agent.status"] = reply(json.dumps({**status, "access": [lost]}))
    with pytest.raises(KlopsError) as raised:
        world.apply("diagnosed")
    values = raised.value.values
    assert raised.value.code == "cards-unknown"
    assert values["excluded"] == []
    (request,) = world.verbs("xccl")
    assert [card["index"] for card in request["cards"]] == [0, 1, 2, 3, 4, 6, 7]
    by = {card["index"]: card for card in values["cards"]}
    assert by[5]["verdict"] == "unknown"
    assert "not permitted" in by[5]["reason"].lower()
    assert not world.notes


@pytest.mark.parametrize(
    ("bad", "cards"),
    [({2}, [4, 5, 6, 7]), ({5}, [0, 1, 2, 3]), ({0, 1, 2, 3}, [4, 5, 6, 7]), (set(), ALL)],
    ids=["2", "5", "0123", "none"],
)
def test_row_F37_the_wing_without_a_bad_card(bad: set[int], cards: list[int]) -> None:
    world = World(bad=bad)
    found = world.apply("usable")
    assert found["recommended"] == {"main": cards}
    assert found["diagnosis"]["verified"]
    assert world.start() == cards


@pytest.mark.parametrize("bad", [{1, 6}, {1, 2, 5}], ids=["16", "125"])
def test_row_F37_no_whole_group_is_left(bad: set[int]) -> None:
    world = World(bad=bad)
    with pytest.raises(TaskFailed, match="no service can be put on the cards") as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unfit"
    assert raised.value.values["diagnosis"]["excluded"] == sorted(bad)
    with pytest.raises(TaskFailed, match="bad card"):
        world.start()


def test_row_F37_a_pair_where_the_inventory_allows_it() -> None:
    world = World(bad={1, 6}, cards={"groups": [[0, 1, 2, 3], [4, 5, 6, 7], [2, 3], ALL]})
    assert world.apply("usable")["recommended"] == {"main": [2, 3]}


def test_row_F37_heads_that_eight_does_not_divide() -> None:
    world = World()
    world.over["model.main.config"] = reply('{"num_attention_heads": 28, "num_key_value_heads": 4}')
    assert len(world.apply("usable")["recommended"]["main"]) == 4


def test_weights_that_four_cards_can_not_hold_leave_no_choice() -> None:
    world = World(bad={0})
    world.over["model.main.weights"] = reply('{"metadata": {"total_size": 600000000000}, "weight_map": {')
    with pytest.raises(TaskFailed) as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unfit"


def test_one_failing_diagnosis_counts_for_one_start_and_two_for_longer() -> None:
    world = World(bad={0})
    world.apply("usable")
    assert not world.notes
    world.start()
    plan = world.plan("usable")
    assert not plan.steps, "a service that is ready keeps its cards, whatever is not confirmed"
    assert plan.message.startswith("services are ready")
    world.runs([4, 5, 6, 7], "unhealthy")
    world.apply("usable")
    assert [verb for verb, _ in world.asked][-3:] == ["stop", "xccl", "note"]
    (note,) = world.notes
    assert (note["kind"], note["card"]["serial"], note["boot_id"]) == ("verdict", "SN00", "b0")
    assert "2 diagnoses in a row" in note["reason"]
    assert note["at"] == pytest.approx(world.now, abs=5)
    assert note["evidence"]
    # a third start knows enough
    world.runs([4, 5, 6, 7], "failed")
    asked = len(world.verbs("xccl"))
    world.apply("usable")
    assert len(world.verbs("xccl")) == asked


def test_a_card_that_passes_the_second_time_serves_again() -> None:
    world = World(bad={0})
    world.apply("usable")
    world.bad.clear()
    assert world.apply("usable")["recommended"] == {"main": ALL}
    assert world.verdict["consecutive"] == []


def test_klops_lifts_its_own_notes_only() -> None:
    world = World(bad={0}, cards={"confirm": 1})
    world.apply("excluded", cards=["SN04"], reason="smells")
    with pytest.raises(TaskFailed):
        world.apply("diagnosed")
    assert {one["kind"] for one in world.notes} == {"verdict", "hand"}
    world.bad.clear()
    world.apply("diagnosed")
    assert [(one["kind"], one["card"]["serial"]) for one in world.notes] == [("hand", "SN04")]


def test_after_a_boot_what_was_noted_is_tested_again() -> None:
    world = World(bad={0}, cards={"confirm": 1})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    world.bad.clear()
    world.runs([4, 5, 6, 7], "failed")
    world.boot = "b1"
    found = world.apply("usable")
    request = world.verbs("xccl")[-1]
    assert request["aim"]["first"] == [[4, 5, 6, 7]], "without the card in doubt"
    assert 0 in request["aim"]["cards"]
    assert found["recommended"] == {"main": ALL}
    assert not world.notes, "it passed, so klops takes its own note back"


def test_repaired_cards_are_restored_and_the_next_up_takes_all() -> None:
    world = World(bad={0, 1, 2, 3}, cards={"confirm": 1})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    with pytest.raises(TaskFailed) as raised:
        world.apply("restored", cards=["0", "1", "2", "3"])
    assert raised.value.code in ("card-still-bad", "cards-unknown")
    assert len(world.notes) == 4
    assert {card["verdict"] for card in world.plan("listed").result["cards"][:4]} == {"fail"}
    world.bad.clear()
    found = world.apply("restored", cards=["0", "0000:55:00", "GPU-00000002", "SN03"])
    assert found["restored"] == [0, 1, 2, 3]
    assert not world.notes
    assert world.verbs("xccl")[-1]["aim"]["cards"] == [0, 1, 2, 3], "the others are in use"
    found = world.apply("usable")
    assert found["recommended"] == {"main": ALL}
    assert [verb for verb, _ in world.asked][-3:] == ["stop", "xccl", "note"]
    assert world.start() == ALL


def test_a_note_by_hand_is_for_the_next_start() -> None:
    world = World(baseline=learned())
    world.apply("usable")
    world.start()
    world.apply("excluded", cards=["3"], reason="fan", for_seconds=3600)
    (told,) = world.stage.warnings
    assert told.startswith("main runs on card 3 and goes on: that counts from its next start on")
    assert told.endswith("klops restart h --service main")
    (note,) = world.notes
    assert (note["kind"], note["reason"], note["expires"]) == ("hand", "fan", world.now + 3600)
    assert not world.plan("usable").steps
    assert not world.plan_of("klops.services").steps
    world.runs(ALL, "failed")
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    world.now += 3601
    assert world.plan("listed").result["cards"][3]["quarantine"] is None


def test_restored_by_force_says_that_nothing_was_tested() -> None:
    world = World(bad={0}, cards={"confirm": 1})
    world.apply("usable")
    world.apply("restored", cards=["0"], force=True)
    assert not world.notes
    assert "card 0: put back without a test" in world.stage.warnings


def test_restored_by_force_a_card_serves_where_nothing_is_tested() -> None:
    world = World(bad={0}, cards={"diagnose": "never"})
    with pytest.raises(TaskFailed):
        world.apply("diagnosed")
    assert world.start() == [4, 5, 6, 7]
    world.apply("restored", cards=["0"], force=True)
    assert world.start() == ALL
    assert world.plan("listed").result["cards"][0]["verdict"] == "unknown"


def test_what_one_service_lacks_ends_no_other() -> None:
    second = {"model": "/models/glm", "port": 8001, "tp": 4}
    world = World(bad={4, 5, 6, 7}, services={"main": {"tp": 4}, "second": second})
    world.runs([0, 1, 2, 3])
    for _ in range(2):
        with pytest.raises(TaskFailed) as raised:
            world.apply("usable")
        assert raised.value.code == "cards-unfit"
    assert not world.verbs("stop")
    assert world.verbs("xccl")[-1]["aim"]["cards"] == [4, 5, 6, 7]


def test_a_card_that_nobody_knows() -> None:
    world = World()
    with pytest.raises(TaskFailed, match="no card is called SN055") as raised:
        world.apply("excluded", cards=["SN055"])
    assert raised.value.code == "card-unknown"
    assert "did you mean SN05?" in raised.value.hint


def test_cards_in_use_are_never_tested() -> None:
    world = World()
    world.runs([0, 1, 2, 3])
    with pytest.raises(KlopsError) as raised:
        world.apply("diagnosed")
    assert raised.value.code == "cards-unknown"
    (request,) = world.verbs("xccl")
    assert request["aim"]["cards"] == [4, 5, 6, 7]
    by = {card["index"]: card for card in raised.value.values["cards"]}
    assert by[0]["reason"] == "in use by main"


def test_without_torch_a_start_goes_on_and_says_that_nothing_is_known() -> None:
    world = World(refuses={"code": "no-torch", "message": "the image has no torch", "hint": ""})
    world.apply("usable")
    assert any("could not be tested: the image has no torch" in text for text in world.stage.warnings)
    assert world.start() == ALL
    assert {card["verdict"] for card in world.plan_of("klops.status").result["cards"]} == {"unknown"}
    world.runs(ALL, "failed")
    with pytest.raises(AgentError, match="no torch"):
        world.apply("diagnosed")


def test_cards_that_are_being_tested_by_somebody_else_are_refused() -> None:
    world = World(refuses={"code": "xccl-busy", "message": "run x tests them", "hint": ""})
    with pytest.raises(AgentError) as raised:
        world.apply("usable")
    assert raised.value.code == "xccl-busy"


def test_a_bad_link_keeps_its_ends_apart() -> None:
    world = World(links={frozenset((2, 6))})
    found = world.apply("usable")
    assert found["diagnosis"]["scope"] == "link"
    assert found["diagnosis"]["excluded"] == []
    assert len(found["recommended"]["main"]) == 4


def test_only_all_together_fail() -> None:
    world = World(size=8)
    found = world.apply("usable")
    assert found["diagnosis"]["excluded"] == []
    assert len(found["recommended"]["main"]) == 4
    assert len(world.start()) == 4
    world.runs(world.unit["cards"], "failed")
    asked = len(world.verbs("xccl"))
    world.apply("usable")
    assert len(world.verbs("xccl")) == asked, "what was found stays good"


def test_tp_of_this_run_is_a_warning() -> None:
    world = World()
    found = world.apply("usable", tp=4)
    assert len(found["recommended"]["main"]) == 4
    assert "main: tp 4 for this run, whatever the settings say (tp auto)" in world.stage.warnings


def test_cards_that_are_named_and_bad_are_a_failure() -> None:
    world = World(bad={1}, cards={"confirm": 1}, services={"main": {"cards": [0, 1, 2, 3]}})
    with pytest.raises(TaskFailed) as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unfit"
    with pytest.raises(TaskFailed, match="card 1 is kept out of service") as raised:
        world.start()
    assert raised.value.code == "card-quarantined"


def test_a_size_that_is_asked_for_and_can_not_be_had_is_a_failure() -> None:
    world = World(bad={0}, services={"main": {"tp": 8}})
    with pytest.raises(TaskFailed) as raised:
        world.apply("usable")
    assert raised.value.code == "cards-unfit"
    assert world.apply("usable", tp="auto")["recommended"] == {"main": [4, 5, 6, 7]}


def test_check_mode_can_not_know() -> None:
    world = World()
    assert "would be tested: they were never tested" in world.plan("usable", check=True).unknown
    assert world.plan("diagnosed", check=True).unknown
    assert not world.asked


def test_never_means_that_a_start_waits_for_no_test() -> None:
    world = World(cards={"diagnose": "never"})
    plan = world.plan("usable")
    assert not plan.steps
    assert plan.message == "not tested, as klops.cards.diagnose is never: they were never tested"
    assert world.start() == ALL


def test_a_verdict_grows_old() -> None:
    world = World()
    world.apply("usable")
    assert not world.plan("usable").steps
    world.now += 86401 + 60
    plan = world.plan("usable")
    assert [step.change().what for step in plan.steps] == [
        "test card 0, 1, 2, 3, 4, 5, 6, 7 by collectives (the verdict is 1 d old)"
    ]
    world.start()
    plan = world.plan("usable")
    assert not plan.steps
    assert "the last test is old: the verdict is 1 d old" in plan.message
    assert world.plan_of("klops.status").result["cards"][0]["stale"] is True


def test_a_card_that_is_gone_is_kept_out_where_it_is_certain_which_it_is() -> None:
    world = World()
    world.apply("usable")
    rows = world.answer("smi.m").text.splitlines(keepends=True)
    world.over["smi.m"] = reply("".join(row for row in rows if "SN02" not in row))
    query = world.answer("smi.q").text
    start, end = query.index("XPU 00000000:63"), query.index("XPU 00000000:66")
    world.over["smi.q"] = reply(query[:start] + query[end:])
    found = world.apply("usable")
    assert found["recommended"] == {"main": [4, 5, 6, 7]}
    assert found["out"] == [
        {
            "index": 2,
            "verdict": "fail",
            "reason": "xpu-smi doesn't show it (0000:63:00 = GPU-00000002 = SN02)",
        }
    ]
    # klops.container leaves the node where it is
    assert not world.plan_of("klops.status").result["container"]["drift"]


def test_after_a_boot_that_counts_anew_the_right_card_stays_out() -> None:
    world = World(bad={1}, cards={"confirm": 1})
    world.apply("usable")
    text = world.answer("smi.m").text
    for serial, old, new in (("SN01", 1, 6), ("SN06", 6, 1)):
        text = text.replace(f"00.0 {old} {old} {serial}", f"00.0 {new} {new} {serial}")
    world.over["smi.m"] = reply(text)
    world.boot = "b1"
    by = {card["index"]: card for card in world.plan("listed").result["cards"]}
    assert by[6]["serial"] == "SN01"
    assert by[6]["quarantine"]["kind"] == "verdict"
    assert by[1]["quarantine"] is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"schema": 2}',
        '{"result": 5}',
        '{"cards": [5]}',
        '{"result": {"cards": 5}}',
        '{"result": {"cards": [{"bdf": "0000:52:00"}]}}',
        '{"result": {"cards": [{"index": 0, "bdf": "0000:52:00", "evidence": 5}]}}',
        '{"result": {"cards": [], "pairs": [5]}}',
        '{"result": {"pairs": [{"a": [0], "b": 1, "status": "ok"}]}}',
        '{"result": {"pairs": [{"a": 0, "b": 1}]}}',
        '{"result": {"pairs": [{"a": 0, "b": 1, "status": "ok", "gbps": "fast"}]}}',
        '{"result": {"outcomes": [{"cards": 3, "status": "ok"}]}}',
        '{"result": {"recommended": {"s": 3}}}',
    ],
)
def test_a_verdict_that_can_not_be_read_is_none(text: str) -> None:
    world = World()
    world.over["cards.verdict"] = reply(text)
    (step,) = world.plan("usable").steps
    assert "what was found of them can't be read" in step.change().what
    assert "can't be read" in world.plan("listed").result["notes"][0]
    assert world.apply("usable")["recommended"] == {"main": ALL}


def test_a_scan_is_no_verdict() -> None:
    world = World()
    found = world.apply("diagnosed", scan=True)
    assert [row["world"] for row in found["scan"]] == [2, 4, 8]
    assert found["scope"] == "inconclusive"
    assert not world.verdict


def test_a_restart_is_the_next_start() -> None:
    world = World()
    world.apply("usable")
    world.start()
    world.apply("excluded", cards=["3"], reason="fan")
    plan = world.plan_of("klops.services", state="restarted")
    assert plan.result["cards"] == {"main": [4, 5, 6, 7]}
    assert any("on cards 4,5,6,7 (TP=4)" in step.change().what for step in plan.steps)


def test_a_stranger_on_a_card_that_is_wanted_is_named() -> None:
    world = World()
    stranger = {"pid": 77, "name": "python3", "cards": ["xpu6"], "user": "bob", "container": "", "start": 5}
    looked = world.answer("reap").text.replace('"foreign": []', f'"foreign": [{json.dumps(stranger)}]')
    world.over["reap"] = reply(looked)
    with pytest.raises(TaskFailed, match="pid 77 python3, card 5") as raised:
        world.apply("usable")
    assert raised.value.code == "cards-foreign"
    assert not world.verbs("xccl")
    # who only asks gets an answer for the others
    with pytest.raises(KlopsError) as unknown:
        world.apply("diagnosed")
    assert unknown.value.code == "cards-unknown"
    (request,) = world.verbs("xccl")
    assert request["aim"]["cards"] == [0, 1, 2, 3, 4, 6, 7]
    by = {card["index"]: card for card in unknown.value.values["cards"]}
    assert "pid 77" in by[5]["reason"]


def test_a_second_service_begins_while_the_first_goes_on() -> None:
    second = {"model": "/models/glm", "port": 8001, "tp": 4}
    world = World(services={"main": {"tp": 4}, "second": second})
    world.runs([0, 1, 2, 3])
    found = world.apply("usable")
    assert [verb for verb, _ in world.asked] == ["xccl", "note"], "nothing is stopped"
    (request,) = world.verbs("xccl")
    assert request["aim"]["cards"] == [4, 5, 6, 7]
    assert [want["name"] for want in request["aim"]["wants"]] == ["second"]
    assert found["recommended"] == {"main": [0, 1, 2, 3], "second": [4, 5, 6, 7]}


def test_what_a_diagnosis_has_found_is_registered_when_it_fails() -> None:
    world = World(bad={5})
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    values = raised.value.values
    assert (raised.value.code, values["scope"], values["excluded"]) == ("cards-bad", "card", [5])
    assert values["recommended_cards"] == [0, 1, 2, 3]
    assert values["recommended_tp"] == 4
    assert values["verified"] is True
    assert {"pairs", "collectives_run", "rounds", "rank_processes", "seconds", "healthy"} <= set(values)
    done = world.stage
    assert any("all 8 cards together" in one.message for one in done.progress)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 0.0, -1.0])
@pytest.mark.parametrize("name", ["for_seconds", "budget"])
def test_what_is_no_length_of_time_is_a_mistake(name: str, seconds: float) -> None:
    with pytest.raises(ValidationError, match=name):
        CardsParams.model_validate({"state": "excluded", name: seconds})


def test_a_verdict_from_the_future_is_tested_anew() -> None:
    world = World()
    world.apply("usable")
    world.now -= 10 * 86400.0
    (step,) = world.plan("usable").steps
    assert "the clock was set back" in step.change().what
    assert world.apply("usable")["recommended"] == {"main": ALL}
    assert not world.plan("usable").steps


def test_the_time_of_a_verdict_that_is_none_is_not_known() -> None:
    world = World()
    world.apply("usable")
    world.verdict["at"] = float("inf")
    assert world.plan("listed").message.endswith("never tested")


SECOND = {"model": "/m2", "port": 8001, "served_name": "s2", "tp": 4}


@pytest.mark.parametrize(
    ("cards", "cant", "could", "why"),
    [
        (([0, 1, 2, 3], [4, 5, 6, 7]), "main", "second", "main: card 0, which it names, is bad"),
        ((None, None), "second", "main", "second: no group of 4 cards is free"),
    ],
    ids=["named", "of any cards"],
)
def test_of_several_services_it_is_told_which_can_t_be_had_and_how_the_others_begin(
    cards: tuple[list[int] | None, list[int] | None], cant: str, could: str, why: str
) -> None:
    services = {"main": {"tp": 4, "cards": cards[0]}, "second": {**SECOND, "cards": cards[1]}}
    with pytest.raises(TaskFailed) as raised:
        World(bad={0}, services=services).apply("usable")
    assert raised.value.code == "cards-unfit"
    assert raised.value.message.startswith(f"{cant} can't be put on the cards: card 0 is bad")
    assert why in raised.value.message
    assert f"{could} could have cards 4, 5, 6, 7" in raised.value.message
    assert raised.value.hint == (
        f"with {cant} out of klops.services, or on other cards, klops up h begins {could}"
    )


def test_where_nothing_works_together_no_service_could_have_cards() -> None:
    services = {"main": {"tp": 4}, "second": SECOND}
    links = {frozenset((a, b)) for a in ALL for b in ALL if a != b}
    with pytest.raises(TaskFailed, match="no service can be put on the cards: each card works alone"):
        World(links=links, services=services).apply("usable")
