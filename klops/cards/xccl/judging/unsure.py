"""What a diagnosis still says where nothing showed which card each rank had. Pure.

Its tests are keyed by cards then as the list of visible cards has them, which may be another order than the
runtime's. What is the same of all cards is true of them in any order; nothing else is.
"""

from __future__ import annotations

from dataclasses import replace

from klops.cards.xccl.results import (
    CARD,
    HOST,
    INCONCLUSIVE,
    NONE,
    STACK,
    UNKNOWN,
    CardVerdict,
    Diagnosis,
)

_REASON = "a fault was found, but not which card has it, as nothing shows which card each rank had"


def unsure(found: Diagnosis) -> Diagnosis:
    """The same if it sets no card, pair or group apart; else that something is wrong, and not where."""
    verdict = found.verdict
    alike = len({one.verdict for one in verdict.cards.values()}) < 2
    if alike and verdict.scope in (NONE, STACK, HOST, CARD):
        return found
    cards = {card: CardVerdict(UNKNOWN, _REASON, action="inspect") for card in verdict.cards}
    said = f"{_REASON}; if they had them as the list of visible cards has them: {verdict.summary}"
    return Diagnosis(
        replace(verdict, scope=INCONCLUSIVE, summary=said, cards=cards, pairs=()),
        tuple(one for one in found.outcomes if set(one.cards) == set(cards)),
        why=_REASON,
    )
