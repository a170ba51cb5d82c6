"""Services that fail since their cards were tested: one may have gone bad, which looks like a hang. Pure.

The agent says since when a service has not been ready (``failed_at``). A test after that moment tells whether
it is for its cards, and holds for all failures that follow: one that fails for a wrong argument costs one
test, and no other until it was ready again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.cards.record.freshness import span

if TYPE_CHECKING:
    from klops.actions.own.cards.record.standing import Standing

Units = Mapping[str, Mapping[str, Any]]


def suspect(standing: Standing, units: Units, chosen: Mapping[str, Sequence[int]]) -> str:
    """Why what is known of these cards is no longer good: a service failed since; "" where none did."""
    for name, cards in chosen.items():
        since = _since(units, name)
        if since is not None and _tested(standing, cards) < since:
            return f"{name} failed after its cards were tested"
    return ""


def cleared(standing: Standing, units: Units, chosen: Mapping[str, Sequence[int]], host: str) -> list[str]:
    """What is said of each service that failed, and not for its cards: these were tested after that."""
    found = []
    for name, cards in chosen.items():
        since, tested = _since(units, name), _tested(standing, cards)
        if since is not None and cards and tested >= since:
            ago = "" if standing.now is None else f" {span(standing.now - tested)} ago"
            found.append(
                f"{name} failed, and not for its cards: they were tested{ago}, after that, and are good; "
                f"klops logs {host} -s {name} shows why"
            )
    return found


def _since(units: Units, name: str) -> float | None:
    """When it first failed since it was ready, epoch seconds; None for one that is well."""
    at = units.get(name, {}).get("failed_at")
    return float(at) if isinstance(at, (int, float)) else None


def _tested(standing: Standing, cards: Sequence[int]) -> float:
    """When the card was tested last whose test is the oldest, epoch seconds; 0 for never."""
    return min((standing.known.at_of(card) or 0.0 for card in cards), default=0.0)
