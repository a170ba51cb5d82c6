"""Which pairs of cards are tested at the same time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Pair = tuple[int, int]


def rounds(cards: Sequence[int], serial: bool = False) -> list[tuple[Pair, ...]]:
    """Each pair of ``cards`` once, in the fewest rounds of disjoint pairs; ``serial``: one pair a round.

    n cards make n - 1 rounds, an odd number of them n rounds, in each of which another card rests. A pair has
    its lower number first.

    A power of two of cards meets by "exclusive or" of their places: the first round pairs neighbours, the
    first three stay within fours, and so on, so that the cards of a wing that stand together meet each other
    before any of the other wing. Other numbers go by the circle method.

    >>> rounds([0, 1, 2, 3])
    [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    >>> rounds([5, 6, 7])
    [((6, 7),), ((5, 7),), ((5, 6),)]
    """
    count = len(cards)
    power_of_two = count & (count - 1) == 0
    places = _by_bits(count) if power_of_two else _by_circle(count)
    met = [tuple(_pair(cards[a], cards[b]) for a, b in one) for one in places]
    return [(pair,) for one in met for pair in one] if serial else met


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _by_bits(count: int) -> list[list[Pair]]:
    return [
        [(place, place ^ bits) for place in range(count) if place < place ^ bits] for bits in range(1, count)
    ]


def _by_circle(count: int) -> list[list[Pair]]:
    """One place stands, the others turn around it; of an odd number the one that would meet it rests."""
    turning = count - 1 + count % 2
    found = []
    for turn in range(turning):
        pairs = [((turn + step) % turning, (turn - step) % turning) for step in range(1, (turning + 1) // 2)]
        if count % 2 == 0:
            pairs.append((turn, turning))
        found.append(sorted(_pair(a, b) for a, b in pairs))
    return found


def packed(pairs: Iterable[Pair], serial: bool = False) -> list[tuple[Pair, ...]]:
    """Any pairs in rounds of disjoint ones, each in the first round in which both cards are free.

    >>> packed([(0, 1), (1, 2), (2, 3)])
    [((0, 1), (2, 3)), ((1, 2),)]
    """
    found: list[list[Pair]] = []
    for pair in pairs:
        room = (one for one in found if not serial and not any(set(pair) & set(other) for other in one))
        into = next(room, None)
        if into is None:
            found.append([pair])
        else:
            into.append(pair)
    return [tuple(one) for one in found]
