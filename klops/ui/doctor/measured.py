"""What was measured: one value a test and size, and what nccl-tests would print of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from klops.cards.xccl import bandwidth


@dataclass(frozen=True)
class Measured:
    """One size of one test of several cards. ``algbw`` and ``busbw`` in GB/s, as nccl-tests define them."""

    cards: tuple[int, ...]
    status: str
    bytes: int
    us: float
    spread_us: float
    rounds: int
    wrong: int
    nan: int

    @property
    def algbw(self) -> float:
        """Bytes of one rank over time."""
        return bandwidth.algorithm(self.bytes, self.us)

    @property
    def busbw(self) -> float:
        """What an all-reduce of so many ranks asks of the links."""
        return bandwidth.bus(self.algbw, len(self.cards))


def measured(found: Mapping[str, Any]) -> list[Measured]:
    """All that has a time, by number of cards, cards and size."""
    return sorted(_measured(found), key=lambda one: (len(one.cards), one.cards, one.bytes))


def _measured(found: Mapping[str, Any]) -> Iterator[Measured]:
    for test in found.get("outcomes") or ():
        for sample in test.get("samples") or ():
            if len(test["cards"]) > 1 and sample.get("us"):
                yield Measured(
                    tuple(test["cards"]),
                    str(test.get("status")),
                    int(sample["bytes"]),
                    float(sample["us"]),
                    float(sample.get("spread_us") or 0),
                    int(sample.get("rounds") or 0),
                    int(sample.get("wrong") or 0),
                    int(sample.get("nan") or 0),
                )


def size_text(size: float) -> str:
    """A message size for people: ``64K``, ``2.5M``, ``256M``; K, M and G are powers of 1024.

    >>> size_text(65536), size_text(2_600_000), size_text(268435456)
    ('64K', '2.5M', '256M')
    """
    units = ["", "K", "M", "G"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    unit = units[0]
    return f"{size:.0f}{unit}" if size >= 10 or size == int(size) else f"{size:.1f}{unit}"


@dataclass(frozen=True)
class Scanned:
    """One size of a scan: an all-reduce of so many ranks, in the units of :class:`Measured`."""

    ranks: int
    bytes: int
    us: float
    algbw: float
    busbw: float
    wrong: int


def scan_rows(found: Mapping[str, Any]) -> list[Scanned]:
    """The table of ranks and sizes that ``--scan`` asks for."""
    return [
        Scanned(
            int(row["world"]),
            int(row["bytes"]),
            float(row["us"]),
            float(row["algbw"]),
            float(row["busbw"]),
            int(row.get("wrong") or 0),
        )
        for row in found.get("scan") or ()
    ]
