"""Bandwidth over message size, laid out for a drawing: where each line, tick and name goes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.ui.doctor.measured import Measured, measured, size_text
from klops.ui.status import ranges

#: The drawing and its margins, in units of its own; the right one is for names.
_WIDTH, _HEIGHT = 720.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 150.0, 14.0, 40.0
#: Height of a line of text.
_LINE = 14.0


@dataclass(frozen=True)
class Series:
    """GB/s by bytes. ``kind`` is its class in the style: all, group, pair, bad or learned."""

    label: str
    kind: str
    values: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Drawn:
    """A series where it is drawn, as x and y."""

    label: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Mark:
    """A text at a place on one axis."""

    at: float
    label: str
    kind: str = ""


@dataclass(frozen=True)
class Chart:
    """All that is drawn, y downward."""

    title: str
    rows: Sequence[Mark]
    columns: Sequence[Mark]
    lines: Sequence[Drawn]
    names: Sequence[Mark]
    width: float = _WIDTH
    height: float = _HEIGHT
    left: float = _LEFT
    right: float = _WIDTH - _RIGHT
    bottom: float = _HEIGHT - _BOTTOM


def series(found: Mapping[str, Any]) -> list[Series]:
    """One for each group that was measured, pairs first: what matters is drawn over them."""
    by_cards: dict[tuple[int, ...], list[Measured]] = {}
    for one in measured(found):
        by_cards.setdefault(one.cards, []).append(one)
    status = {frozenset((pair["a"], pair["b"])): pair.get("status") for pair in found.get("pairs") or ()}
    most = max(map(len, by_cards), default=0)
    seen = [
        Series(
            f"cards {ranges(cards)}",
            _kind(cards, most, str(status.get(frozenset(cards)) or several[0].status)),
            [(one.bytes, one.algbw) for one in several],
        )
        for cards, several in by_cards.items()
    ]
    return [*seen, *_learned(found, most)]


def _kind(cards: tuple[int, ...], most: int, status: str) -> str:
    if status != "ok":
        return "bad"
    if len(cards) == 2 and most > 2:
        return "pair"
    return "all" if len(cards) == most else "group"


def _learned(found: Mapping[str, Any], ranks: int) -> list[Series]:
    """What was learned of a group of so many cards."""
    baseline = found.get("baseline") or {}
    values = sorted((int(size), float(gbps)) for size, gbps in (baseline.get(str(ranks)) or {}).items())
    return [Series(f"learned, {ranks} cards", "learned", values)] if values else []


def chart(found: Mapping[str, Any], title: str) -> Chart | None:
    """The drawing; None where nothing was measured. Bytes on a logarithmic axis, GB/s on a linear one."""
    drawn = series(found)
    sizes = sorted({size for one in drawn for size, _ in one.values})
    if not sizes:
        return None
    top = _ceiling(max(gbps for one in drawn for _, gbps in one.values))
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def x(size: int) -> float:
        part = (math.log2(size) - low) / (high - low) if high > low else 0.5
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(gbps: float) -> float:
        return round(_HEIGHT - _BOTTOM - gbps / top * (_HEIGHT - _TOP - _BOTTOM), 1)

    return Chart(
        title,
        [Mark(y(top * part / 4), f"{top * part / 4:g}") for part in range(5)],
        _apart([Mark(x(size), size_text(size)) for size in sizes], 30.0),
        [Drawn(one.label, one.kind, [(x(size), y(gbps)) for size, gbps in one.values]) for one in drawn],
        _names(drawn, y),
    )


def _ceiling(value: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)


def _apart(marks: Sequence[Mark], least: float) -> list[Mark]:
    """Those that have room, from the left."""
    kept: list[Mark] = []
    for mark in marks:
        if not kept or mark.at - kept[-1].at >= least:
            kept.append(mark)
    return kept


def _names(drawn: Sequence[Series], y: Callable[[float], float]) -> list[Mark]:
    """Names beside the right ends, none over another; the many sound pairs have one name together."""
    pairs = sorted(one.values[-1][1] for one in drawn if one.kind == "pair")
    wanted = [Mark(y(one.values[-1][1]) + 4, one.label, one.kind) for one in drawn if one.kind != "pair"]
    if pairs:
        label = f"{len(pairs)} sound pairs" if len(pairs) > 1 else "1 sound pair"
        wanted.append(Mark(y(pairs[len(pairs) // 2]) + 4, label, "pair"))
    named: list[Mark] = []
    for mark in sorted(wanted, key=lambda mark: mark.at):
        at = max(mark.at, named[-1].at + _LINE) if named else mark.at
        if at > _HEIGHT - 4:
            break
        named.append(Mark(round(at, 1), mark.label, mark.kind))
    return named
