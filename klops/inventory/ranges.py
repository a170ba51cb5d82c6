"""Ranges in host names: ``host[01:08]``, ``rack[a:c]-[1:9:2]``."""

from __future__ import annotations

import itertools
import re
import string

_RANGE = re.compile(r"\[([^\[\]:]*):([^\[\]:]*)(?::([^\[\]:]*))?\]")
#: more names than this in one pattern is a slip of the keyboard
LIMIT = 100_000


def expand(pattern: str) -> list[str]:
    """All names that ``pattern`` stands for, in order; a pattern without a range stands for itself.

    As in Ansible both ends are included, a missing start is 0, leading zeros give the width and a step may
    follow. Raises ``ValueError`` that says what is wrong.
    """
    pieces = _RANGE.split(pattern)
    # split gives text, start, end, step, text, start, ...
    choices: list[list[str]] = []
    for at in range(0, len(pieces) - 1, 4):
        choices.append([pieces[at]])
        choices.append(_one(pieces[at + 1], pieces[at + 2], pieces[at + 3]))
    choices.append([pieces[-1]])
    if any(character in text for text in pieces[::4] for character in "[]"):
        raise ValueError("a range is written [FIRST:LAST] or [FIRST:LAST:STEP]")
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > LIMIT:
        raise ValueError(f"the range stands for {count} names, more than {LIMIT}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _one(start: str, end: str, step: str | None) -> list[str]:
    if not end:
        raise ValueError("a range needs its last value")
    if step is not None and not (step.isascii() and step.isdigit() and int(step)):
        raise ValueError(f"the step {step!r} of a range is no whole number above 0")
    every = int(step or 1)
    letters = string.ascii_letters
    if start in letters and end in letters and len(start) == len(end) == 1:
        first, last = letters.index(start), letters.index(end)
        if first > last:
            raise ValueError(f"the range {start}:{end} runs backwards")
        return list(letters[first : last + 1 : every])
    start = start or "0"
    if not (start.isascii() and start.isdigit() and end.isascii() and end.isdigit()):
        raise ValueError(f"the range {start}:{end} is neither of numbers nor of letters")
    padded = start.startswith("0") and len(start) > 1
    if padded and len(start) != len(end):
        raise ValueError(f"the range {start}:{end} must be of one width when its start has leading zeros")
    if int(start) > int(end):
        raise ValueError(f"the range {start}:{end} runs backwards")
    if int(end) - int(start) > LIMIT * every:
        raise ValueError(f"the range {start}:{end} stands for more than {LIMIT} names")
    width = len(start) if padded else 0
    return [str(number).zfill(width) for number in range(int(start), int(end) + 1, every)]
