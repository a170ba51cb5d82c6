"""What must be known of a command line before it is parsed, since parsing may be what fails. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import pairwise

from klops.secret import MASK

#: The words of the command line that is being carried out, the program's name aside.
typed: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
#: -e alone, with its value in the same word, or behind other short options that take none
_EXTRA = re.compile(r"(-[A-Za-z]*?e|--extra-vars=?)(.*)", re.DOTALL)
_VALUE = re.compile(r"(?<==)(?:'[^']*'|\"[^\"]*\"|\S)+")


def _own(argv: Sequence[str]) -> list[str]:
    """The words before ``--``: what follows belongs to another program."""
    return list(argv[: argv.index("--")]) if "--" in argv else list(argv)


def wants_json(argv: Sequence[str]) -> bool:
    """Whether ``-o json`` stands on the line."""
    return any(
        (word in ("-o", "--output") and value.lower() == "json")
        or word.lower() in ("-ojson", "--output=json")
        for word, value in pairwise([*_own(argv), ""])
    )


def verbosity(argv: Sequence[str]) -> int:
    """How often ``-v`` stands on the line."""
    count = 0
    for word in _own(argv):
        if word == "--verbose":
            count += 1
        elif word.startswith("-v") and set(word) == {"-", "v"}:
            count += len(word) - 1
    return count


def masked(argv: Sequence[str], redactor: Callable[[str], str]) -> list[str]:
    """The words with known secrets masked, and every value of ``-e``: nobody knows which of them are secrets.

    >>> masked(["up", "h1", "-e", "key=abc n=1", "-e@vars.yml"], str)
    ['up', 'h1', '-e', 'key=******** n=********', '-e@vars.yml']
    """
    shown, value_next = [], False
    own = len(_own(argv))
    for number, word in enumerate(argv):
        option = _EXTRA.fullmatch(word) if number < own else None
        if value_next:
            shown.append(_without_values(word))
        elif option is not None:
            shown.append(option[1] + _without_values(option[2]))
        else:
            shown.append(word)
        value_next = not value_next and option is not None and not option[2] and not option[1].endswith("=")
    return [redactor(word) for word in shown]


def _without_values(text: str) -> str:
    """What ``-e`` was given, values masked: names, files and their order stay."""
    if not text or text.startswith("@"):
        return text
    return MASK if text.lstrip()[:1] in ("{", "[") else _VALUE.sub(MASK, text)


def usage_hint(argv: Sequence[str]) -> str:
    """What to do about a line that could not be parsed; "" when the parser's own words will do."""
    if argv[:1] == ["exec"] and "--" not in argv:
        return "write -- before the command, as in: klops exec p800-01 -- ls -l /"
    return ""
