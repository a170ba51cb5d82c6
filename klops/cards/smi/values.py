"""Single values of what xpu-smi prints."""

from __future__ import annotations

import re

# "36 C", "350.00 W", "16x", and not "0x01"
_NUMBER = re.compile(r"^\s*(\d+)(?:\.\d+)?(?:x\b|\b)")
#: What stands where there is no value.
_NOTHING = ("n/a", "none", "invalid argument")


def said(value: str) -> str:
    """A value that says something, "" for one that stands where there is none.

    >>> said("N/A")
    ''
    """
    return "" if value.strip().lower() in _NOTHING else value


def number(text: str) -> int | None:
    """The whole part of the number that a value begins with; None where it begins with none.

    >>> number("350.00 W")
    350
    """
    match = _NUMBER.match(text)
    return int(match.group(1)) if match else None
