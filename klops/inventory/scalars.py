"""Typed readings of one written value: exactly what stands in the file, or refused.

A function here takes a :class:`~klops.yamlsource.ScalarNode` (from a file), a plain Python value (from a
template or a program) or None, and returns the typed value or raises ``PydanticCustomError`` whose context
may hold a hint. Numbers are read from their digits: ``0x1F40``, ``8_000`` and ``22:22`` are no whole numbers
here, although YAML 1.1 makes some of them.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pydantic_core import PydanticCustomError

from klops import crontimes
from klops.yamlsource import ScalarNode

T = TypeVar("T")

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_DURATION = re.compile(r"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: as docker reads --shm-size (go-units RAMInBytes)
_SIZE = re.compile(r"[0-9]+(?:\.[0-9]+)?[kmgtp]?(?:i?b)?", re.IGNORECASE)
_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")


def refuse(message: str, hint: str = "") -> NoReturn:
    """Refuse a value: ``message`` says what was expected, ``hint`` what to write instead."""
    # the message goes in as context: braces in it must not be taken for a format
    raise PydanticCustomError("klops", "{message}", {"message": message, "hint": hint})


def written(value: Any, expected: str) -> str:
    """The value's text; refuses nothing at all, lists and mappings."""
    if isinstance(value, ScalarNode):
        text = value.text
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    elif value is None:
        refuse(
            f"expected {expected}, found nothing", 'write "" for an empty text' if expected == "text" else ""
        )
    else:
        kind = (
            "a mapping"
            if isinstance(value, dict)
            else "a list"
            if isinstance(value, list)
            else "another type"
        )
        refuse(f"expected {expected}, found {kind}")
    if "{{" in text or "{%" in text:
        refuse("templates are not supported in klops settings", "write the value itself")
    return text


def text(value: Any) -> str:
    """Text, as written: ``1.10`` stays ``1.10``, ``no`` stays ``no``."""
    return written(value, "text")


def name(value: Any) -> str:
    """Text that is not empty."""
    found = text(value)
    if not found.strip():
        refuse("expected text, found an empty one")
    return found


def whole(value: Any) -> int:
    """A whole number in decimal digits, quoted or not."""
    found = written(value, "a whole number")
    if not _WHOLE.fullmatch(found):
        refuse(f"expected a whole number, found {found!r}", "write decimal digits only, such as 8000")
    return int(found)


def flag(value: Any) -> bool:
    """True or false in the words of YAML 1.1, quoted or not."""
    found = written(value, "true or false").lower()
    if found in _TRUE:
        return True
    if found in _FALSE:
        return False
    refuse(f"expected true or false, found {found!r}")


def seconds(value: Any) -> float:
    """A duration in seconds: a number, or a number with one unit of ms, s, m, h, d (``90s``, ``24h``)."""
    found = written(value, "a duration")
    if _NUMBER.fullmatch(found):
        return float(found)
    if match := _DURATION.fullmatch(found):
        return float(match[1]) * _SECONDS[match[2]]
    refuse(f"expected a duration, found {found!r}", "write seconds, or a number with one unit: 90s, 30m, 24h")


def positive_seconds(value: Any) -> float:
    """A duration above nothing."""
    found = seconds(value)
    if not (found > 0 and math.isfinite(found)):
        refuse("expected a duration above 0")
    return found


def size(value: Any) -> str:
    """An amount of memory as docker writes it: ``32g``, ``512m``; kept as text."""
    found = written(value, "a size")
    if not _SIZE.fullmatch(found):
        refuse(f"expected a size, found {found!r}", "write a number with a unit: 32g, 512m")
    return found


def absolute(value: Any) -> str:
    """An absolute path on the host or in the container."""
    found = written(value, "an absolute path")
    if not found.startswith("/"):
        refuse(f"expected an absolute path, found {found!r}", "start it with /")
    return found


def within(value: Any) -> str:
    """A path below a folder that is known by itself, without needless parts: ``a/./b`` is ``a/b``."""
    found = name(value)
    plain = posixpath.normpath(found)
    if found.startswith("/") or plain.split("/", 1)[0] in ("..", "."):
        refuse(f"expected a path below the folder, found {found!r}", "write it without a leading / and ..")
    return plain


def file_within(value: Any) -> str:
    """A file below a folder that is known by itself; the folder's own path may stand before it."""
    found = name(value)
    return posixpath.normpath(found) if found.startswith("/") else within(value)


def schedule(value: Any) -> str:
    """When a line of a crontab runs: five fields, or one word such as ``@daily``; spaces made single."""
    found = written(value, "a schedule")
    try:
        crontimes.parse(found)
    except ValueError as error:
        refuse(str(error), 'write five fields of cron, such as "*/10 * * * *", or @hourly')
    return " ".join(found.split())


def folder(value: Any) -> str:
    """An absolute path without needless parts, of a folder that docker can mount; the top one is none."""
    found = absolute(value)
    if ":" in found or any(character < " " for character in found):
        refuse(
            f"expected a folder that docker can mount, found {found!r}", "write it without : and line breaks"
        )
    plain = "/" + posixpath.normpath(found).lstrip("/")
    if plain == "/":
        refuse("expected a folder of klops' own, found /", "such as /var/lib/klops")
    return plain


def link_place(value: Any) -> str:
    """An absolute path in the container at which a link can be made, without needless parts.

    ``..`` is refused: behind a link it leads elsewhere than it reads.
    """
    found = absolute(value)
    if ".." in found.split("/") or any(character < " " for character in found):
        refuse(f"expected an absolute path, found {found!r}", "write it without .. and line breaks")
    plain = "/" + posixpath.normpath(found).lstrip("/")
    if plain == "/":
        refuse("expected a folder below /, found /", "such as /workspace/vllm")
    return plain


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """The same reading, where null means that nothing is set."""
    return lambda value: None if value is None else read(value)


def between(low: int, high: int) -> Callable[[Any], int]:
    """A whole number from ``low`` to ``high``, both included."""

    def read(value: Any) -> int:
        found = whole(value)
        if not low <= found <= high:
            refuse(f"expected a whole number from {low} to {high}, found {found}")
        return found

    return read


def matching(pattern: str, expected: str, hint: str = "") -> Callable[[Any], str]:
    """Text that matches ``pattern`` as a whole."""
    compiled = re.compile(pattern)

    def read(value: Any) -> str:
        found = written(value, expected)
        if not compiled.fullmatch(found):
            refuse(f"expected {expected}, found {found!r}", hint)
        return found

    return read


def one_of(*words: str) -> Callable[[Any], str]:
    """One of ``words``."""

    def read(value: Any) -> str:
        expected = ", ".join(words[:-1]) + f" or {words[-1]}"
        found = written(value, expected)
        if found not in words:
            refuse(f"expected {expected}, found {found!r}")
        return found

    return read
