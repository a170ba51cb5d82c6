"""Which of the expected cards are there: by what stays with a card, never by its number alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from klops.cards.evidence.findings import DEGRADED, FAIL, NOTE, Finding
from klops.cards.identity import Card
from klops.cards.record.presence import is_called
from klops.cards.record.quarantine import same_card

_LASTING = ("uuid", "serial", "bdf")
_SETTING = "klops.cards.identities"
_LEARNED = "the cards known from before"


def compare(
    cards: Sequence[Card],
    expected: int,
    wanted: Mapping[int, str] = {},
    learned: Sequence[Mapping[str, Any]] = (),
) -> tuple[Finding, ...]:
    """What is absent, new, at another index than before, or named twice.

    ``wanted``: ``klops.cards.identities``, a card's UUID, serial or PCI address by its index; ``learned``:
    the identities of a learned baseline. An absent card's finding is about its index only where no other card
    has taken that: else that one would be blamed.
    """
    found: list[Finding] = []
    here, count = {card.index for card in cards}, len(cards)
    if count != expected:
        severity, action = (FAIL, "inspect") if count < expected else (NOTE, "none")
        found.append(Finding("count", None, severity, f"{expected} cards expected, {count} found", action))
    told: list[Card] = []
    for index, name in sorted(wanted.items()):
        card = next((card for card in cards if is_called(card.identity(), name)), None)
        if card is None:
            found.append(_absent(index, name, _SETTING, here))
            continue
        if card in told:
            said = f"{_SETTING} names card {card.index} ({name}) twice"
            found.append(Finding("twice", None, DEGRADED, said))
        elif card.index != index:
            said = f"{_SETTING} has {name} as card {index}, but it is card {card.index} now"
            # the settings choose cards by their index: another one may be meant by it
            found.append(Finding("moved", None, DEGRADED, said, "inspect"))
        told.append(card)
    lasting = [one for one in learned if any(one.get(key) for key in _LASTING)]
    for one in lasting:
        found += _since(one, cards, wanted, here)
    if len(wanted) >= expected:
        found += _new(cards, told, _SETTING)
    if lasting:
        known = [card for card in cards if any(same_card(one, card.identity()) for one in lasting)]
        found += _new(cards, known, _LEARNED)
    return tuple(found)


def _new(cards: Sequence[Card], known: Sequence[Card], source: str) -> list[Finding]:
    return [
        Finding(
            "new",
            card.index,
            NOTE,
            f"card {card.index} ({_named(card.identity())}) is not among {source}",
        )
        for card in cards
        if card not in known
    ]


def _since(
    one: Mapping[str, Any], cards: Sequence[Card], wanted: Mapping[int, str], here: set[int]
) -> list[Finding]:
    """What has become of a learned card."""
    same = [card for card in cards if same_card(one, card.identity())]
    index = one.get("index")
    if not same:
        if any(is_called(one, name) for name in wanted.values()):
            return []  # told of the settings already
        return [_absent(index, _named(one), _LEARNED, here)]
    card, moved = same[0], []
    if isinstance(index, int) and card.index != index:
        moved.append(f"card {card.index} was card {index}")
    if isinstance(one.get("minor"), int) and card.minor != one["minor"]:
        moved.append(f"its node was xpu{one['minor']} and is {card.node}")
    if not moved:
        return []
    said = f"since the cards were learned, {_named(one)} has moved: {'; '.join(moved)}"
    return [Finding("moved", card.index, NOTE, said)]


def _absent(index: Any, name: str, source: str, here: set[int]) -> Finding:
    free = isinstance(index, int) and index not in here
    # one that is about its card is told with its number
    what = f"card {index} ({name})" if isinstance(index, int) and not free else name
    said = f"{what} of {source} is absent: no source knows it"
    return Finding("absent", index if free else None, FAIL, said, "inspect")


def _named(identity: Mapping[str, Any]) -> str:
    return next((str(identity[key]) for key in _LASTING if identity.get(key)), "?")
