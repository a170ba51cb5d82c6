"""Status objects (the contract's ``klops status``) as tables. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klops.commands.drift import Drift
from klops.errors import KlopsError
from klops.ui.plain import printable
from klops.ui.progress import clock
from klops.ui.prose import Prose, Trimmed

_STATE_STYLES = {
    "ready": "green",
    "starting": "yellow",
    "backoff": "yellow",
    "unhealthy": "bold red",
    "failed": "bold red",
    "stopped": "dim",
}
#: Longest text on health that stands in the table.
HEALTH_CELL = 16
_RIGHT = frozenset({"pid", "for", "restarts", "tp", "port"})
_COLUMNS = ("service", "state", "pid", "for", "restarts", "cards", "tp", "port", "health", "model")


def ranges(numbers: Sequence[int]) -> str:
    """Cards for people: ``[0, 1, 2, 3, 6]`` -> ``0-3,6``; the order is kept, it is the order of ranks."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def container_line(container: Mapping[str, Any] | None) -> str:
    """One line on the container of a host."""
    if not container or not container.get("id"):
        return "container: none"
    adopted = ", adopted" if container.get("adopted") else ""
    return (
        f"container: {container.get('name')} {container.get('state')}"
        f" ({str(container.get('id'))[:12]}, image {container.get('image')}{adopted})"
    )


def source_line(status: Mapping[str, Any]) -> str:
    """The current release, and services that run on another; "" where there is no release."""
    current = (status.get("source") or {}).get("release")
    if not current:
        return ""
    others = [
        f"{name} runs on {unit['release']}"
        for name, unit in (status.get("services") or {}).items()
        if unit.get("release") not in (None, current)
    ]
    return "; ".join([f"release: {current}", *others])


def lock_line(lock: Any) -> str:
    """One line on who holds a host; "" when nobody does."""
    if not lock:
        return ""
    if isinstance(lock, Mapping) and lock.get("who"):
        origin = f" from {lock['from']}" if lock.get("from") else ""
        return f"lock: held by {lock['who']}{origin}"
    return f"lock: {lock}"


def inside_line(cards: Sequence[Mapping[str, Any]]) -> str:
    """All that a card goes by, of those that have another name or number in the container; "" for none."""
    other = [
        f"host {card.get('index')} = container {card.get('container_index')} = {card.get('node')}"
        f"{_node_inside(card)}{_address(card)}"
        for card in cards
        if card.get("container_node") and _called_otherwise(card)
    ]
    return f"in the container: {', '.join(other)}" if other else ""


def _node_name(card: Mapping[str, Any], key: str) -> str:
    return str(card.get(key)).rpartition("/")[2]


def _node_inside(card: Mapping[str, Any]) -> str:
    name = _node_name(card, "container_node")
    return "" if name == _node_name(card, "node") else f" ({name} there)"


def _address(card: Mapping[str, Any]) -> str:
    """The PCI address as far as people read it: ``0000:`` is on every card of every host."""
    return f" = {str(card['bdf']).removeprefix('0000:')}" if card.get("bdf") else ""


def _called_otherwise(card: Mapping[str, Any]) -> bool:
    renamed = _node_name(card, "node") != _node_name(card, "container_node")
    return card.get("container_index") != card.get("index") or renamed


def card_line(cards: Sequence[Mapping[str, Any]]) -> str:
    """Which node each index is, as ``0=xpu3``: `ps` and containers speak of nodes; "" for no cards."""
    nodes = [f"{card.get('index')}={_node_name(card, 'node')}" for card in cards if card.get("node")]
    return f"cards: {' '.join(nodes)}" if nodes else ""


def kept_out_lines(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each card that is kept out of service, with the reason.

    That nobody can tell is a fault of the container's, and no line of each card.
    """
    return [
        f"card {card.get('index')} is kept out of service: {card['quarantine'].get('reason')}"
        for card in cards
        if isinstance(card.get("quarantine"), Mapping) and card["quarantine"].get("kind") != "unknown"
    ]


def fallback_line(service: str, unit: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> str:
    """That a service runs on fewer cards than it asks for, and why, unless lines of cards say that."""
    less = unit["fallback"]
    told = {
        card.get("index")
        for card in cards
        if kept_out_lines([card]) or verdict_lines([{**card, "age": None}])
    }
    out = [one.get("index") for one in less.get("out") or ()]
    if not out or not told.issuperset(out):
        return str(less.get("text"))
    said = f"{service} runs with TP={less.get('tp')} on cards {ranges(unit.get('cards') or ())}"
    return (
        f"{said} instead of TP={less.get('asked')}: without card{'s' if len(out) > 1 else ''} {ranges(out)}"
    )


def verdict_lines(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each card that is gone or on which the last diagnosis speaks against it, unless it is noted.

    And one for a diagnosis that counts no more, which is said once for all cards.
    """
    lines = [
        f"card {card.get('index')}: {card['verdict']}: {card.get('reason') or 'not known why'}{_ago(card)}"
        for card in cards
        if (card.get("verdict") in ("fail", "degraded") or (card.get("missing") and card.get("verdict")))
        and not isinstance(card.get("quarantine"), Mapping)
    ]
    tested = [card for card in cards if card.get("age") is not None]
    if tested and all(card.get("stale") for card in tested):
        lines.append(f"the last diagnosis of these cards counts no more{_ago(tested[0])}")
    return lines


def _ago(card: Mapping[str, Any]) -> str:
    age = card.get("age")
    stale = ", stale" if card.get("stale") else ""
    return f" ({clock(max(age, 0))} ago{stale})" if isinstance(age, (int, float)) else ""


def drift_line(drift: Mapping[str, Any]) -> str:
    """One thing in which the container differs from the settings."""
    return f"  drift: {Drift(str(drift.get('key')), drift.get('want'), drift.get('have'))}"


def health_text(health: Any) -> str:
    """``ok``, or what is wrong; ``-`` when nobody has looked. "Could not check" is never "healthy"."""
    if isinstance(health, Mapping):
        if health.get("ok"):
            return "ok"
        if health.get("ok") is None:
            return str(health.get("message") or "-")
        return str(health.get("message") or "not ok")
    return str(health) if health else "-"


def health_note(health: Any) -> str:
    """What there is to say of a service that answers as it should; "" for nothing.

    A problem that was found all the same, and why it isn't known whether its requests progress.
    """
    if not isinstance(health, Mapping) or not health.get("ok"):
        return ""
    doubtful = health.get("problem") or health.get("progress") == "unknown"
    return str(health.get("message") or "") if doubtful else ""


def health_cell(health: Any) -> str:
    """:func:`health_text` where there is little room; what it leaves out is for a line of its own."""
    text = health_text(health)
    if len(text) <= HEALTH_CELL:
        return text
    return "not known" if isinstance(health, Mapping) and health.get("ok") is None else "not ok"


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)


