from __future__ import annotations

import json
from dataclasses import asdict
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.cards.choice.groups import power_of_two
from klops.cards.choice.selection import NoChoiceError, Wanted, choices, choose, legal_set, shortfall

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
        # cards.use leaves out 1 and 6: two that are neighbours, never an ad-hoc four
        ([0, 2, 3, 4, 5, 7], (0, 2)),
        ([0, 4], (0,)),
        ([6], (6,)),
    ],
)
def test_one_automatic_service(usable: list[int], cards: tuple[int, ...]) -> None:
    assert choose([Wanted("a")], usable, GROUPS) == {"a": cards}


def test_no_group_of_the_least_size() -> None:
    with pytest.raises(NoChoiceError, match="no group of 4 cards or more"):
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


TWOS = ((0, 1), (2, 3), (4, 5), (6, 7), *GROUPS)
HEADS_28, HEADS_64 = (28, 4), (64, 8)


@pytest.mark.parametrize(
    ("bad", "groups", "heads", "cards"),
    [
        ({2}, GROUPS, HEADS_64, (4, 5, 6, 7)),
        ({5}, GROUPS, HEADS_64, (0, 1, 2, 3)),
        ({0, 1, 2, 3}, GROUPS, HEADS_64, (4, 5, 6, 7)),
        (set(), GROUPS, HEADS_64, (0, 1, 2, 3, 4, 5, 6, 7)),
        ({2}, GROUPS, HEADS_28, (4, 5, 6, 7)),
        ({5}, GROUPS, HEADS_28, (0, 1, 2, 3)),
        ({0, 1, 2, 3}, GROUPS, HEADS_28, (4, 5, 6, 7)),
        # 8 does not divide 28: four cards, by the rule of the largest size that fits
        (set(), GROUPS, HEADS_28, (0, 1, 2, 3)),
        (set(), GROUPS, None, (0, 1, 2, 3, 4, 5, 6, 7)),
        ({1, 6}, TWOS, HEADS_64, (2, 3)),
        ({1, 2, 5}, TWOS, HEADS_28, (6, 7)),
    ],
)
def test_row_F37_bad_cards_and_the_whole_groups_that_are_left(
    bad: set[int], groups: tuple[tuple[int, ...], ...], heads: tuple[int, int] | None, cards: tuple[int, ...]
) -> None:
    usable = [card for card in ALL if card not in bad]
    assert choose([Wanted("a", heads=heads)], usable, groups, bad=bad) == {"a": cards}
    # bad cards that were left among the usable ones change nothing
    assert choose([Wanted("a", heads=heads)], ALL, groups, bad=bad) == {"a": cards}


@pytest.mark.parametrize("heads", [HEADS_28, HEADS_64])
@pytest.mark.parametrize("bad", [{1, 6}, {1, 2, 5}])
def test_row_F37_no_whole_group_is_left(bad: set[int], heads: tuple[int, int]) -> None:
    with pytest.raises(NoChoiceError) as raised:
        choose([Wanted("a", heads=heads)], ALL, GROUPS, bad=bad)
    message = str(raised.value)
    eight = {HEADS_28: "8 does not divide the 28 attention heads (a)", HEADS_64: "has bad card 1, "}[heads]
    assert "tp 8: " in message
    assert eight in message
    assert "tp 4: group 0, 1, 2, 3 has bad card 1" in message
    assert message.endswith(
        "; tp 2: cards.groups has no group of this size; tp 1: cards.groups has no group of this size"
    )
    assert not list(choices([Wanted("a", heads=heads)], ALL, GROUPS, bad=bad))


def test_row_F37_never_an_ad_hoc_set() -> None:
    for count in range(9):
        for bad in combinations(ALL, count):
            for choice in choices([Wanted("a")], ALL, GROUPS, bad=bad):
                assert choice["a"] in GROUPS


def test_row_F37_a_size_or_cards_that_do_not_fit_the_heads() -> None:
    with pytest.raises(NoChoiceError, match="a: tp 8 won't do: 8 does not divide the 28 attention heads"):
        choose([Wanted("a", tp=8, heads=HEADS_28)], ALL, GROUPS)
    with pytest.raises(NoChoiceError, match=r"named|won't do: 8 does not divide"):
        choose([Wanted("a", cards=tuple(ALL), heads=HEADS_28)], ALL, GROUPS)


