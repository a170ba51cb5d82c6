"""The stand-in torch: right about what it stands for, and groups that form among real processes."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.sim import cards, rankfaults
from klops.sim.torch_standin import torch
from tests.sim.ranks import MIB, ROOT, SOON, Host, host

__all__ = ["host"]

CPU = torch.device("cpu")
STEPS = st.lists(st.tuples(st.sampled_from("*+"), st.integers(-3, 3)), max_size=4)


def listed(size: int, modulus: int, steps: list[tuple[str, int]], odd: dict[int, float]) -> list[float]:
    """The elements one by one, as real tensors have them."""
    found = [float(at % modulus) for at in range(size)]
    for kind, number in steps:
        found = [value * number if kind == "*" else value + number for value in found]
    return [value + odd.get(at, 0.0) for at, value in enumerate(found)]


def tensor(size: int, modulus: int, steps: list[tuple[str, int]], odd: dict[int, float]) -> torch.Tensor:
    """The same as the stand-in has it."""
    found = torch.remainder(torch.arange(size, device=CPU, dtype=torch.float32), float(modulus))
    for kind, number in steps:
        found = found * number if kind == "*" else found + number
    found.differing.update({at: more for at, more in odd.items() if at < size})
    return found


ODD = st.dictionaries(st.integers(0, 60), st.sampled_from([1.0, -2.0, 3.0, math.nan]), max_size=3)


@given(st.integers(1, 60), st.integers(1, 9), STEPS, STEPS, ODD, ODD)
def test_what_differs_is_counted_as_if_element_by_element(
    size: int,
    modulus: int,
    left: list[tuple[str, int]],
    right: list[tuple[str, int]],
    odd_left: dict[int, float],
    odd_right: dict[int, float],
) -> None:
    pairs = zip(listed(size, modulus, left, odd_left), listed(size, modulus, right, odd_right), strict=True)
    expected = sum(a != b for a, b in pairs)
    found = tensor(size, modulus, left, odd_left) != tensor(size, modulus, right, odd_right)
    assert found.sum().item() == expected


@given(st.integers(1, 60), ODD)
def test_what_is_no_number_is_counted(size: int, odd: dict[int, float]) -> None:
    found = torch.isnan(tensor(size, 5, [], odd)).sum().item()
    assert found == sum(math.isnan(value) for value in listed(size, 5, [], odd))


def test_what_it_can_not_tell_it_refuses() -> None:
    index = torch.arange(10, device=CPU)
    for wrong in (
        lambda: torch.remainder(index * 2, 3.0),
        lambda: index != torch.remainder(index, 3.0),
        lambda: index != torch.arange(11, device=CPU),
    ):
        with pytest.raises(NotImplementedError):
            wrong()
    with pytest.raises(RuntimeError, match="size of tensor"):
        index.copy_(torch.arange(11, device=CPU))


def test_a_copy_does_not_follow_what_it_was_made_from() -> None:
    one = torch.full((8,), 2.0, device=CPU)
    other = torch.empty((8,), device=CPU)
    assert (other != one).sum().item() == 8
    other.copy_(one)
    kept = one.clone()
    one.fill_(3.0)
    assert [(kept != other).sum().item(), (one != other).sum().item()] == [0, 8]


# --- which cards are seen -----------------------------------------------------------------------------------


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What is visible of nodes of these numbers, with these variables."""
    monkeypatch.setenv("KLOPS_SIM_DEVICE_DIR", str(tmp_path))
    for name in rankfaults.VISIBLE:
        monkeypatch.delenv(name, raising=False)

    def seen(*numbers: int, **variables: str) -> list[str]:
        for number in numbers:
            (tmp_path / f"xpu{number}").touch()
        (tmp_path / "xpuctrl").touch()
        for name, value in variables.items():
            monkeypatch.setenv(f"{name}_VISIBLE_DEVICES", value)
        return [Path(node).name for node in rankfaults.visible_nodes()]

    return seen


def test_numbers_count_the_nodes_that_are_there(nodes: Callable[..., list[str]]) -> None:
    assert nodes(10, 2, 6) == ["xpu2", "xpu6", "xpu10"]
    assert nodes(XPU="2,0") == ["xpu10", "xpu2"]
    assert nodes(XPU="1,7,0") == ["xpu6"]


