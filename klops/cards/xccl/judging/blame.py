"""Which cards explain the collectives that failed: the smallest set of cards and links. Pure.

Every pair that failed must have a blamed card in it or be blamed itself, as a link. A card is blamed only if
most of its tested pairs with cards that aren't blamed failed, and two of them at least: one failed pair is a
link, whose ends are good. Of all explanations the ones with the fewest cards and links together count. So
four dead cards of eight are blamed, though each of the four good ones fails with four of seven others.

Where several explanations are equally small nothing is blamed by guess; the cards that some of them name are
in doubt. In doubt, too, is a card that would be blamed if one of the failed pairs were not known to fail: one
more failure never clears a card at a stroke.

The search is exact as long as it takes no more than :data:`STEPS`: up to 16 cards of which half are bad, with
some bad links besides, take a third of that. Where failures have no pattern at all it is given up, and
whoever may be to blame is in doubt.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Cards = frozenset[int]

#: Cards with several failed pairs of which any set may be to blame; no host has more cards.
MOST = 16
#: Partial explanations that are looked at; about a second's work.
STEPS = 100_000
_NONE: Cards = frozenset()


@dataclass(frozen=True)
class Seen:
    """Collectives that failed and that went well, each by the set of its cards. ``wrong``: wrong sums."""

    failed: frozenset[Cards] = frozenset()
    well: frozenset[Cards] = frozenset()
    wrong: frozenset[Cards] = frozenset()


class Blame(NamedTuple):
    """Cards that are to blame, and cards that may be."""

    guilty: Cards = _NONE
    doubtful: Cards = _NONE


class _TooMany(Exception):
    """There are more explanations than can be looked at."""


class Steps:
    """Counts partial explanations that are looked at."""

    def __init__(self, most: int = STEPS) -> None:
        self.taken, self._most = 0, most

    def take(self) -> None:
        """One more. Raises ``_TooMany``."""
        if self.taken == self._most:
            raise _TooMany
        self.taken += 1


def find(seen: Seen, steps: Steps | None = None) -> Blame:
    """Who is to blame."""
    steps = steps or Steps()
    able = frozenset(_able(_neighbours(cards for cards in seen.failed if len(cards) == 2)))
    if len(able) <= MOST:
        try:
            return _shaken(seen, _explained(seen, steps), steps)
        except _TooMany:
            pass
    sums = by_sums(seen)
    return Blame(sums, able - sums)


def _shaken(seen: Seen, first: Blame, steps: Steps) -> Blame:
    """With the cards in doubt that would be to blame if one pair had not failed."""
    doubtful = first.doubtful
    for pair in (cards for cards in seen.failed if len(cards) == 2):
        untested = replace(seen, failed=seen.failed - {pair}, wrong=seen.wrong - {pair})
        for instead in (untested, replace(untested, well=seen.well | {pair})):
            doubtful |= _explained(instead, steps).guilty
    return Blame(first.guilty, doubtful - first.guilty)


def _explained(seen: Seen, steps: Steps) -> Blame:
    by_pairs = _by_pairs(seen, steps)
    return Blame(by_pairs.guilty | by_sums(seen), by_pairs.doubtful)


def by_sums(seen: Seen) -> Cards:
    """The one card that is in all groups with wrong sums, two at least, and in none that went well."""
    if len(seen.wrong) < 2:
        return _NONE
    common = frozenset.intersection(*seen.wrong).difference(*seen.well)
    return common if len(common) == 1 else _NONE


def _by_pairs(seen: Seen, steps: Steps) -> Blame:
    pairs = _Pairs(
        _neighbours(cards for cards in seen.failed if len(cards) == 2),
        _neighbours(cards for cards in seen.well if len(cards) == 2),
        steps,
    )
    smallest = pairs.smallest(_able(pairs.failed))
    guilty = frozenset.intersection(*smallest)
    if _halves(smallest, pairs.failed):
        return Blame()
    return Blame(guilty, frozenset().union(*smallest) - guilty)


def _able(failed: dict[int, Cards]) -> list[int]:
    """Cards that can be blamed: one failed pair is a link."""
    return [card for card, others in failed.items() if len(others) > 1]


def _neighbours(pairs: Iterable[Cards]) -> dict[int, Cards]:
    found: dict[int, Cards] = {}
    for pair in pairs:
        for card in pair:
            found[card] = found.get(card, _NONE) | (pair - {card})
    return found


class _Pairs:
    """With which cards each card failed, and with which it went well; and the search."""

    def __init__(self, failed: dict[int, Cards], well: dict[int, Cards], steps: Steps) -> None:
        self.failed, self._steps = failed, steps
        self.well = {card: well.get(card, _NONE) for card in failed}

    def smallest(self, able: list[int]) -> list[Cards]:
        """The cards of each of the smallest explanations; the links are what these leave."""
        # cards with the most failures first: leaving one of them out soon costs more links than there may be
        order = tuple(sorted(able, key=lambda card: -len(self.failed[card])))
        good = frozenset(self.failed).difference(able)
        links = sum(len(self.failed[card] & good) for card in good) // 2
        # no card and all links is an explanation, so one is found
        return next(
            found
            for found in (list(self._costing(cost - links, order, _NONE, good)) for cost in itertools.count())
            if found
        )

    def _costing(self, cost: int, order: tuple[int, ...], blamed: Cards, good: Cards) -> Iterator[Cards]:
        """All sound sets of cards that, with the links they leave, come to exactly ``cost`` more."""
        self._steps.take()
        # who failed with a good card costs something, blamed or not
        if cost < sum(not good.isdisjoint(self.failed[card]) for card in order):
            return
        if not all(self._most(card, blamed, good, order, cost) for card in blamed):
            return
        if not order:
            if not cost:
                yield blamed
            return
        card, rest = order[0], order[1:]
        yield from self._costing(cost - 1, rest, blamed | {card}, good)
        yield from self._costing(cost - len(self.failed[card] & good), rest, blamed, good | {card})

    def _most(self, card: int, blamed: Cards, good: Cards, order: tuple[int, ...], more: int) -> bool:
        """Whether most of its pairs with good cards may have failed if ``more`` of ``order`` are blamed."""
        bad = len(self.failed[card] - blamed)
        well = self.well[card] - blamed
        return bad > 1 and bad > len(well) - min(more, len(well.intersection(order)))


def _halves(smallest: list[Cards], failed: dict[int, Cards]) -> bool:
    """Whether either of two sets explains all failures, and each works within itself.

    Then what lies between them is at fault: so it looks when the links between two wings of a host are down.
    """
    if len(smallest) != 2 or smallest[0] & smallest[1] or len(smallest[0]) < 2:
        return False
    all_of_it = all(
        others <= half for half in smallest for card, others in failed.items() if card not in half
    )
    return all_of_it and not any(
        b in failed[a] for half in smallest for a, b in itertools.combinations(half, 2)
    )