def test_a_given_size_takes_what_is_good_of_a_broken_group() -> None:
    assert choose([Wanted("a", tp=2)], ALL, GROUPS, bad=[1, 6]) == {"a": (0, 2)}
    assert choose([Wanted("a", tp=2)], ALL, GROUPS, bad=[1, 6], bad_links=[(2, 0)]) == {"a": (0, 3)}
    with pytest.raises(
        NoChoiceError, match=r"a: no group of 4 cards is free .*: group 0, 1, 2, 3 has bad card 1;"
    ):
        choose([Wanted("a", tp=4)], ALL, GROUPS, bad=[1, 6])


def test_named_cards_that_are_bad_or_fail_together() -> None:
    with pytest.raises(NoChoiceError, match="a: card 1, which it names, is bad"):
        choose([Wanted("a", cards=(0, 1))], ALL, GROUPS, bad=[1])
    with pytest.raises(NoChoiceError, match=r"a: the cards it names \(2, 6\) won't do: has bad link 2-6"):
        choose([Wanted("a", cards=(2, 6))], ALL, GROUPS, bad_links=[(6, 2)])


def test_services_that_share_fall_back_to_shares_of_whole_groups() -> None:
    two = [Wanted("a"), Wanted("b")]
    assert choose(two, ALL, GROUPS, bad=[2]) == {"a": (4, 5), "b": (6, 7)}
    with pytest.raises(NoChoiceError, match="group 0, 1, 2, 3 has bad card 2"):
        choose(two, ALL, GROUPS, min_tp=4, bad=[2])
    with pytest.raises(NoChoiceError, match=r"tp 2: .* this size, and no larger one without a fault to"):
        choose(two, ALL, GROUPS, bad=[2, 5])
    # one card each is what they would get of eight good ones, so it is no fallback
    five = [Wanted(name) for name in "abcde"]
    assert choose(five, ALL, GROUPS, bad=[0]) == {name: (card,) for card, name in enumerate("abcde", 1)}


def test_a_bad_link_is_avoided_and_a_failed_group_too() -> None:
    assert choose([Wanted("a")], ALL, GROUPS, bad_links=[(2, 6)]) == {"a": (0, 1, 2, 3)}
    assert choose([Wanted("a")], ALL, GROUPS, bad_links=[(3, 2)]) == {"a": (4, 5, 6, 7)}
    assert choose([Wanted("a")], ALL, GROUPS, bad_links=[ALL, (0, 1, 2, 3)]) == {"a": (4, 5, 6, 7)}
    with pytest.raises(
        NoChoiceError, match="tp 4: group 0, 1, 2, 3 has bad link 2-3; group 4, 5, 6, 7 has bad"
    ):
        choose([Wanted("a")], ALL, GROUPS, bad_links=[(2, 3), (4, 7)])


