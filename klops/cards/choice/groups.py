"""Groups of cards that share full-speed links, and the sets of cards that may be taken out of them. Pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Literal

    #: of which groups a part may be taken: any, those without a fault, none
    Parts = Literal["any", "sound", "no"]
    #: GB/s of pairs of cards
    Quality = Mapping[frozenset[int], float]

ANY: Parts = "any"
SOUND: Parts = "sound"
NO: Parts = "no"
#: Bandwidths that differ by less are the same: one link measured twice differs by as much on a busy host.
ALIKE = 0.8


def power_of_two(number: int) -> int:
    """The largest power of two that is at most ``number``; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number > 0 else 0


def listed(cards: Iterable[int]) -> str:
    """Cards for people: ``0, 1, 2``, ``none`` for none."""
    return ", ".join(str(card) for card in cards) or "none"


@dataclass(frozen=True)
class Stock:
    """What there is to choose from. ``apart``: sets of cards that failed together."""

    free: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    bad: frozenset[int] = frozenset()
    apart: tuple[frozenset[int], ...] = ()
    quality: Quality | None = None

    def fault(self, cards: Collection[int]) -> str:
        """What is bad among these cards, "" for nothing."""
        bad = [card for card in cards if card in self.bad]
        if bad:
            return f"has bad card {listed(bad)}"
        for failed in self.apart:
            if failed <= set(cards):
                what = "bad link" if len(failed) == 2 else "cards that fail together:"
                return f"has {what} {'-'.join(map(str, sorted(failed)))}"
        return ""

    def sets(self, size: int, parts: Parts = ANY) -> Iterator[tuple[int, ...]]:
        """Legal sets of ``size`` free cards that work together, in the order of the groups.

        ``parts``: of which groups a part may be taken, if none is as small as that.
        """
        groups = self.groups
        if size == 1 and parts == ANY:
            groups = (self.free,)
        exact = [group for group in groups if len(group) == size]
        if exact:
            yield from (
                tuple(group) for group in exact if set(group) <= set(self.free) and not self.fault(group)
            )
            return
        larger = min((len(group) for group in groups if len(group) > size), default=0)
        seen: set[frozenset[int]] = set()
        for group in groups:
            if len(group) != larger or parts == NO or (parts == SOUND and self.fault(group)):
                continue
            inside = [card for card in group if card in self.free]
            for cards in itertools.combinations(inside, size):
                if frozenset(cards) not in seen and not self.fault(cards):
                    seen.add(frozenset(cards))
                    yield cards

    def healthiest(self, size: int, parts: Parts) -> Iterable[tuple[int, ...]]:
        """The same by their slowest pair: all that are about as fast as the best, then by bandwidth."""
        found = self.sets(size, parts)
        if self.quality is None or size == 1:
            return found
        speeds = {cards: self._slowest(cards) for cards in found}
        enough = max(speeds.values(), default=0.0) * ALIKE
        return sorted(speeds, key=lambda cards: -min(speeds[cards], enough))

    def _slowest(self, cards: tuple[int, ...]) -> float:
        # a pair that nobody measured may be anything: it comes last
        known = self.quality or {}
        return min(known.get(frozenset(pair), 0.0) for pair in itertools.combinations(cards, 2))

    def without(self, cards: Collection[int]) -> Stock:
        """After these cards were handed out."""
        free = tuple(card for card in self.free if card not in cards)
        return Stock(free, self.groups, self.bad, self.apart, self.quality)

    def healed(self) -> Stock:
        """As it was if nothing were bad."""
        return Stock((*self.free, *sorted(self.bad)), self.groups)
