"""Filters and tests for numbers, sizes and chance."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from klops.playbook.template.filters.given import kind, number, text, wrong

#: letter of a size -> the power of 1024
_UNITS = {letter: power for power, letter in enumerate("BKMGTPEZY")}
_SIZE = re.compile(r"\s*(?P<number>\d*\.?\d+)\s*(?P<unit>[A-Za-z]*)\s*")


def log(value: Any, base: Any = math.e) -> float:
    """The logarithm, the natural one by default."""
    given = number("log", value)
    if base == 10:
        return math.log10(given)
    return math.log(given, number("log", base))


def power(value: Any, y: Any) -> float:
    """The number to the power of ``y``."""
    return math.pow(number("pow", value), number("pow", y))


def root(value: Any, base: Any = 2) -> float:
    """The square root, or the one of ``base``."""
    given = number("root", value)
    return math.sqrt(given) if base == 2 else math.pow(given, 1.0 / number("root", base))


def human_readable(value: Any, isbits: bool = False, unit: str | None = None) -> str:
    """A number of bytes (or bits) with a unit: ``1.00 KB``."""
    given = number("human_readable", value)
    letter = "B"
    for candidate in reversed(_UNITS):
        if unit.upper() == candidate if unit else given >= 1024 ** _UNITS[candidate]:
            letter = candidate
            break
    name = "b" if isbits else "B"
    suffix = ("bits" if isbits else "Bytes") if letter == "B" else letter + name
    return f"{given / 1024 ** _UNITS[letter]:.2f} {suffix}"


def human_to_bytes(value: Any, default_unit: str | None = None, isbits: bool = False) -> int:
    """The number that ``10G``, ``1.5 MB`` (or ``1Kb``, bits) mean; ``default_unit`` for one without unit."""
    match = _SIZE.fullmatch(text(value))
    if match is None:
        raise wrong(f"human_to_bytes: {text(value)!r} is no size such as 10G")
    unit = match["unit"] or default_unit or "B"
    letter, rest = unit[0].upper(), unit[1:]
    whole = ("b", "bit", "bits") if isbits else ("B", "Byte", "Bytes", "byte", "bytes")
    if letter not in _UNITS or (rest not in ("", *whole) and unit not in whole):
        raise wrong(f"human_to_bytes: {unit!r} is no unit: write {'Kb' if isbits else 'KB'} or K")
    scale: int = 1 << 10 * _UNITS[letter]
    return round(float(match["number"]) * scale)


def chosen(value: Any, start: int | None = None, step: int | None = None, seed: Any = None) -> Any:
    """A number below the value, or one of a list's items, by chance; the same one for the same ``seed``."""
    source = Random(seed)  # noqa: S311 - nothing secret is made with it
    if isinstance(value, int):
        return source.randrange(start or 0, value, step or 1)
    if not isinstance(value, Sequence):
        raise wrong(f"random takes a number or a list, not {kind(value)}")
    if start or step:
        raise wrong("random: start and step go with a number")
    return source.choice(value)


def shuffle(value: Any, seed: Any = None) -> list[Any]:
    """The items in an order of chance; a ``seed`` makes it the same each time."""
    try:
        items = list(value)
    except TypeError:
        raise wrong(f"shuffle takes a list, not {kind(value)}") from None
    Random(seed).shuffle(items)  # noqa: S311 - nothing secret is made with it
    return items


def is_nan(value: Any) -> bool:
    """Whether it is the number that is none."""
    return math.isnan(number("nan", value))


FILTERS: dict[str, Callable[..., Any]] = {
    "human_readable": human_readable,
    "human_to_bytes": human_to_bytes,
    "log": log,
    "pow": power,
    "random": chosen,
    "root": root,
    "shuffle": shuffle,
}
TESTS: dict[str, Callable[..., bool]] = {"isnan": is_nan, "nan": is_nan}