def test_the_healthier_group_first_and_of_the_same_the_first() -> None:
    quality = {frozenset(pair): 20.0 for pair in combinations(ALL, 2)}
    wanted = [Wanted("a", tp=4)]
    assert [one["a"] for one in choices(wanted, ALL, GROUPS, quality=quality)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    # a tenth is what one link differs by from day to day
    quality[frozenset((1, 2))] = 18.0
    assert choose(wanted, ALL, GROUPS, quality=quality) == {"a": (0, 1, 2, 3)}
    quality[frozenset((1, 2))] = 12.0
    assert choose(wanted, ALL, GROUPS, quality=quality) == {"a": (4, 5, 6, 7)}
    # what nobody measured comes last, and a larger group is better than a faster one
    del quality[frozenset((5, 6))]
    assert choose(wanted, ALL, GROUPS, quality=quality) == {"a": (0, 1, 2, 3)}
    assert choose([Wanted("a")], ALL, GROUPS, quality=quality) == {"a": tuple(ALL)}


def test_the_weights_need_so_many_cards() -> None:
    heavy = Wanted("a", least=4)
    assert choose([heavy], ALL, GROUPS, bad=[1]) == {"a": (4, 5, 6, 7)}
    with pytest.raises(NoChoiceError, match=r"tp 2: the weights need at least 4 cards \(a\)"):
        choose([heavy], ALL, TWOS, bad=[1, 6])
    # who gives a size knows what it is good for
    assert choose([Wanted("a", tp=2, least=4)], ALL, TWOS) == {"a": (0, 1)}


def test_cards_that_a_service_never_gets() -> None:
    never = Wanted.of({"name": "a", "never": [3]})
    assert choose([never], ALL, GROUPS) == {"a": (4, 5, 6, 7)}
    # nor does another that is chosen for at the same time
    assert choose([Wanted("a", tp=2, never=(0, 1)), Wanted("b", tp=2)], ALL, TWOS) == {
        "a": (2, 3),
        "b": (4, 5),
    }


def test_why_it_is_no_larger_size() -> None:
    assert shortfall([Wanted("a")], ALL, GROUPS) == {}
    assert shortfall([Wanted("a")], ALL, GROUPS, bad=[2]) == {
        8: "group 0, 1, 2, 3, 4, 5, 6, 7 has bad card 2"
    }
    assert shortfall([Wanted("a", heads=HEADS_28)], ALL, GROUPS) == {
        8: "8 does not divide the 28 attention heads (a)"
    }
    assert shortfall([Wanted("a", tp=4)], ALL, GROUPS, bad=[0]) == {}


def test_sets_of_sixteen_cards_avoid_bad_links_exactly() -> None:
    sixteen, groups = range(16), (tuple(range(16)),)
    # no two of 0-8 work together, so eight that do are one of those and all others
    links = list(combinations(range(9), 2))
    chosen = [one["a"] for one in choices([Wanted("a", tp=8)], sixteen, groups, bad_links=links)]
    assert chosen == [(card, *range(9, 16)) for card in range(9)]
    with pytest.raises(NoChoiceError, match="no group of 8"):
        choose([Wanted("a", tp=8)], sixteen, groups, bad_links=[*links, (9, 10), (11, 12)])
    # eight pairs for eight services, of which only one matching is left
    only = {frozenset((card, card + 8)) for card in range(8)}
    links = [pair for pair in combinations(sixteen, 2) if frozenset(pair) not in only]
    pairs = choose([Wanted(str(card), tp=2) for card in range(8)], sixteen, groups, bad_links=links)
    assert pairs == {str(card): (card, card + 8) for card in range(8)}


def test_what_is_wanted_survives_json() -> None:
    for want in (Wanted("a"), Wanted("b", tp=4, heads=HEADS_28, least=2), Wanted("c", cards=(4, 5))):
        assert Wanted.of(json.loads(json.dumps(asdict(want)))) == want


@given(
    bad=st.sets(st.integers(0, 7)),
    links=st.sets(st.sampled_from(list(combinations(range(8), 2))), max_size=4),
    tps=st.lists(st.sampled_from([None, 1, 2, 4]), min_size=1, max_size=3),
    heads=st.sampled_from([None, HEADS_28, HEADS_64]),
    groups=st.sampled_from([GROUPS, TWOS]),
)
def test_no_choice_holds_a_bad_card_or_a_bad_link(
    bad: set[int],
    links: set[tuple[int, int]],
    tps: list[int | None],
    heads: tuple[int, int] | None,
    groups: tuple[tuple[int, ...], ...],
) -> None:
    wants = [Wanted(f"s{number}", tp=tp, heads=heads) for number, tp in enumerate(tps)]
    seen: list[int] = []
    for number, choice in enumerate(choices(wants, ALL, groups, bad_links=links, bad=bad)):
        handed = [card for cards in choice.values() for card in cards]
        assert len(handed) == len(set(handed))
        assert not bad & set(handed)
        for want in wants:
            cards = set(choice[want.name])
            assert not any(set(link) <= cards for link in links)
            assert heads is None or heads[0] % len(cards) == 0
            assert any(cards <= set(group) for group in groups if len(group) < 8 or len(cards) == 8)
        seen.append(sum(map(len, choice.values())))
        if number > 20:
            break
    assert seen == sorted(seen, reverse=True)
