"""File modes as they are written: octal digits, or symbols such as ``u=rw,go=r`` that say what to change.

>>> oct(applied(parse("u+x,go-w"), 0o664, is_dir=False))
'0o744'
>>> oct(applied(parse("0644"), 0o777, is_dir=True))
'0o644'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What a host's umask is taken to be where a clause names nobody (``+x``).
UMASK = 0o022

_OCTAL = re.compile(r"0?o?([0-7]{3,4})")
_CLAUSE = re.compile(r"(?P<who>[ugoa]*)(?P<changes>(?:[-+=](?:[rwxXst]*|[ugo]))+)")
_CHANGE = re.compile(r"([-+=])([rwxXst]*|[ugo])(?=[-+=]|$)")
#: who -> how far its three bits are to the left, and its bit among setuid, setgid and sticky
_PLACES = {"u": (6, 0o4000), "g": (3, 0o2000), "o": (0, 0o1000)}
_BITS = {"r": 4, "w": 2, "x": 1}


class ModeError(ValueError):
    """A text that is no file mode."""


@dataclass(frozen=True)
class SymbolicMode:
    """Changes to the mode that is there."""

    text: str

    def applied(self, current: int, is_dir: bool, umask: int = UMASK) -> int:
        """Permission bits for what has the bits ``current`` (of a file that doesn't exist yet: what it gets).

        ``X`` is ``x`` for a folder and for what somebody may execute already. A clause that names nobody is
        for everybody, less ``umask``. Who is copied from (``g=u``) counts as before the clause, as in chmod.
        """
        bits = current
        for clause in self.text.split(","):
            match = _CLAUSE.fullmatch(clause)
            assert match is not None  # noqa: S101 - parse() looked
            who = match["who"].replace("a", "ugo") or "ugo"
            kept = 0o7777 if match["who"] else 0o7777 & ~umask
            before = bits
            for operator, letters in _CHANGE.findall(match["changes"]):
                for one in dict.fromkeys(who):
                    bits = _changed(bits, one, operator, _wanted(one, letters, before, is_dir) & kept)
        return bits

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> int | SymbolicMode:
    """A mode of three or four octal digits, or of symbols. Raises :class:`ModeError`."""
    given = text.strip()
    match = _OCTAL.fullmatch(given)
    if match:
        return int(match[1], 8)
    if given and all(_CLAUSE.fullmatch(clause) for clause in given.split(",")):
        return SymbolicMode(given)
    raise ModeError(
        f"{text!r} is not a file mode: write three or four octal digits, such as 0644, "
        "or symbols, such as u=rw,go=r"
    )


def applied(mode: int | SymbolicMode, current: int, is_dir: bool) -> int:
    """The permission bits that ``mode`` asks for where ``current`` are there."""
    return mode if isinstance(mode, int) else mode.applied(current, is_dir)


def _wanted(who: str, letters: str, current: int, is_dir: bool) -> int:
    """The bits that ``letters`` mean for ``who``."""
    place, special = _PLACES[who]
    if letters in _PLACES:
        return (current >> _PLACES[letters][0] & 7) << place
    found = 0
    for letter in letters:
        if letter in _BITS:
            found |= _BITS[letter] << place
        elif letter == "X" and (is_dir or current & 0o111):
            found |= _BITS["x"] << place
        elif letter == ("t" if who == "o" else "s"):
            found |= special
    return found


def _changed(bits: int, who: str, operator: str, wanted: int) -> int:
    if operator == "+":
        return bits | wanted
    if operator == "-":
        return bits & ~wanted
    place, special = _PLACES[who]
    return bits & ~(7 << place | special) | wanted
