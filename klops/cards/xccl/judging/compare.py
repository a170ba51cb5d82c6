"""Cards and pairs that are slower than their peers, from the times of tests that went well. Pure.

Peers of a pair are the pairs with the same kind of link. Where that isn't known they are those that lie alike
in ``cards.groups``: within a group of the same size, or between two. Of pairs of which neither is known any
may have another link than the rest, so none of them is slow by itself. Peers of a card alone are the other
cards.

Slow is what has less than :data:`~klops.cards.choice.groups.ALIKE` of the speed of the middle one of its
peers, and is slower by more than measuring varies, at half of the sizes or more: one size may have met a busy
host.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from klops.cards.choice.groups import ALIKE
from klops.cards.xccl.bandwidth import LATENCY
from klops.cards.xccl.results import OK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from klops.cards.xccl.results import Aim, Outcome, Sample

    Cards = frozenset[int]

#: Fewer tests of one kind don't tell which of them is out of the ordinary.
LEAST = 3
#: So many times its usual deviation a time must be off. Half of all times are within one deviation (it is the
#: median one), all but one of a thousand within five, if they vary as chance has it.
CLEAR = 5


def ratios(outcomes: Sequence[Outcome]) -> dict[Cards, float]:
    """Of these peers those that are slow, with their speed at their worst size, 1.0 for the middle one's."""
    timed = {
        frozenset(one.cards): {s.bytes: s for s in one.samples if s.us > 0 and s.bytes >= LATENCY}
        for one in outcomes
    }
    seen: dict[Cards, list[float]] = {cards: [] for cards in timed}
    for size in sorted({size for samples in timed.values() for size in samples}):
        of_size = {cards: samples[size] for cards, samples in timed.items() if size in samples}
        if len(of_size) < LEAST:
            continue
        for cards, ratio in _at_one_size(of_size):
            seen[cards].append(ratio)
    return {
        cards: min(found)
        for cards, found in seen.items()
        if found and 2 * sum(ratio < ALIKE for ratio in found) >= len(found)
    }


def _at_one_size(samples: Mapping[Cards, Sample]) -> Iterable[tuple[Cards, float]]:
    """Speed of each by that of the middle one; 1.0 for what is off by less than times vary."""
    # the lower median: of three fast and three slow ones the fast are the measure
    middle = median_low([one.us for one in samples.values()])
    between = median_low([abs(one.us - middle) for one in samples.values()])
    within = median_low([one.spread_us for one in samples.values()])
    for cards, one in samples.items():
        clear = one.us - middle > CLEAR * max(between, within, one.spread_us)
        yield cards, middle / one.us if clear else 1.0


def peers(pair: Collection[int], aim: Aim) -> str:
    """What the peers of a pair share, for a sentence; "" where nothing is known that they could."""
    a, b = sorted(pair)
    if (a, b) in aim.links:
        return f"{aim.links[a, b]} pairs"
    home = {
        card: min((group for group in aim.groups if card in group), key=len, default=()) for card in (a, b)
    }
    if len(aim.groups) < 2 or not all(home.values()):
        return ""  # one group of all cards tells no pair from another
    return f"pairs in groups of {len(home[a])}" if set(home[a]) == set(home[b]) else "pairs between groups"


def slow_pairs(outcomes: Iterable[Outcome], aim: Aim, without: Collection[int]) -> dict[Cards, float]:
    """Pairs that are slower than their peers, with their speed by that of these.

    Pairs with a card of ``without`` are no measure, and aren't measured.
    """
    kinds: dict[str, list[Outcome]] = {}
    for one in outcomes:
        if len(one.cards) == 2 and one.status == OK and not set(one.cards) & set(without):
            kinds.setdefault(peers(one.cards, aim), []).append(one)
    return {pair: ratio for alike in kinds.values() for pair, ratio in ratios(alike).items()}


def slow_cards(
    outcomes: Sequence[Outcome], pairs: Collection[Cards], without: Collection[int]
) -> dict[int, str]:
    """Slow cards and how that shows: alone, or in all the pairs that went well, two of them at least."""
    alone = [
        one for one in outcomes if len(one.cards) == 1 and one.status == OK and one.cards[0] not in without
    ]
    found = {
        card: f"alone it has {ratio:.0%} of the speed of the other cards"
        for cards, ratio in ratios(alone).items()
        for card in cards
    }
    together: dict[int, list[bool]] = {}
    for one in outcomes:
        if len(one.cards) == 2 and one.status == OK and not set(one.cards) & set(without):
            for card in one.cards:
                together.setdefault(card, []).append(frozenset(one.cards) in pairs)
    for card, slow in together.items():
        if card not in found and len(slow) > 1 and all(slow):
            found[card] = f"all its {len(slow)} pairs are slower than others of their kind"
    return found
