"""Keywords of a play whose values may be templates, of ``-e`` and of the play's own variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from klops.errors import Mistake, SourceErrors, TaskFailed
from klops.playbook.model import Play

SERIAL = 'serial is a number of hosts or a percentage such as "30%"'
PERCENTAGE = "max_fail_percentage is a number from 0 to 100"
#: renders a raw value; raises :class:`TaskFailed`
Render = Callable[[Any], Any]


def resolved(play: Play, render: Render) -> Play:
    """The play with these values as they are. Raises :class:`SourceErrors` for those that can't be meant."""
    return replace(play, serial=serial_of(play, render), max_fail_percentage=max_fail_of(play, render))


def serial_of(play: Play, render: Render) -> tuple[int | str, ...]:
    """``serial`` as numbers and percentages; a template may give one or a list of them."""
    given = [_rendered("serial", raw, play, render) for raw in play.serial]
    values = [item for value in given for item in (value if isinstance(value, list) else [value])]
    try:
        return tuple(batch_size(value) for value in values)
    except ValueError as error:
        raise _wrong(play, SERIAL, f"it gave {error}") from None


def max_fail_of(play: Play, render: Render) -> float | None:
    """``max_fail_percentage`` as a number."""
    value = _rendered("max_fail_percentage", play.max_fail_percentage, play, render)
    try:
        return None if value is None else percentage(value)
    except ValueError as error:
        raise _wrong(play, PERCENTAGE, f"it gave {error}") from None


def batch_size(value: Any) -> int | str:
    """One value of ``serial``: a number, or a percentage as text. Raises :class:`ValueError`."""
    text = "" if isinstance(value, (bool, float)) else str(value).strip()
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
        return int(text)
    if re.fullmatch(r"[0-9]+%", text):
        return text
    raise ValueError(repr(value))


def percentage(value: Any) -> float:
    """A number from 0 to 100, with or without ``%``. Raises :class:`ValueError`."""
    try:
        found = -1.0 if isinstance(value, bool) else float(str(value).strip().removesuffix("%"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 100:
        raise ValueError(repr(value))
    return found


def _rendered(keyword: str, raw: Any, play: Play, render: Render) -> Any:
    try:
        return render(raw)
    except TaskFailed as error:
        raise _wrong(play, f"{keyword}: {error.message}", error.hint) from error


def _wrong(play: Play, message: str, hint: str) -> SourceErrors:
    return SourceErrors([Mistake(play.location, message, hint)])
