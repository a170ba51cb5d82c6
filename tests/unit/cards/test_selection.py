from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.cards.selection import NoChoiceError, Wanted, choose, legal_set, power_of_two

GROUPS = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7))
ALL = range(8)


@pytest.mark.parametrize(("number", "power"), [(0, 0), (1, 1), (2, 2), (3, 2), (7, 4), (8, 8), (15, 8)])
def test_power_of_two(number: int, power: int) -> None:
    assert power_of_two(number) == power


@pytest.mark.parametrize(
    ("usable", "cards"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], (0, 1, 2, 3, 4, 5, 6, 7)),
        # bad {2}, {5}, {0,1,2,3}: the other wing
        ([0, 1, 3, 4, 5, 6, 7], (4, 5, 6, 7)),
        ([0, 1, 2, 3, 4, 6, 7], (0, 1, 2, 3)),
        ([4, 5, 6, 7], (4, 5, 6, 7)),
        # bad {1,6}: six cards, but no whole wing: two that are neighbours, never an ad-hoc four
        ([0, 2, 3, 4, 5, 7], (0, 2)),
        ([0, 4], (0,)),
        ([6], (6,)),
    ],
)
def test_one_automatic_service(usable: list[int], cards: tuple[int, ...]) -> None:
    assert choose([Wanted("a")], usable, GROUPS) == {"a": cards}


def test_no_group_of_the_least_size() -> None:
    with pytest.raises(NoChoiceError, match="at least 4 card"):
        choose([Wanted("a")], [0, 2, 3, 4, 5, 7], GROUPS, min_tp=4)


def test_automatic_services_share() -> None:
    names = [Wanted("a"), Wanted("b")]
    assert choose(names, ALL, GROUPS) == {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7)}
    four = choose([*names, Wanted("c"), Wanted("d")], ALL, GROUPS)
    assert four == {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)}
    three = choose([*names, Wanted("c")], ALL, GROUPS)
    assert three == {"a": (0, 1), "b": (2, 3), "c": (4, 5)}


def test_more_services_than_cards() -> None:
    with pytest.raises(NoChoiceError):
        choose([Wanted(name) for name in "abc"], [0, 1], GROUPS)


def test_named_and_sized_ones_come_first_and_the_order_of_the_settings_stays() -> None:
    chosen = choose([Wanted("auto"), Wanted("two", tp=2), Wanted("named", cards=(5, 4))], ALL, GROUPS)
    assert chosen == {"auto": (2, 3), "two": (0, 1), "named": (5, 4)} or chosen["named"] == (5, 4)
    assert list(chosen) == ["auto", "two", "named"]
    assert len({card for cards in chosen.values() for card in cards}) == sum(map(len, chosen.values()))


def test_a_given_size_takes_the_first_legal_group() -> None:
    assert choose([Wanted("a", tp=4)], ALL, GROUPS) == {"a": (0, 1, 2, 3)}
    assert choose([Wanted("a", tp=4), Wanted("b", tp=4)], ALL, GROUPS)["b"] == (4, 5, 6, 7)
    with pytest.raises(NoChoiceError, match="no group of 8"):
        choose([Wanted("a", tp=8)], range(7), GROUPS)
    with pytest.raises(NoChoiceError, match="no group of 16"):
        choose([Wanted("a", tp=16)], ALL, GROUPS)


@pytest.mark.parametrize(
    ("want", "why"),
    [
        (Wanted("a", cards=(0, 9)), "card 9 is not in use here"),
        (Wanted("a", cards=(0, 0)), "once each"),
        (Wanted("a", cards=()), "at least one"),
        (Wanted("a", tp=4, cards=(0, 1)), "tp 4 needs 4 cards"),
        (Wanted("a", cards=(0, 1, 2)), "3 cards make no tensor parallel group"),
    ],
)
def test_named_cards_that_make_no_sense(want: Wanted, why: str) -> None:
    with pytest.raises(NoChoiceError, match=why):
        choose([want], ALL, GROUPS)


def test_two_services_name_one_card() -> None:
    with pytest.raises(NoChoiceError, match="b and a both ask for card 1"):
        choose([Wanted("a", cards=(0, 1)), Wanted("b", cards=(1, 2))], ALL, GROUPS)


def test_odd_sizes_only_when_insisted_on() -> None:
    assert choose([Wanted("a", tp=3, cards=(0, 1, 2))], ALL, GROUPS) == {"a": (0, 1, 2)}


@given(
    usable=st.sets(st.integers(0, 7)).map(sorted),
    tps=st.lists(st.sampled_from([None, 1, 2, 4, 8]), min_size=1, max_size=4),
)
def test_what_is_handed_out_is_disjoint_usable_and_within_a_group(
    usable: list[int], tps: list[int | None]
) -> None:
    wants = [Wanted(f"s{number}", tp=tp) for number, tp in enumerate(tps)]
    try:
        chosen = choose(wants, usable, GROUPS)
    except NoChoiceError:
        return
    handed = [card for cards in chosen.values() for card in cards]
    assert len(handed) == len(set(handed))
    assert set(handed) <= set(usable)
    for want in wants:
        cards = chosen[want.name]
        assert len(cards) == want.tp or (want.tp is None and power_of_two(len(cards)) == len(cards))
        if len(cards) < 8:
            assert any(set(cards) <= set(group) for group in GROUPS[:2])


def test_legal_set_of_nothing() -> None:
    assert legal_set(1, [], GROUPS) is None
    assert legal_set(2, [0], GROUPS) is None
