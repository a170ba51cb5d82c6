"""Releases and generations of hosts, as tables and lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klops.actions.own.source.listing import amount
from klops.errors import KlopsError
from klops.ui.cards import moment, or_dash
from klops.ui.plain import printable
from klops.ui.prose import Prose, Trimmed
from klops.ui.status import each_host

#: Hex digits of a commit that people compare by.
_SHORT = 12
_STYLES = {"good": "green", "bad": "bold red"}
_GENERATION = ("generation", "health", "time", "release", "packages", "patches", "services", "by")
_RELEASE = ("release", "commit", "committed", "size", "subject")


def _size(count: Any) -> str:
    return amount(count) if isinstance(count, (int, float)) else "-"


def synced_view(
    hosts: Mapping[str, Mapping[str, Any]], redactor: Callable[[str], str], *, check: bool
) -> RenderableType:
    """One line a host: its release, how much was sent, how many files got other line endings."""
    return Group(
        *(Prose(printable(redactor(_synced(name, one, check=check)))) for name, one in hosts.items())
    )


def _synced(name: str, one: Mapping[str, Any], *, check: bool) -> str:
    if not one.get("release"):
        return f"{name}: nothing is synced: klops.source.repo is not set"
    sent = f"{or_dash(one.get('sent_files'))} of {or_dash(one.get('files'))} files sent"
    if check:
        sent = f"{or_dash(one.get('files'))} files"
    else:
        sent += f", {_size(one.get('sent_bytes'))}"
    endings = f"; line endings of {one['normalised']} made LF" if one.get("normalised") else ""
    text = f"{name}: release {one['release']} ({sent}{endings})"
    if not check and one.get("current") != one["release"]:
        stands = (
            f"{one['current']} is current" if one.get("current") else "klops releases shows what is current"
        )
        text += f" does not stand: {stands}"
    return text


def releases_view(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError], redactor: Callable[[str], str]
) -> RenderableType:
    """``klops releases``: two tables a host."""
    return each_host(hosts, redactor, _parts)


def _parts(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
    generations = found["generations"]
    rows = [_generation(one, present=one["number"] == found["generation"]) for one in generations]
    yield _table(_GENERATION, rows, text) if rows else Text("  generations: none")
    yield from (Prose(text(f"  {line}"), style="red") for line in _troubles(generations))
    listed = [_release(one, current=one["name"] == found["current"]) for one in found["releases"]]
    yield _table(_RELEASE, listed, text) if listed else Text("  releases: none")
    yield from (Prose(text(f"  {fault}"), style="red") for fault in found["faults"])
    if generations and found["generation"] is None:
        yield Text("  what stands now is none of these generations", style="yellow")


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], text: Callable[[str], str]
) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        wide = heading in ("subject", "services", "packages", "patches")
        table.add_column(heading, no_wrap=not wide, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text(cell), style=_STYLES.get(cell, "")) for cell in row))
    return Trimmed(table)


def _generation(one: Mapping[str, Any], *, present: bool) -> list[str]:
    of = f" (as {one['of']})" if one.get("of") else ""
    release = or_dash(one.get("release")) + ("" if one.get("there", True) else " (gone)")
    stack = [f"{name} {_version(known)}" for name, known in sorted(one["stack"].items())]
    units = [f"{name} TP={or_dash(unit.get('tp'))}" for name, unit in one["units"].items()]
    return [
        f"{'*' if present else ' '} {one['number']}{of}",
        str(one["health"]),
        moment(one.get("time")),
        release,
        ", ".join(stack) or "-",
        ", ".join(sorted(one["patches"])) or "-",
        ", ".join(units) or "-",
        or_dash(one.get("author")),
    ]


def _version(known: Mapping[str, Any] | None) -> str:
    return "removed" if known is None else str(known.get("version"))


def _troubles(generations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why generations were bad, the first line of each."""
    for one in generations:
        if one.get("error"):
            yield f"generation {one['number']}: {str(one['error']).splitlines()[0]}"


def _release(one: Mapping[str, Any], *, current: bool) -> list[str]:
    about = one.get("about") or {}
    return [
        f"{'*' if current else ' '} {one['name']}",
        str(about.get("commit") or "-")[:_SHORT],
        moment(about["committed"]) if about.get("committed") is not None else "-",
        _size(one.get("bytes")),
        or_dash(about.get("subject")),
    ]
