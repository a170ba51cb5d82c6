from __future__ import annotations

import random
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.cards.xccl.judging.blame import STEPS, Blame, Seen, Steps, find

COUNT = 6
ALL = [frozenset(pair) for pair in combinations(range(COUNT), 2)]


def pairs(text: str) -> frozenset[frozenset[int]]:
    return frozenset(frozenset(map(int, pair)) for pair in text.split())


def by_trying_all(failed: frozenset[frozenset[int]], well: frozenset[frozenset[int]]) -> list[frozenset[int]]:
    """All smallest explanations, found by looking at every set of cards."""

    def sound(cards: frozenset[int]) -> bool:
        for card in cards:
            bad = sum(card in pair and not (pair - {card}) & cards for pair in failed)
            if bad < 2 or bad <= sum(card in pair and not (pair - {card}) & cards for pair in well):
                return False
        return True

    sets = chain.from_iterable(combinations(range(COUNT), size) for size in range(COUNT + 1))
    costs = {
        cards: len(cards) + sum(not pair & cards for pair in failed)
        for cards in map(frozenset, sets)
        if sound(cards)
    }
    return [cards for cards, cost in costs.items() if cost == min(costs.values())]


@given(st.lists(st.sampled_from(["failed", "well", "untested"]), min_size=len(ALL), max_size=len(ALL)))
def test_the_search_is_exact(endings: list[str]) -> None:
    ended = dict(zip(ALL, endings))  # noqa: B905 - Python 3.8 has no strict
    failed = frozenset(pair for pair, ending in ended.items() if ending == "failed")
    well = frozenset(pair for pair, ending in ended.items() if ending == "well")
    smallest = by_trying_all(failed, well)
    found = find(Seen(failed, well))
    common = frozenset.intersection(*smallest)
    assert found.guilty == common
    assert not found.guilty & found.doubtful
    some = frozenset(chain.from_iterable(smallest))
    # all that some explanation names is guilty or in doubt, but for halves that don't work with each other
    assert some <= found.guilty | found.doubtful or (len(smallest) == 2 and not common)


@pytest.mark.parametrize(
    ("failed", "well", "guilty", "doubtful"),
    [
        ("", "01 12", [], []),
        ("01", "02 12", [], []),
        ("01 02 03", "12 13 23", [0], []),
        ("01 02 03 12 13", "23", [0, 1], []),
        # two halves, each of which works within itself
        ("02 03 12 13", "01 23", [], []),
        ("01 12 02", "", [], [0, 1, 2]),
    ],
)
def test_small_ones(failed: str, well: str, guilty: list[int], doubtful: list[int]) -> None:
    assert find(Seen(pairs(failed), pairs(well))) == Blame(frozenset(guilty), frozenset(doubtful))


def test_the_one_card_with_wrong_sums_everywhere() -> None:
    wrong = frozenset({frozenset({0, 1, 2, 3}), frozenset({2, 3})})
    well = frozenset({frozenset({3, 4})})
    assert find(Seen(wrong, well, wrong)).guilty == {2}
    assert not find(Seen(wrong, frozenset(), wrong)).guilty
    one = frozenset({frozenset({2, 3})})
    assert not find(Seen(one, well, one)).guilty


def test_of_more_cards_than_can_be_searched_all_are_in_doubt() -> None:
    failed = frozenset(frozenset(pair) for pair in combinations(range(17), 2))
    assert find(Seen(failed)) == Blame(frozenset(), frozenset(range(17)))


def test_one_more_failure_shifts_the_blame_but_clears_nobody_at_a_stroke() -> None:
    failed, well = pairs("04 13 14"), pairs("01 12")
    assert find(Seen(failed, well)).guilty == {4}
    after = find(Seen(failed | pairs("01"), pairs("12")))
    assert after.guilty == {1}
    assert 4 in after.doubtful


SIXTEEN = [frozenset(pair) for pair in combinations(range(16), 2)]


@pytest.mark.parametrize("bad", range(9))
@pytest.mark.parametrize("links", [0, 1, 3])
def test_sixteen_cards_of_which_half_are_bad_are_searched_to_the_end(bad: int, links: int) -> None:
    cards = frozenset(range(bad))
    among_good = [pair for pair in SIXTEEN if not pair & cards]
    failed = frozenset(pair for pair in SIXTEEN if pair & cards) | frozenset(among_good[::9][:links])
    steps = Steps()
    found = find(Seen(failed, frozenset(SIXTEEN) - failed), steps)
    assert found.guilty == cards
    assert steps.taken < STEPS / 2


def test_where_failures_have_no_pattern_the_search_ends_and_blames_nobody_by_guess() -> None:
    chance = random.Random(4)
    failed = frozenset(pair for pair in SIXTEEN if chance.random() < 0.5)
    steps = Steps()
    found = find(Seen(failed, frozenset(SIXTEEN) - failed), steps)
    assert steps.taken == STEPS
    assert found.guilty == frozenset()
    assert found.doubtful == frozenset(range(16))
