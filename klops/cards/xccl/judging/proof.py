"""Which of the cards that are blamed are proven to be bad. Pure.

That a card is in the smallest explanation is not enough where the tests were cut short, or where few cards
are left to test it with:

- One of its tests must count: it failed ``needed`` times, in fresh processes. The others need not be repeated
  then, as this card explains them.
- Two bad links that meet at a card look like a bad card as long as it met no more than those two, or three
  cards. So it must have failed with :data:`~klops.cards.xccl.judging.found.PARTNERS` that work with each
  other, or with all that aren't blamed if these do. Wrong sums need none of that, if no other card is in all
  groups that had them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.cards.xccl.judging.found import PARTNERS
from klops.cards.xccl.results import OK

if TYPE_CHECKING:
    from klops.cards.xccl.judging.found import Found, Tests

    Cards = frozenset[int]


def proven(blamed: Cards, by_sums: Cards, found: Found, failed: Tests) -> set[int]:
    """Of the cards ``blamed`` those that are; ``by_sums``: among them the one that all wrong sums share.

    ``failed``: groups that failed without a card that fails alone.
    """
    others = frozenset(found.cards) - blamed - found.dead()
    working = {card for cards in found.ended((OK,)) if cards <= others for card in cards}
    bad = set()
    for card in blamed:
        tests = [cards for cards in failed if card in cards]
        partners = others.intersection(other for cards in tests if len(cards) == 2 for other in cards)
        enough = len(partners & working) >= PARTNERS or partners == others == working or card in by_sums
        if enough and any(found.counts(failed[cards]) for cards in tests):
            bad.add(card)
    return bad
