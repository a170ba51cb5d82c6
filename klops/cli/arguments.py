"""What must be known of a command line before it is parsed, since parsing may be what fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


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


def usage_hint(argv: Sequence[str]) -> str:
    """What to do about a line that could not be parsed; "" when the parser's own words will do."""
    if argv[:1] == ["exec"] and "--" not in argv:
        return "write -- before the command, as in: klops exec p800-01 -- ls -l /"
    return ""
