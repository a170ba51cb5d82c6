"""The matrix of pairs: what stands in each field, and how good that is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

#: Status of a pair -> its word where there is little room, and its letter where there is less.
WORDS: Mapping[str, tuple[str, str]] = {
    "wrong": ("wrong", "W"),
    "flaky": ("flaky", "F"),
    "timeout": ("hangs", "H"),
    "error": ("error", "E"),
}
LEGEND: Mapping[str, str] = {
    "wrong": "a wrong sum",
    "flaky": "fails now and then",
    "timeout": "does not end in time",
    "error": "ends with an error",
    "slow": "slow beside its peers",
}
#: Bandwidth beside the median of all pairs, at least: what counts as usual, and what is near it.
GOOD, FAIR = 0.95, 0.85


def explained(status: str, *, short: bool = False) -> str:
    """What the word, or with ``short`` the letter, of a status stands for."""
    word = "~" if status == "slow" else WORDS[status][1 if short else 0]
    return f"{word}: {LEGEND[status]}"


@dataclass(frozen=True)
class Field:
    """One pair. ``heat``: bandwidth as a part of the median of all pairs that are right; None without one."""

    a: int
    b: int
    status: str
    gbps: float | None
    heat: float | None
    reason: str
    runs: int
    failures: int

    @property
    def right(self) -> bool:
        """Whether its values are right, at whatever speed."""
        return self.status in ("ok", "slow")

    @property
    def look(self) -> str:
        """One word for how it is to look: good, fair or poor by its heat, or what is wrong with it."""
        if self.status == "ok":
            return (
                "good" if self.heat is None or self.heat >= GOOD else "fair" if self.heat >= FAIR else "poor"
            )
        return self.status if self.status in (*WORDS, "slow") else "none"

    @property
    def short(self) -> str:
        """What is written where there is room for seven characters."""
        return speed(self)

    @property
    def told(self) -> str:
        """What there is to say of it."""
        often = f" ({self.failures} of {self.runs} runs failed)" if self.runs > 1 else ""
        return f"{self.status}{often}{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True)
class Matrix:
    """All pairs of the cards that were tested with another."""

    cards: tuple[int, ...]
    fields: Mapping[tuple[int, int], Field]

    def at(self, one: int, other: int) -> Field | None:
        """The pair of two cards, in whatever order; None where there is none."""
        return self.fields.get((min(one, other), max(one, other)))

    @property
    def statuses(self) -> list[str]:
        """The statuses that occur, those that are to be explained."""
        seen = {field.status for field in self.fields.values()}
        return [status for status in LEGEND if status in seen]

    @property
    def legend(self) -> list[str]:
        """What the words stand for."""
        return [explained(status) for status in self.statuses]

    @property
    def remarks(self) -> list[str]:
        """A line for all pairs of which there is the same to say, as they do not do well."""
        alike: dict[str, list[str]] = {}
        for field in self.fields.values():
            if field.reason and field.status != "ok":
                alike.setdefault(field.told, []).append(f"{field.a}-{field.b}")
        return [
            f"pair{'s' if len(pairs) > 1 else ''} {' '.join(pairs)}: {told}" for told, pairs in alike.items()
        ]


def matrix(found: Mapping[str, Any]) -> Matrix | None:
    """The matrix of what was found on a host; None where no pair was tested."""
    pairs: Sequence[Mapping[str, Any]] = found.get("pairs") or ()
    if not pairs:
        return None
    speeds = [pair["gbps"] for pair in pairs if pair.get("gbps") and pair.get("status") in ("ok", "slow")]
    usual = median(speeds) if speeds else 0.0
    fields = {}
    for pair in pairs:
        low, high = sorted((int(pair["a"]), int(pair["b"])))
        gbps = pair.get("gbps")
        fields[low, high] = Field(
            a=low,
            b=high,
            status=str(pair.get("status")),
            gbps=gbps,
            heat=gbps / usual if gbps is not None and usual else None,
            reason=str(pair.get("reason") or ""),
            runs=int(pair.get("runs") or 0),
            failures=int(pair.get("failures") or 0),
        )
    return Matrix(tuple(sorted({card for key in fields for card in key})), fields)


def speed(field: Field, *, short: bool = False) -> str:
    """What is written for a pair: its bandwidth, or what is wrong; ``short`` in at most three characters."""
    if not field.right:
        word = WORDS.get(field.status, (field.status, "?"))
        return word[1] if short else word[0]
    mark = "~" if field.status == "slow" else ""
    if field.gbps is None:
        return "slow" if mark else "ok"
    return f"{field.gbps:.0f}{mark}" if short or field.gbps >= 100 else f"{field.gbps:.1f}{mark}"
