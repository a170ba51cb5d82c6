"""What filters are given: texts that may be read, and mistakes in what was given."""

from __future__ import annotations

from typing import Any

from jinja2.exceptions import FilterArgumentError
from jinja2.runtime import Undefined

from klops.playbook.template.pending import Pending
from klops.secret import Secret


class Wrong(FilterArgumentError, ValueError):
    """A mistake in what a filter was given; the template's error shows the message alone."""


def wrong(message: str) -> Wrong:
    """The mistake that ``message`` tells of."""
    return Wrong(message)


def text(value: Any) -> str:
    """``value`` as text. A secret is refused: a filter would work on its mask, and give nonsense for it."""
    if isinstance(value, Pending):
        value.fail()
    if isinstance(value, Secret):
        raise wrong("a secret stays hidden: give its value in the form that is wanted, and use it as it is")
    return str(value)


def number(name: str, value: Any) -> float:
    """A number for a filter called ``name``."""
    if isinstance(value, (int, float)):
        return value
    raise wrong(f"{name} takes a number, not {kind(value)}")


def listed(name: str, value: Any) -> list[Any]:
    """The items of anything that can be gone through, for a filter called ``name``."""
    if isinstance(value, Undefined):
        str(value)  # raises UndefinedError
    try:
        return list(value)
    except TypeError:
        raise wrong(f"{name} takes a list, not {kind(value)}") from None


def kind(value: Any) -> str:
    """The type of a value in an author's words: its name in Python."""
    return type(value).__name__
