"""Cards that the settings use and a host doesn't show: which they are, and whether that is certain. Pure.

A tool that no longer sees a card may count the others anew. Then a number of the settings is another card
than it was, and only identities tell which is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from klops.cards.identity import Card, normalise_bdf
from klops.cards.record.quarantine import same_card

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Missing:
    """Indexes that are not there. ``doubt``: why which cards these are isn't certain, "" where it is."""

    indexes: tuple[int, ...] = ()
    doubt: str = ""
    #: identity of those of which one is known, by index
    known: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


def is_called(card: Mapping[str, Any], text: str) -> bool:
    """Whether a card has this UUID, serial or PCI address, however that is spelt."""
    wanted = text.strip()
    names = {str(card.get(key) or "").lower() for key in ("uuid", "serial")} - {""}
    address = normalise_bdf(wanted)
    return wanted.lower() in names or bool(address and address == card.get("bdf"))


def missing(
    indexes: Sequence[int],
    cards: Sequence[Card],
    wanted: Mapping[int, str],
    learned: Sequence[Mapping[str, Any]],
) -> Missing:
    """Which of ``indexes`` are not among ``cards``.

    ``wanted``: uuid, serial or PCI address by index, as the settings have it; ``learned``: identities of an
    earlier look at this host, with the index that each card had then.
    """
    here = {card.index: card for card in cards}
    gone = tuple(index for index in indexes if index not in here)
    if not gone:
        return Missing()
    then = {one["index"]: one for one in learned if isinstance(one.get("index"), int)}
    known = {index: then[index] for index in gone if index in then}
    told = [index for index in here if index in wanted or index in then]
    for index in told:
        now = here[index].identity()
        same = is_called(now, wanted[index]) if index in wanted else same_card(now, then[index])
        if not same:
            return Missing(gone, f"card {index} is another one than it was: they were counted anew", known)
    if len(told) == len(here) or max(here) > max(gone):
        return Missing(gone, "", known)
    return Missing(gone, "which of the cards is gone can't be told: they may be counted anew", known)
