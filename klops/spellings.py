"""The spellings in which a value turns up in text: quoted, escaped, encoded, one within the other. Pure.

All of them are made character by character, so that a value is spelled the same whatever stands around it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable

#: How many quotings deep a value is looked for: a shell command in JSON in a message with ``repr``.
DEPTH = 3
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


def _repr(text: str) -> str:
    """As within ``repr`` of a text that is written in double quotes."""
    return "".join(repr(character)[1:-1] for character in text)


#: what quoting does to a part of what it quotes
QUOTINGS: tuple[Callable[[str], str], ...] = (
    lambda text: text.replace("'", "'\"'\"'"),  # shlex.quote
    lambda text: text.replace("'", "'\\''"),  # a shell's own, as with set -x
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    _repr,
    lambda text: _repr(text).replace("'", "\\'"),  # the same in single quotes
)


def quoted(value: str, depth: int = DEPTH) -> set[str]:
    """``value`` in every quoting within a quoting, ``depth`` deep; the value itself among them."""
    found, latest = {value}, {value}
    for _ in range(depth):
        latest = {quote(text) for text in latest for quote in QUOTINGS} - found
        found |= latest
    return found


def literal(value: str) -> set[str]:
    """Every spelling of ``value`` that is one text: quoted, and in base64 whatever comes before and after."""
    found = quoted(value)
    for text in quoted(value, 1):
        found |= _base64(text)
    return found


def _base64(text: str) -> set[str]:
    """What of ``text`` in base64 doesn't depend on its neighbours, at each of three alignments."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # a lone surrogate that no byte gave
        data = text.encode("utf-8", "surrogatepass")
    found = set()
    for shift in range(3):
        # six bits a character: the first and the last may hold bits of a neighbour
        first, end = -(-8 * shift // 6), 8 * (shift + len(data)) // 6
        core = base64.b64encode(b"\0" * shift + data).decode()[first:end]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return found


def url_patterns(value: str) -> set[str]:
    """Regular expressions for ``value`` in a URL or a form; none where that changes nothing.

    Programs differ in the characters they leave alone and in upper or lower case, and some encode twice.
    """
    return {
        "".join(map(_url_character, text)) for text in quoted(value, 1) if not _UNRESERVED.issuperset(text)
    }


def _url_character(character: str) -> str:
    if character in _UNRESERVED:
        return re.escape(character)
    octets = "".join(f"%(?:25)*{_hex(octet)}" for octet in character.encode("utf-8", "surrogatepass"))
    plus = r"|\+" if character == " " else ""
    # encoded first: of "%25" the "%" alone would be a match too
    return f"(?:{octets}|{re.escape(character)}{plus})"


def _hex(octet: int) -> str:
    return "".join(f"[{digit}{digit.lower()}]" if digit.isalpha() else digit for digit in f"{octet:02X}")
