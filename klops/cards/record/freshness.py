"""Whether what was found of cards at an earlier time may still be relied on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from klops.cards.evidence.driver import changed
from klops.cards.record.form import moment
from klops.cards.record.quarantine import identity, same_card

#: Seconds that a verdict may be ahead of the clock: of less than that a clock is put right while it runs.
_AHEAD = 60.0
#: Verdicts that count as a failing diagnosis, and those that end a row of such.
_FAILS, _CLEARS = ("fail",), ("pass", "degraded")


def stale(
    document: Mapping[str, Any],
    cards: Sequence[Mapping[str, Any]],
    *,
    boot_id: str,
    driver: str,
    max_age: float,
    now: float | None,
) -> str:
    """Why a verdict (``verdict.json``) is no longer good for these cards; "" where it is.

    ``max_age`` in seconds, ``now`` in epoch seconds by the host's clock, None where that isn't known.
    """
    if not boot_id or document.get("boot_id") != boot_id:
        return "the host was booted since" if boot_id else "whether the host was booted since is not known"
    if changed(driver, str(document.get("driver") or "")):
        return f"the driver is {driver} now, it was {document['driver']}"
    then = [one for one in document.get("cards") or () if isinstance(one, Mapping)]
    others = [card for card in cards if not any(same_card(card, one) for one in then)]
    if others:
        listed = ", ".join(str(card.get("index")) for card in others)
        return f"card {listed} is another one than then, or was not looked at"
    at = moment(document.get("at"))
    if now is None or at is None:
        return "how old it is is not known"
    if at - now > _AHEAD:
        return f"the verdict is of a time that is still to come, in {span(at - now)}: the clock was set back"
    if now - at > max_age:
        return f"the verdict is {span(now - at)} old"
    return ""


def span(seconds: float) -> str:
    """A length of time for people.

    >>> span(7300.0)
    '2 h'
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def counted(before: Any, verdicts: Iterable[tuple[Mapping[str, Any], str]]) -> list[dict[str, Any]]:
    """Failing diagnoses in a row, ``{card, n}`` of each that has any, after one more.

    ``before``: the same of the time before, as it was read. A card that wasn't tested keeps its number, under
    whatever of its names is known this time: one time xpu-smi tells its UUID, another only the PCI address.
    """
    found = _rows(before)
    for card, verdict in verdicts:
        row = next((one for one in found if same_card(one["card"], card)), None)
        if verdict in _FAILS:
            if row is None:
                found.append(row := {"card": {}, "n": 0})
            told = {key: value for key, value in identity(card).items() if value not in (None, "")}
            row.update(card={**identity(row["card"]), **told}, n=row["n"] + 1)
        elif verdict in _CLEARS and row is not None:
            found.remove(row)
    return found


def forgotten(before: Any, cards: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same without what was counted of these cards."""
    gone = list(cards)
    return [row for row in _rows(before) if not any(same_card(row["card"], card) for card in gone)]


def in_a_row(count: Iterable[Mapping[str, Any]], card: Mapping[str, Any]) -> int:
    """Failing diagnoses in a row of this card, 0 where it is not counted."""
    return next((int(row["n"]) for row in count if same_card(row["card"], card)), 0)


def _rows(said: Any) -> list[dict[str, Any]]:
    """What can be read of what was kept."""
    return [
        dict(row)
        for row in (said if isinstance(said, list) else ())
        if isinstance(row, Mapping) and isinstance(row.get("card"), Mapping) and isinstance(row.get("n"), int)
    ]
