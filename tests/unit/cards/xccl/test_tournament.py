from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.cards.xccl.planning.tournament import packed, rounds

some_cards = st.lists(st.integers(0, 40), unique=True, max_size=17)
some_pairs = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda two: two[0] < two[1]), unique=True
)


def test_eight_cards_meet_in_seven_rounds_of_four() -> None:
    found = rounds(range(8))
    assert [len(one) for one in found] == [4] * 7
    assert {two for one in found for two in one} == set(combinations(range(8), 2))


def test_the_first_three_rounds_of_eight_stay_within_the_wings() -> None:
    found = rounds(range(8))
    assert all((a < 4) == (b < 4) for one in found[:3] for a, b in one)
    assert all((a < 4) != (b < 4) for one in found[3:] for a, b in one)


@given(some_cards)
def test_each_pair_once_in_the_fewest_rounds(cards: list[int]) -> None:
    found = rounds(cards)
    pairs = [two for one in found for two in one]
    assert sorted(pairs) == sorted((min(two), max(two)) for two in combinations(cards, 2))
    assert all(len({card for two in one for card in two}) == 2 * len(one) for one in found)
    count = len(cards)
    assert len(found) == (0 if count < 2 else count - 1 + count % 2)


@given(some_cards)
def test_one_pair_a_round_where_links_are_shared(cards: list[int]) -> None:
    together = [two for one in rounds(cards) for two in one]
    assert rounds(cards, serial=True) == [(two,) for two in together]


@given(some_pairs, st.booleans())
def test_any_pairs_are_packed(pairs: list[tuple[int, int]], serial: bool) -> None:
    found = packed(pairs, serial)
    assert sorted(two for one in found for two in one) == sorted(pairs)
    assert all(len({card for two in one for card in two}) == 2 * len(one) for one in found)
    assert not serial or len(found) == len(pairs)


@pytest.mark.parametrize("number", range(1, 8))
def test_pairs_that_are_disjoint_are_packed_in_one(number: int) -> None:
    pairs = [(2 * place, 2 * place + 1) for place in range(number)]
    assert packed(pairs) == [tuple(pairs)]
