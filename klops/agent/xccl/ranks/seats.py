"""Which card each rank really has. Pure.

Ranks take places in the list of visible cards, and which card a place is depends on the exact list: with all
eight of them a P800's runtime goes by another order than with fewer. So each rank says which node it has
open once it has its card.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence, Tuple

_NONE = "no rank has the node of one card alone open"
_SEVERAL = "the nodes that ranks have open don't name one card for each"
_ASSUMED = "the order of the list of visible cards is assumed"


class Seats(NamedTuple):
    """``places``: of each card. ``sure``: nothing speaks against it.

    What is found at a place is told of its card if that is so; of several whose rank failed, all failed.
    ``unknown``: cards of which nothing shows which place they have, or whether they have any: what happens at
    the places that are left for them is no test of theirs.
    """

    places: Mapping[int, int]
    sure: bool
    note: str = ""
    unknown: Tuple[int, ...] = ()


def seat(
    cards: Sequence[int],
    read: Mapping[int, Optional[int]],
    failed: Sequence[int] = (),
    *,
    others: bool = False,
    reordered: bool = False,
) -> Seats:
    """``cards`` in the order of the list; ``read``: the one card a rank has open, by place, None for no one.

    ``failed``: places whose rank never got so far. Where the other places are as the list has them, so are
    these. Else the cards that nobody has are theirs, but only if there is no other card that they could have
    opened: ``others`` tells that there is one, as a dead card that isn't tested.

    A runtime may open every visible node in every rank; then no rank tells a card of its own, and the order
    of the list holds. ``reordered``: something in a rank's environment asks for another one.
    """
    assumed = {card: place for place, card in enumerate(cards)}
    up = [place for place in range(len(cards)) if place not in failed]
    found = [read.get(place) for place in up]
    if not up:
        return Seats(assumed, sure=False)
    if set(found) == {None}:
        why = "; CUDA_DEVICE_ORDER asks for another, so it isn't known" if reordered else ""
        return Seats(assumed, sure=not reordered, note=f"{_NONE}: {_ASSUMED}{why}")
    if None in found or len(set(found)) < len(found) or not set(found) <= set(cards):
        return Seats(assumed, sure=False, note=f"{_SEVERAL}: {_ASSUMED}")
    places = {card: up[number] for number, card in enumerate(found) if card is not None}
    rest = tuple(card for card in cards if card not in places)
    as_listed = all(assumed[card] == place for card, place in places.items())
    places.update(zip(rest, sorted(failed)))  # noqa: B905 - as many of the one as of the other
    if as_listed:
        return Seats(places, sure=True)
    proven = not others and len(failed) <= 1
    told = sorted((place, card) for card, place in places.items() if proven or place in up)
    listed = ", ".join(f"place {place} has card {card}" for place, card in told)
    note = f"the runtime's order is another than the list's: {listed}"
    unknown = ", ".join(map(str, rest))
    if rest and others:
        note += (
            "; which card a rank had that failed is not known, as there are cards that aren't tested: nothing"
            f" is said of card {unknown}"
        )
        return Seats(places, sure=True, note=note, unknown=rest)
    if not proven:
        # each of them failed, so each of these cards did; but which did how isn't known
        note += f"; which of cards {unknown} is at which of the places whose rank failed is not known"
    return Seats(places, sure=True, note=note)
