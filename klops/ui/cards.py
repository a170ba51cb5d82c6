"""Cards, what is thought of them and what keeps one out of service, as tables and lines. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klops.errors import KlopsError
from klops.ui.plain import printable
from klops.ui.progress import clock
from klops.ui.prose import Prose, Trimmed
from klops.ui.status import each_host, ranges

#: Verdict -> how it looks; the word itself always stands there too.
STYLES: Mapping[str, str] = {
    "pass": "green",
    "degraded": "yellow",
    "fail": "bold red",
    "unknown": "magenta",
    "not-applicable": "dim",
}


def or_dash(value: Any) -> str:
    """The text of a value, ``-`` for none."""
    return "-" if value is None or value == "" else str(value)


def node_name(card: Mapping[str, Any]) -> str:
    """The name of a card's node on the host, without its folder."""
    return or_dash(str(card.get("node") or "").rpartition("/")[2])


def numbers(card: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What a card goes by: index on the host, number in the container, name of its node, PCI address."""
    return (
        or_dash(card.get("index")),
        or_dash(card.get("container_index")),
        node_name(card),
        or_dash(card.get("bdf")),
    )


def moment(at: Any) -> str:
    """A time since the epoch for people, in UTC as a host's log may be anywhere."""
    if not isinstance(at, (int, float)):
        return "at a time that is not known"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def age_text(card: Mapping[str, Any]) -> str:
    """How old the verdict on a card is, and whether it counts no more."""
    if not isinstance(card.get("age"), (int, float)):
        return "-"
    return clock(max(card["age"], 0)) + (", stale" if card.get("stale") else "")


def card_table(
    cards: Sequence[Mapping[str, Any]], text: Callable[[str], str], *, aged: bool = False
) -> RenderableType:
    """One row a card: its numbers, its verdict and the reason of that. ``aged``: and how old it is."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("card", "container", "node", "bdf", "verdict", *(["age"] if aged else []), "reason"):
        wide = heading == "reason"
        right = heading in ("card", "container")
        table.add_column(heading, justify="right" if right else "left", no_wrap=not wide, overflow="fold")
    for card in cards:
        verdict = or_dash(card.get("verdict"))
        ages = [age_text(card)] if aged else []
        cells = [*numbers(card), verdict, *ages, or_dash(card.get("reason"))]
        table.add_row(
            *(Text(text(cell), style=STYLES.get(verdict, "") if cell is verdict else "") for cell in cells)
        )
    return Trimmed(table)


def note_line(note: Mapping[str, Any], index: Any) -> str:
    """One note: what it keeps out of service, why, who wrote it, until when."""
    which = "a card that is not seen here" if index is None else f"card {index}"
    until = f", until {moment(note['expires'])}" if note.get("expires") is not None else ""
    return (
        f"{which} is kept out of service: {or_dash(note.get('reason'))}"
        f" ({or_dash(note.get('by'))}, {moment(note.get('at'))}{until})"
    )


def list_view(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError], redactor: Callable[[str], str]
) -> RenderableType:
    """``klops cards list``."""
    return each_host(hosts, redactor, _parts)


def _parts(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
    cards = found.get("cards") or ()
    yield card_table(cards, text, aged=True) if cards else Text("  cards: none")
    yield from (Prose(text(f"  {line}"), style=style) for line, style in _list_lines(name, found))


def _list_lines(name: str, found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is said below the table, each line with its style."""
    lines: list[tuple[str, str]] = []
    for card in found.get("cards") or ():
        note = card.get("quarantine")
        if isinstance(note, Mapping):
            lines.append((note_line(note, card.get("index")), "red"))
            if note.get("kind") != "unkillable":
                lines.append((f"  to have it back: klops cards restore {name} {card.get('index')}", ""))
        if card.get("missing"):
            lines.append((f"card {card.get('index')} ({_identity(card)}) is not there", "red"))
    lines += [
        (f"{unit} runs on card{'s' if len(cards) > 1 else ''} {ranges(cards)}", "")
        for unit, cards in _users(found).items()
    ]
    verdict = found.get("verdict")
    if isinstance(verdict, Mapping):
        who = f"{or_dash(verdict.get('by'))}, {moment(verdict.get('at'))}"
        lines.append((f"last diagnosis ({who}): {or_dash(verdict.get('summary'))}", ""))
        if verdict.get("stale"):
            why = or_dash(verdict.get("why_stale"))
            lines.append((f"it counts no more: {why}; a new one: klops doctor xccl {name}", "yellow"))
    else:
        lines.append((f"nothing was diagnosed yet: klops doctor xccl {name}", "yellow"))
    lines += [(str(note), "yellow") for note in found.get("notes") or ()]
    baseline = found.get("baseline")
    if isinstance(baseline, Mapping):
        lines.append((f"bandwidth is compared with what was learned {moment(baseline.get('at'))}", ""))
    elif not found.get("baseline_unread"):
        lines.append(
            (f"no bandwidth was learned yet; from a host that does well: klops cards learn {name}", "")
        )
    return lines


def _users(found: Mapping[str, Any]) -> dict[str, list[int]]:
    """Cards by the unit that runs on them."""
    users: dict[str, list[int]] = {}
    for card in found.get("cards") or ():
        if card.get("in_use_by"):
            users.setdefault(str(card["in_use_by"]), []).append(card["index"])
    return users


def _identity(card: Mapping[str, Any]) -> str:
    return next((f"{key} {card[key]}" for key in ("bdf", "uuid", "serial") if card.get(key)), "not known")


#: What it costs to have cards back.
_GAINS = " one that gets more cards by that is stopped, and begins anew once they are tested"


def notes_view(
    hosts: Mapping[str, Mapping[str, Any]],
    redactor: Callable[[str], str],
    *,
    errors: Mapping[str, KlopsError],
) -> RenderableType:
    """``klops cards exclude`` and ``restore``: the notes in force afterwards. ``errors`` were told above."""
    parts: list[RenderableType] = []

    def text(line: str) -> str:
        return printable(redactor(line))

    for name, found in hosts.items():
        parts.append(Text(text(name), style="bold"))
        notes = found.get("quarantine") or ()
        lines = [note_line(note, note.get("card")) for note in notes]
        parts += [Prose(text(f"  {line}"), style="red") for line in lines]
        if not notes and name not in errors:
            parts.append(Text("  no card is kept out of service"))
        kept = {note.get("card") for note in notes}
        parts += [
            Prose(text(f"  card {use.get('card')} is in use by {unit}{_moved(name, unit, use, kept)}"))
            for use in found.get("in_use") or ()
            for unit in (use.get("unit"),)
        ]
        if (found.get("restored") or found.get("forced")) and name not in errors:
            # a service that is ready goes on, unless it can have more cards than it has
            parts.append(Prose(text(f"  next: klops up {name} puts services on what is back;{_GAINS}")))
    return Group(*parts)


def _moved(name: str, unit: Any, use: Mapping[str, Any], kept: Collection[Any]) -> str:
    """How a unit gets off a card that is kept out of service; klops up leaves one that is ready alone."""
    if use.get("card") not in kept:
        return ""
    return f" until that starts anew: klops restart {name} --service {unit} moves it to other cards"