def test_xpulink_counts_before_xpu_before_cuda_and_empty_is_set(nodes: Callable[..., list[str]]) -> None:
    assert nodes(0, 1, 2, CUDA="0") == ["xpu0"]
    assert nodes(XPU="1") == ["xpu1"]
    assert nodes(XPULINK="2") == ["xpu2"]
    assert nodes(XPULINK="") == []


def test_exactly_all_eight_in_cuda_are_counted_by_oam_id(nodes: Callable[..., list[str]]) -> None:
    assert nodes(*range(8), CUDA="0,1,2,3,4,5,6,7") == [f"xpu{n}" for n in (2, 3, 0, 1, 4, 5, 6, 7)]
    assert nodes(CUDA="7,6,5,4,3,2,1,0") == [f"xpu{n}" for n in (7, 6, 5, 4, 3, 2, 1, 0)]


# --- processes ----------------------------------------------------------------------------------------------


@ROOT
def test_a_rank_keeps_its_card_open_and_no_other(host: Host) -> None:
    with host.ranks(1, 6, took=False) as ranks:
        taken = [rank.do("take") for rank in ranks]
    assert taken == [sorted([f"xpu{cards.MINORS[index]}", "xpuctrl"]) for index in (1, 6)]


@ROOT
def test_a_card_without_a_driver_has_no_context(host: Host) -> None:
    number = host.devices / f"xpu{cards.MINORS[2]}"
    number.unlink()
    cards.make_nodes(host.devices, host.numbers, {"cards": [{"card": 2, "kind": "dead"}]})
    with host.ranks(2, took=False) as (rank,):
        rank.ask("take")
        told = rank.answer()
    assert told is not None
    assert "[ERROR][XPURT] Initialize default context for dev -1 fail" in told["error"]
    assert os.strerror(6) in told["error"]


@ROOT
def test_eight_add_up_and_form_other_groups_afterwards(host: Host) -> None:
    with host.ranks(*range(8)) as ranks:
        for told in host.grouped(ranks, size=256 * MIB, rounds=3):
            assert told["wrong"] == []
        for first, second in ((0, 1), (7, 0), (3, 4)):
            for told in host.grouped([ranks[first], ranks[second]]):
                assert told["wrong"] == []


@ROOT
def test_a_store_is_gone_when_all_have_left(host: Host) -> None:
    with host.ranks(0, 1) as ranks:
        host.grouped(ranks)
    assert list(host.folder.glob("store-*")) == []


@ROOT
def test_a_member_that_never_comes_is_waited_for_and_spoils_the_count(host: Host) -> None:
    with host.ranks(0, 1) as (here, late):
        store = str(host.folder / "alone")
        alone = {"size": MIB, "rounds": 1, "timeout": SOON, "barrier": ""}
        here.ask("group", store=store, rank=0, world=2, **alone)
        told = here.answer()
        assert told is not None
        assert "wait timeout after 500ms, keys: /default_pg/0//cpu//0/1" in told["error"]
        # as with torch: a group that could not be formed is counted, and no later one finds its partners
        for error in host.grouped([here, late], timeout=SOON):
            assert "wait timeout after 500ms" in error
        for rank in (here, late):
            rank.do("reset")
        assert [told["wrong"] for told in host.grouped([here, late])] == [[], []]


@ROOT
def test_a_barrier_before_any_tensor_is_on_the_cards_that_the_ranks_number(host: Host) -> None:
    with host.ranks(0, 1, 2) as ranks:
        host.break_("card=0:dead")
        for told in host.grouped(ranks[1:], barrier="after"):
            assert told["wrong"] == []
        # rank 0 of the group has card 1, and the barrier is on card 0
        first, second = host.grouped(ranks[1:], barrier="first", timeout=SOON)
        assert "Initialize default context for dev -1 fail" in first
        assert "Timed out waiting 500ms" in second


@ROOT
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_others_get_an_error_when_one_stops_in_the_middle(host: Host, number: signal.Signals) -> None:
    with host.ranks(0, 1, 2) as ranks:
        host.form(ranks, rounds=100_000, timeout=SOON)
        # they are at it, and none will be done by itself
        assert ranks[0].answer(SOON) is None
        ranks[1].process.send_signal(number)
        for rank in (ranks[0], ranks[2]):
            told = rank.answer()
            assert told is not None
            assert "Timed out waiting 500ms for recv operation to complete" in told["error"]
