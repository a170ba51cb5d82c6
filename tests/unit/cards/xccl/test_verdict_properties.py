"""What holds for verdicts and choices whatever the tests found."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from klops.cards.choice.selection import Wanted, choices
from klops.cards.xccl.judging.verdict import judge
from klops.cards.xccl.results import DEGRADED, HOST, PASS, STACK, Aim, Outcome
from tests.unit.cards.xccl.verdict_reading import outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klops.cards.xccl.results import Verdict

ENDINGS = (
    "ok",
    "ok x0.5",
    "timeout collective",
    "error init: refused by {a}",
    "wrong",
    "flaky 1/3",
    "untested",
)
FAILURES = ENDINGS[2:5]
GROUPS = ((0, 1, 2), (3, 4, 5), (0, 1, 2, 3), (0, 1), (2, 3), (0, 1, 2, 3, 4, 5))


@st.composite
def diagnoses(draw: st.DrawFn, least: int = 2) -> tuple[Aim, list[Outcome]]:
    """A host of a few cards, tested: mostly as a few bad cards would have it, and some tests ended anyhow."""
    count = draw(st.integers(least, 6))
    bad = draw(st.sets(st.integers(0, count - 1), max_size=3))
    alone = st.sampled_from((*["ok"] * 12, *ENDINGS))
    outcomes = [outcome((card,), draw(alone)) for card in range(count)]
    for pair in combinations(range(count), 2):
        usual = "timeout collective" if bad & set(pair) else "ok"
        outcomes.append(outcome(pair, draw(st.sampled_from((*[usual] * 12, *ENDINGS)))))
    if count > 2:
        outcomes.append(outcome(tuple(range(count)), draw(st.sampled_from(ENDINGS))))
    groups = tuple(group for group in GROUPS if max(group) < count) or (tuple(range(count)),)
    kinds = st.sampled_from(("XL", "SYS"))
    links = {pair: draw(kinds) for pair in combinations(range(count), 2)}
    return Aim(tuple(range(count)), (Wanted("svc"),), groups, links=links), outcomes


def _moved(cards: tuple[int, ...], to: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(to[card] for card in cards)


def _structure(verdict: Verdict, to: Mapping[int, int]) -> object:
    return (
        verdict.scope,
        {to[card]: (one.verdict, one.action) for card, one in verdict.cards.items()},
        {
            (*sorted((to[pair.a], to[pair.b])), pair.status, pair.gbps, pair.runs, pair.failures)
            for pair in verdict.pairs
        },
        {frozenset(_moved(link, to)) for link in verdict.bad_links},
        set(_moved(verdict.excluded, to)),
    )


@given(diagnoses(), st.permutations(range(10, 16)))
def test_other_numbers_for_the_cards_give_the_same_answer_with_other_numbers(
    diagnosis: tuple[Aim, list[Outcome]], numbers: list[int]
) -> None:
    aim, outcomes = diagnosis
    to = {card: numbers[card] for card in aim.cards}
    other = replace(
        aim,
        cards=_moved(aim.cards, to),
        groups=tuple(_moved(group, to) for group in aim.groups),
        links={(min(to[a], to[b]), max(to[a], to[b])): kind for (a, b), kind in aim.links.items()},
    )
    moved = [replace(one, cards=_moved(one.cards, to)) for one in outcomes]
    verdict, same = judge(aim, outcomes), judge(other, moved)
    assert _structure(same, {card: card for card in other.cards}) == _structure(verdict, to)
    assert chosen(other, moved, same) == [_moved(cards, to) for cards in chosen(aim, outcomes, verdict)]


@given(diagnoses(least=3), st.data())
def test_one_more_failing_pair_makes_no_bad_card_good(
    diagnosis: tuple[Aim, list[Outcome]], data: st.DataObject
) -> None:
    aim, outcomes = diagnosis
    pair = data.draw(st.sampled_from(list(combinations(aim.cards, 2))))
    ending = data.draw(st.sampled_from(FAILURES))
    others = [one for one in outcomes if set(one.cards) != set(pair)]
    before, after = judge(aim, outcomes), judge(aim, [*others, outcome(pair, ending)])
    was = next((one for one in outcomes if set(one.cards) == set(pair)), None)
    if was is not None and was.status in ("wrong", "timeout", "error"):
        return
    good = {card for card, one in after.cards.items() if one.verdict in (PASS, DEGRADED)}
    assert not set(before.excluded) & good, (before.summary, after.summary)


def chosen(aim: Aim, outcomes: list[Outcome], verdict: Verdict) -> list[tuple[int, ...]]:
    """All sets of cards that the service may get, best first."""
    if verdict.scope in (STACK, HOST):
        return []
    failed = [
        one.cards for one in outcomes if len(one.cards) > 2 and one.status in ("wrong", "timeout", "error")
    ]
    quality = {frozenset((pair.a, pair.b)): pair.gbps for pair in verdict.pairs if pair.gbps is not None}
    usable = [card for card in aim.cards if card not in verdict.excluded]
    found = choices(
        aim.wants, usable, aim.groups, 1, [*verdict.bad_links, *failed], quality, bad=verdict.excluded
    )
    return [one["svc"] for one in found]


@given(diagnoses())
def test_no_bad_card_and_no_bad_link_is_chosen(diagnosis: tuple[Aim, list[Outcome]]) -> None:
    aim, outcomes = diagnosis
    verdict = judge(aim, outcomes)
    failed = [set(one.cards) for one in outcomes if one.status in ("wrong", "timeout", "error", "flaky")]
    for cards in chosen(aim, outcomes, verdict):
        assert not set(cards) & set(verdict.excluded)
        assert not any(pair <= set(cards) for pair in failed if len(pair) == 2)
        assert not any(group <= set(cards) for group in map(set, verdict.bad_links))
        assert len(cards) in (1, 2, 4)


@given(diagnoses())
def test_every_card_has_a_verdict_with_a_reason_and_nothing_is_blamed_without_a_failure(
    diagnosis: tuple[Aim, list[Outcome]],
) -> None:
    aim, outcomes = diagnosis
    verdict = judge(aim, outcomes)
    assert set(verdict.cards) == set(aim.cards)
    assert verdict.summary
    assert all(one.reason for one in verdict.cards.values())
    failed = {card for one in outcomes if one.failures for card in one.cards}
    assert set(verdict.excluded) <= failed
    assert verdict.scope != "none" or not failed
