"""Text from a host, made harmless for a terminal. Pure."""

from __future__ import annotations

import re

#: ANSI sequences: CSI ... final byte, OSC ... BEL or ST, and two-byte escapes
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """``text`` without escape sequences; other control characters (but tab and newline) become ``?``.

    Bytes from a host may be anything; they must not move the cursor or set the title of the terminal.
    """
    return _CONTROL.sub("?", _ANSI.sub("", text))
