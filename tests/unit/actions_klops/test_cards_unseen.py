"""``klops.cards`` where not all can be seen: unknown is no pass, and no card is tested on a guess."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.actions.catalog import catalog
from klops.errors import TaskFailed
from klops.remote.base import Reply
from klops.remote.bounded import LATE
from klops.remote.fake import reply

from .cardsworld import World

ALL = list(range(8))
SILENT = reply(rc=LATE, stderr="no answer within 8 s\n")
LISTS = ("processes", "unowned", "foreign", "unsupervised", "unseen", "observers", "units")
#: the host can't be looked at at all; or only the container can
BLIND = [
    reply(rc=1, stderr="docker: no space left on device\n"),
    reply(json.dumps({name: [] for name in LISTS}) + "\n", stderr="docker: no space left on device\n"),
]


def without(world: World, serial: str) -> Reply:
    """``xpu-smi -q`` that says nothing of one card."""
    first, *blocks = world.answer("smi.q").text.split("XPU 0000")
    kept = [block for block in blocks if serial not in block]
    assert len(kept) == len(blocks) - 1 == 7
    return reply("XPU 0000".join([first, *kept]))


# -- whose node it is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [("smi.q",), ("smi.m", "smi.q")])
@pytest.mark.parametrize(
    ("state", "params"),
    [("diagnosed", {}), ("diagnosed", {"cards": ["5"]}), ("learned", {}), ("restored", {"cards": ["5"]})],
)
def test_no_card_is_tested_on_a_guess_which_it_is(
    silent: tuple[str, ...], state: str, params: dict[str, Any]
) -> None:
    world = World(bad={5}, cards={"confirm": 1})
    world.over |= dict.fromkeys(silent, SILENT)
    with pytest.raises(TaskFailed, match="not known, so they are not tested: xpu-smi") as raised:
        world.apply(state, **params)
    assert raised.value.code == "cards-unknown"
    assert not world.asked


@pytest.mark.parametrize("silent", [("smi.q",), ("smi.m", "smi.q")])
def test_a_start_goes_on_without_a_test_on_a_guess(silent: tuple[str, ...]) -> None:
    world = World(bad={5}, cards={"confirm": 1})
    world.over |= dict.fromkeys(silent, SILENT)
    plan = world.plan("usable")
    assert (plan.failure, plan.steps) == (None, ())
    assert any("so they are not tested" in said for said in plan.warnings)


@pytest.mark.parametrize("silent", [("smi.q",), ("smi.m", "smi.q")])
def test_it_is_looked_once_more_right_before_a_test(silent: tuple[str, ...]) -> None:
    world = World(bad={5}, cards={"confirm": 1})
    plan = world.plan("diagnosed")
    world.over |= dict.fromkeys(silent, SILENT)
    with pytest.raises(TaskFailed, match="no card could be tested: card 0, 1, 2, 3, 4, 5, 6, 7: ") as raised:
        catalog()["klops.cards"].apply(plan, world.stage.ctx)
    assert raised.value.code == "cards-unknown"
    assert {card["verdict"] for card in raised.value.values["cards"]} == {"unknown"}
    assert not world.asked


def test_only_the_card_of_which_the_report_says_nothing_is_left_out() -> None:
    world = World(bad={5}, cards={"confirm": 1})
    world.over["smi.q"] = without(world, "SN05")
    found = world.apply("usable")
    (request,) = world.verbs("xccl")
    # card 6 has the node that was taken for that of card 5
    assert [card["node"] for card in request["cards"]] == [
        *("/dev/xpu0", "/dev/xpu2", "/dev/xpu1", "/dev/xpu3", "/dev/xpu4", "/dev/xpu5", "/dev/xpu7")
    ]
    by = {card["index"]: card for card in found["diagnosis"]["cards"]}
    assert by[5]["verdict"] == "unknown"
    assert by[5]["reason"].startswith("which node it has is not known")
    assert not world.notes
    assert found["diagnosis"]["recommended"] == {"main": [0, 1, 2, 3]}


def test_a_number_that_was_guessed_is_not_written_down() -> None:
    world = World()
    world.over["smi.q"] = without(world, "SN05")
    world.apply("learned", force=True)
    world.apply("diagnosed", cards=["4", "6"])
    for document in (world.baseline, world.verdict):
        told = {card["serial"]: (card["minor"], card["node"]) for card in document["cards"]}
        assert told["SN04"] == (4, "/dev/xpu4")
        assert told["SN06"] == (5, "/dev/xpu5")
        assert told.get("SN05", (None, None)) == (None, None)
    assert "SN05" in {card["serial"] for card in world.baseline["cards"]}
    with pytest.raises(TaskFailed, match="which node it has is not known"):
        world.apply("diagnosed", cards=["5"])


@pytest.mark.parametrize("state", ["learned", "diagnosed"])
def test_the_number_that_was_noted_in_this_boot_counts(state: str) -> None:
    world = World(cards={"confirm": 1})
    world.apply(state)
    world.bad, world.asked = {5}, []
    world.over["smi.q"] = SILENT
    with pytest.raises(TaskFailed, match="card 5 is bad"):
        world.apply("diagnosed")
    (request,) = world.verbs("xccl")
    assert [(card["index"], card["node"]) for card in request["cards"]][5:7] == [
        (5, "/dev/xpu6"),
        (6, "/dev/xpu5"),
    ]
    (note,) = world.notes
    assert (note["card"]["serial"], note["card"]["node"]) == ("SN05", "/dev/xpu6")


def test_after_a_boot_a_card_may_have_another_number() -> None:
    world = World()
    world.apply("learned")
    world.boot, world.asked = "b1", []
    world.over["smi.q"] = SILENT
    with pytest.raises(TaskFailed, match="nothing was noted of it since the host was booted"):
        world.apply("diagnosed")
    assert not world.asked


def test_a_node_that_is_one_card_s_for_certain_is_not_taken_for_another_s() -> None:
    world = World()
    world.over["smi.q"] = without(world, "SN06")
    stranger = {"pid": 77, "start": 1, "name": "stranger", "cards": ["xpu6"]}
    lists = {**{name: [] for name in LISTS}, "foreign": [stranger]}
    world.over["reap"] = reply("helper c0 made\n" + json.dumps(lists) + "\n")
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    by = {card["index"]: card for card in raised.value.values["cards"]}
    assert by[5]["reason"] == "held by stranger (pid 77)"
    assert not any(card["index"] in (5, 6) for card in world.verbs("xccl")[0]["cards"])


# -- evidence without load -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("smi.m", "xpu-smi -m could not be read: no answer within 8 s"),
        ("smi.q", "xpu-smi -q could not be read: no answer within 8 s"),
        ("nodes", "the nodes of the cards could not be read: no answer within 8 s"),
        ("agent.holders", "who in the container holds a card could not be asked"),
    ],
)
def test_what_could_not_be_looked_at_is_no_pass(key: str, what: str) -> None:
    world = World()
    world.over[key] = SILENT
    plan = world.plan("checked")
    assert plan.failure is not None
    assert plan.failure.code == "cards-unknown"
    assert {card["verdict"] for card in plan.result["cards"]} == {"unknown"}
    assert all(f"not looked at: {what}" in card["evidence"] for card in plan.result["cards"])
    assert what in plan.warnings
    # nobody is blamed for it
    assert not any("driver is not loaded" in said for said in plan.warnings)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("kernel.log", "the kernel log could not be read: dmesg: Operation not permitted"),
        ("lspci.1d22", "lspci could not be read: dmesg: Operation not permitted"),
        ("smi.topo", "xpu-smi topo -m could not be read: dmesg: Operation not permitted"),
    ],
)
def test_what_only_root_may_read_is_said_and_costs_no_pass(key: str, what: str) -> None:
    world = World()
    world.over[key] = reply(rc=1, stderr="dmesg: Operation not permitted\n")
    plan = world.plan("checked")
    assert plan.failure is None
    assert plan.message == "nothing that could be read speaks against the cards"
    assert what in plan.warnings
    for card in plan.result["cards"]:
        assert card["verdict"] == "pass"
        assert f"not looked at: {what}" in card["evidence"]


# -- who else holds a card -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", BLIND)
@pytest.mark.parametrize("state", ["diagnosed", "learned"])
def test_no_card_is_tested_where_nobody_sees_who_holds_it(seen: Reply, state: str) -> None:
    world = World()
    world.over["reap"] = seen
    with pytest.raises(
        TaskFailed, match=r"whether somebody holds it could not be seen: .*no space"
    ) as raised:
        world.apply(state)
    assert raised.value.code == "cards-unknown"
    assert {card["verdict"] for card in raised.value.values["cards"]} == {"unknown"}
    assert not world.asked


@pytest.mark.parametrize("seen", BLIND)
def test_a_start_then_keeps_what_is_proven(seen: Reply) -> None:
    world = World(bad={0}, cards={"max_age": 3600})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    world.runs((), "stopped")
    world.now += 7200
    world.over["reap"], world.asked, world.stage.warnings = seen, [], []
    world.apply("usable")
    assert [verb for verb, _ in world.asked if verb != "stop"] == []
    assert any("whether somebody holds it could not be seen" in said for said in world.stage.warnings)
    assert world.start() == [4, 5, 6, 7]


@pytest.mark.parametrize("seen", BLIND)
def test_who_insists_has_them_tested(seen: Reply) -> None:
    world = World()
    world.over["reap"] = seen
    assert world.apply("diagnosed", force=True)["scope"] == "none"
    assert any("whether somebody else holds a card could not be looked at" in s for s in world.stage.warnings)
