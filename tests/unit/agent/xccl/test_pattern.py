"""The values that ranks add up are exact in float32, whatever the round."""

from __future__ import annotations

import struct
from random import Random
from typing import List  # noqa: UP035 - the same

from hypothesis import given
from hypothesis import strategies as st

from klops.agent.xccl.ranks import pattern

#: Every value that the pattern has.
BASE = [float(number) for number in range(int(pattern.MODULUS))]


def single(value: float) -> float:
    """As float32 has it."""
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


class Numbers(List[float]):  # noqa: UP006 - evaluated, and Python 3.8 has no list[float]
    """As much of a tensor of float32 as the pattern needs."""

    def __mul__(self, factor: object) -> Numbers:
        assert isinstance(factor, int)
        return Numbers(single(one * factor) for one in self)

    def __add__(self, other: object) -> Numbers:  # type: ignore[override]
        if isinstance(other, int):
            return Numbers(single(one + other) for one in self)
        assert isinstance(other, list)
        return Numbers(single(one + other[place]) for place, one in enumerate(self))


@given(st.integers(2, 16), st.integers(-2, 100), st.randoms())
def test_the_sum_of_all_shares_is_the_total_in_any_order(world: int, turn: int, chance: Random) -> None:
    shares = [pattern.share(Numbers(BASE), rank, turn) for rank in range(world)]
    chance.shuffle(shares)
    found = Numbers(BASE) * 0
    for one in shares:
        found = found + one
    assert found == pattern.total(Numbers(BASE), world, turn)


def test_each_rank_and_round_has_its_own_share() -> None:
    shares = [tuple(pattern.share(Numbers(BASE), rank, turn)) for rank in range(8) for turn in range(-2, 10)]
    assert len(set(shares)) == len(shares)
