"""``klops.cards``: what a ready service keeps, what ends a verdict, and what is told beside a test."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence

import pytest

from klops.actions.own.cards.look import evidence
from klops.actions.own.cards.record import document as record
from klops.errors import TaskFailed
from klops.remote.base import Reply
from klops.remote.bounded import BoundedRead
from klops.remote.fake import reply
from klops.remote.reads import Read

from .cardsworld import World

ALL = list(range(8))
XID = "KLRM: Xid (PCI:0000:aa:00): 0, pid=7, name=python, KL_XID_KERNEL_EXCEPTION, ch=0"
DRIVER = "KUNLUN driver module a b c d e f {} built\n"


def hide(world: World, cards: Collection[int]) -> None:
    """These are dead: xpu-smi shows them no longer."""
    rows = world.answer("smi.m").text.splitlines(keepends=True)
    world.over["smi.m"] = reply("".join(row for row in rows if not any(f"SN0{i}" in row for i in cards)))
    first, *blocks = world.answer("smi.q").text.split("XPU 0000")
    kept = [block for block in blocks if not any(f"SN0{i}" in block for i in cards)]
    world.over["smi.q"] = reply("XPU 0000".join([first, *kept]))


def repair(world: World) -> None:
    for key in ("smi.m", "smi.q"):
        world.over.pop(key, None)


def on_four(world: World) -> World:
    """A host that was made with four dead cards, its service up on the others; then they are repaired."""
    hide(world, [0, 1, 2, 3])
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    repair(world)
    return world


def changes(world: World, state: str = "usable") -> list[str]:
    return [step.change().what for step in world.plan(state).steps]


def test_a_ready_service_is_not_moved_onto_cards_of_which_nothing_is_known() -> None:
    world = on_four(World())
    plan = world.plan("usable")
    assert not plan.steps
    (told,) = plan.warnings
    assert told.startswith("main stays with TP=4, as it is not known whether card 0,1,2,3 works")
    assert told.endswith("klops cards restore h 0,1,2,3 tests that")
    assert world.plan_of("klops.services").result["cards"] == {"main": [4, 5, 6, 7]}


def test_cards_that_came_back_are_tested_by_restore_and_then_the_service_moves_and_says_why() -> None:
    world = on_four(World())
    found = world.apply("restored", cards=["0", "1", "2", "3"])
    assert found["restored"] == [0, 1, 2, 3]
    stop, test = changes(world)
    assert "card 0, 1, 2, 3 may serve: TP=8 instead of TP=4" in stop
    assert test.startswith("test card 0, 1, 2, 3, 4, 5, 6, 7")
    assert world.apply("usable")["recommended"] == {"main": ALL}
    assert world.start() == ALL


def test_cards_that_came_back_and_still_fail_leave_the_service_alone() -> None:
    world = on_four(World(bad={2}))
    with pytest.raises(TaskFailed):
        world.apply("restored", cards=["0", "1", "2", "3"])
    assert not world.plan("usable").steps


def test_a_card_that_was_put_back_by_hand_is_reason_enough_to_move() -> None:
    world = World(bad={0})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    assert not world.plan("usable").steps
    world.apply("restored", cards=["0"], force=True)
    assert "card 0, 1, 2, 3 may serve" in changes(world)[0]


@pytest.mark.parametrize("confirm", [1, 2], ids=["noted", "not noted"])
def test_a_test_in_which_nothing_works_clears_no_card_that_failed(confirm: int) -> None:
    world = World(bad={0, 1, 2, 3}, cards={"confirm": confirm})
    world.apply("usable")
    assert world.start() == [4, 5, 6, 7]
    world.bad.clear()
    world.links = {frozenset(pair) for pair in itertools.combinations(range(4), 2)}
    with pytest.raises(TaskFailed) as raised:
        world.apply("restored", cards=["0", "1", "2", "3"])
    assert raised.value.values["scope"] == "inconclusive"
    assert [card["verdict"] for card in world.plan("listed").result["cards"][:4]] == ["fail"] * 4
    assert len(world.notes) == (4 if confirm == 1 else 0)
    assert not world.plan("usable").steps, "the service goes on"


def test_a_card_that_is_gone_and_was_never_known_can_not_be_noted() -> None:
    world = World()
    hide(world, [7])
    with pytest.raises(TaskFailed, match="so no note can be of it") as raised:
        world.apply("excluded", cards=["7"], reason="gone")
    assert raised.value.code == "card-missing"
    assert "klops.cards.use" in raised.value.hint
    assert not world.verbs("note")


def test_a_card_that_is_gone_and_was_known_is_noted_and_out_when_it_is_back() -> None:
    world = World()
    world.apply("learned")
    hide(world, [7])
    world.apply("excluded", cards=["7"], reason="gone")
    repair(world)
    assert [card["index"] for card in world.plan("listed").result["cards"] if not card["usable"]] == [7]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("state", ["restored", "diagnosed"])
def test_a_card_that_klops_is_not_to_use_is_not_tested(state: str, check: bool) -> None:
    notes = World()
    notes.apply("excluded", cards=["5"], reason="x")
    world = World(cards={"use": [0, 1, 2, 3], "groups": [[0, 1, 2, 3]]}, notes=notes.notes)
    failure = world.plan(state, check=check, cards=["3", "5"]).failure
    assert isinstance(failure, TaskFailed)
    assert failure.message == "card 5 is none of those that klops.cards.use names"
    assert failure.code == "card-unknown"


def test_a_note_on_a_card_that_klops_is_not_to_use_is_lifted_by_force() -> None:
    world = World(cards={"use": [0, 1, 2, 3], "groups": [[0, 1, 2, 3]]})
    world.apply("excluded", cards=["5"], reason="x")
    world.apply("restored", cards=["5"], force=True)
    assert not world.notes


def test_a_card_on_which_a_unit_runs_is_not_put_back_by_a_test_of_others() -> None:
    world = World(services={"main": {"tp": 4}})
    world.runs([0, 1, 2, 3])
    world.apply("excluded", cards=["3", "5"], reason="x")
    failure = world.plan("restored", cards=["3", "5"]).failure
    assert isinstance(failure, TaskFailed)
    assert (failure.code, failure.message) == ("cards-busy", "not to be tested: card 3: in use by main")
    assert failure.hint.startswith("klops down h ends main, then klops cards restore h 3 5; or, where")
    world.apply("restored", cards=["3"], force=True)
    assert world.apply("restored", cards=["5"])["restored"] == [5]
    assert not world.notes


def test_cards_beside_a_ready_service_are_judged_by_themselves_and_it_is_not_to_be_ended() -> None:
    world = World(bad={4, 5, 6, 7}, services={"main": {"tp": 4}})
    world.runs([0, 1, 2, 3])
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    assert world.verbs("xccl")[-1]["aim"]["serving"] == [0, 1, 2, 3]
    assert (raised.value.code, raised.value.values["excluded"]) == ("cards-bad", [4, 5, 6, 7])
    assert "--recreate" not in raised.value.hint
    assert "klops cards exclude h 4 5 6 7" in raised.value.hint


def test_a_container_in_which_a_unit_runs_is_not_to_be_made_anew() -> None:
    world = World(bad={4, 5, 6, 7}, services={"main": {"tp": 4}})
    world.runs([0, 1, 2, 3], "starting")
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    assert world.verbs("xccl")[-1]["aim"]["serving"] == []
    assert raised.value.code == "cards-host"
    assert raised.value.hint == "klops down h ends main, then klops doctor xccl h"


@pytest.mark.parametrize(
    ("scope", "verdict", "failed", "clear"),
    [
        ("none", "pass", True, True),
        ("card", "degraded", True, True),
        ("stack", "pass", True, False),
        ("inconclusive", "pass", True, False),
        ("inconclusive", "pass", False, True),
        ("none", "unknown", False, False),
    ],
)
def test_what_clears_a_card(scope: str, verdict: str, failed: bool, clear: bool) -> None:
    card = {"tested": True, "verdict": verdict}
    assert record.clears({"scope": scope}, card, failed=failed) is clear
    assert not record.clears({"scope": scope}, {**card, "tested": False}, failed=failed)


def without_node(world: World, minor: int) -> None:
    """The container was made without a node."""
    (found,) = world.answer("container").json()
    devices = found["HostConfig"]["Devices"]
    kept = [one for one in devices if not one["PathOnHost"].endswith(f"xpu{minor}")]
    assert len(kept) == len(devices) - 1
    found["HostConfig"]["Devices"] = kept
    world.over["container"] = reply(json.dumps([found]))


def test_restore_of_a_card_that_the_container_lacks_says_the_way() -> None:
    world = World()
    without_node(world, 0)
    with pytest.raises(TaskFailed, match="card 0: the container was made without it") as raised:
        world.apply("restored", cards=["0"])
    assert raised.value.code == "card-missing"
    assert raised.value.hint == "klops up h --recreate makes a container that has it"
    assert not world.verbs("xccl")


def test_the_kernel_log_alone_lowers_no_card_that_passes() -> None:
    world = World()
    world.over["kernel.log"] = reply(f"clock\n[Wed Sep 23 10:49:41 2026] {XID}\n")
    found = world.apply("diagnosed")
    card = found["cards"][6]
    assert (card["verdict"], card["reason"]) == ("pass", "works")
    assert any("KL_XID_KERNEL_EXCEPTION" in line for line in card["evidence"])
    # without a test it is all that is known
    assert world.plan("checked").result["cards"][6]["verdict"] == "degraded"


def test_what_is_wrong_with_the_host_is_part_of_a_diagnosis() -> None:
    world = World()
    buses = ("52", "55", "63", "66", "9a", "9b", "aa", "ab", "c0")
    world.over["lspci.1d22"] = reply("".join(f"{bus}:00.0 1200: 1d22:3686\n" for bus in buses))
    world.over["lspci.2057"] = reply("")
    with pytest.raises(TaskFailed, match="at 0000:c0:00") as raised:
        world.apply("diagnosed")
    assert raised.value.code == "cards-host"
    found = raised.value.values
    assert {card["verdict"] for card in found["cards"]} == {"pass"}
    lost = [one for one in found["findings"] if one["severity"] == "fail"]
    assert ["0000:c0:00" in one["message"] for one in lost] == [True]


def test_what_is_only_worth_knowing_is_no_warning() -> None:
    world = World()
    world.over["driver.version"] = reply(DRIVER.format("5.0.21.26"))
    by = {one["message"]: one for one in world.plan("checked").result["findings"]}
    assert by["driver 5.0.21.26"]["severity"] == "note"
    assert by["driver 5.0.21.26"]["warning"] is False


def test_the_sentence_names_the_cards_that_could_not_be_tested() -> None:
    world = World()
    hide(world, [6])
    with pytest.raises(TaskFailed) as raised:
        world.apply("diagnosed")
    assert raised.value.values["summary"].endswith("; card 6: not there")


def test_freshness_goes_by_the_driver_of_the_host_and_never_by_that_of_a_shim() -> None:
    world = World()
    world.over["driver.version"] = reply(DRIVER.format("5.0.21.26"))
    world.apply("usable")
    assert world.verdict["driver"] == "5.0.21.26"
    assert not world.plan("usable").steps
    # it can't be read: what xpu-smi says in its place is from elsewhere
    world.over["driver.version"] = Reply(44)
    assert not world.plan("usable").steps
    world.over["driver.version"] = reply(DRIVER.format("5.0.21.47"))
    assert "the driver is 5.0.21.47 now, it was 5.0.21.26" in changes(world)[0]
    world.start()
    assert not world.plan("usable").steps, "nothing that is old ends a service"


def test_reads_that_hang_cost_their_own_deadline_and_not_that_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, given = World(), []
    inner = world.remote.read

    def read(reads: Sequence[Read], *, timeout: float | None = None) -> dict[str, Reply]:
        given.append((sum(read.longest for read in reads if isinstance(read, BoundedRead)), timeout))
        return inner(reads)

    monkeypatch.setattr(world.remote, "read", read)
    world.apply("diagnosed")
    hanging, timeout = max(given, key=lambda one: one[0])
    assert hanging >= 8 * evidence.DEADLINE
    assert timeout is not None
    assert timeout > hanging


def test_a_note_that_ends_lets_the_service_have_its_cards_again() -> None:
    world = World()
    world.apply("usable")
    world.apply("excluded", cards=["3"], reason="fan", for_seconds=60)
    assert world.start() == [4, 5, 6, 7]
    assert world.plan_of("klops.services").result["cards"] == {"main": [4, 5, 6, 7]}
    world.now += 61
    assert world.plan_of("klops.services").result["cards"] == {"main": ALL}


@pytest.mark.parametrize(("tp", "code"), [(None, "card-missing"), (8, "card-missing"), (4, ""), ("auto", "")])
def test_a_card_that_is_gone_is_no_reason_against_a_size_for_which_the_others_do(
    tp: int | str | None, code: str
) -> None:
    world = World(services={"main": {"tp": 8}})
    hide(world, [3])
    plan = world.plan_of("klops.preflight", tp=tp)
    assert (plan.failure.code if plan.failure is not None else "") == code
    assert any("the settings use card 3" in told for told in plan.warnings) == (not code)