def service_table(services: Mapping[str, Mapping[str, Any]], now: float) -> Table:
    """One row a service."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in _COLUMNS:
        wide = column in ("service", "health", "model")
        table.add_column(
            column, justify="right" if column in _RIGHT else "left", no_wrap=not wide, overflow="fold"
        )
    for name, unit in services.items():
        state = str(unit.get("state", "unknown"))
        since = unit.get("since")
        cells = [
            name,
            state,
            _or_dash(unit.get("pid")),
            "-" if since is None else clock(max(now - float(since), 0)),
            _or_dash(unit.get("restarts")),
            ranges(unit.get("cards") or ()) or "-",
            _or_dash(unit.get("tp")),
            _or_dash(unit.get("port")),
            health_cell(unit.get("health")),
            _or_dash(unit.get("model")),
        ]
        table.add_row(
            *(Text(printable(cell), _STATE_STYLES.get(state, "") if cell is state else "") for cell in cells)
        )
    return table


def host_view(name: str, status: Mapping[str, Any], *, now: float) -> RenderableType:
    """Everything on one host."""
    container = status.get("container") or {}
    lines = [container_line(container)]
    lines += [f"  {container['note']}"] if container.get("note") else []
    lines += map(drift_line, container.get("drift") or ())
    lines += [f"  weaker: {text}" for text in container.get("weaker") or ()]
    lines += filter(None, [source_line(status)])
    cards = status.get("cards") or ()
    lines += filter(None, (card_line(cards), inside_line(cards), lock_line(status.get("lock"))))
    if status.get("orphans"):
        lines.append(f"orphans: {status['orphans']} processes of units that run no more")
    services = status.get("services") or {}
    parts: list[RenderableType] = [
        Text(printable(name), style="bold"),
        *(Prose(f"  {printable(x)}") for x in lines),
    ]
    parts += [Prose(printable(f"  container: {text}"), style="red") for text in container.get("faults") or ()]
    parts += [Prose(printable(f"  {text}"), style="red") for text in kept_out_lines(cards)]
    parts += [Prose(printable(f"  {text}"), style="yellow") for text in verdict_lines(cards)]
    if services:
        parts.append(Trimmed(service_table(services, now)))
    else:
        parts.append(Text("  services: none"))
    for service, unit in services.items():
        error, health = str(unit.get("error") or ""), health_text(unit.get("health"))
        if error:
            parts.append(Prose(printable(f"  {service}: {error}"), style="red"))
        if len(health) > HEALTH_CELL and health not in error:
            parts.append(Prose(printable(f"  {service}: health: {health}")))
        if unit.get("fallback"):
            parts.append(Prose(printable(f"  {fallback_line(service, unit, cards)}"), style="yellow"))
        if unit.get("note"):
            parts.append(Prose(printable(f"  {service}: {unit['note']}"), style="red"))
        note = health_note(unit.get("health"))
        if note:
            parts.append(Prose(printable(f"  {service}: health: {note}"), style="yellow"))
    return Group(*parts)


def failed_host(name: str, error: KlopsError, redactor: Callable[[str], str]) -> list[RenderableType]:
    """A host that could not be read, and why."""
    parts: list[RenderableType] = [
        Text(printable(redactor(name)), style="bold"),
        Prose(printable(redactor(f"  error: {error.message}")), style="red"),
    ]
    if error.hint:
        parts.append(Text(printable(redactor(f"  fix: {error.hint}"))))
    return parts


def each_host(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError],
    redactor: Callable[[str], str],
    parts: Callable[[str, Mapping[str, Any], Callable[[str], str]], Iterable[RenderableType]],
) -> RenderableType:
    """Below the name of each host its parts; of one that could not be read the reason.

    ``parts`` is given a host's name, what was read, and what makes a text fit to be shown.
    """

    def text(line: str) -> str:
        return printable(redactor(line))

    found: list[RenderableType] = []
    for name, one in hosts.items():
        if isinstance(one, KlopsError):
            found += failed_host(name, one, redactor)
        else:
            found += [Text(text(name), style="bold"), *parts(name, one, text)]
    return Group(*found)


def fleet_view(
    hosts: Mapping[str, Mapping[str, Any] | KlopsError],
    redactor: Callable[[str], str],
    *,
    now: float | None = None,
) -> RenderableType:
    """All hosts, those that could not be read with the reason."""
    at = time.time() if now is None else now
    parts: list[RenderableType] = []
    for name, status in hosts.items():
        if isinstance(status, KlopsError):
            parts += failed_host(name, status, redactor)
        else:
            parts.append(host_view(name, status, now=at))
    return Group(*parts)
