"""Lines of the audit logs: what a run did, in few words. Pure.

A line is JSON: ``{"at": seconds since the epoch, "by", "event", ...}``. The host's is ``ROOT/audit.jsonl``,
where the agent writes its own; the control side's is one file a user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.secret import MASK

#: Who a line is by that a run writes; the agent's are by ``supervisor PID``.
BY = "klops"
#: Bytes after which a log becomes ``audit.jsonl.1``, in place of the one before: as the agent has it.
LONGEST = 16 << 20
#: Bytes that the tasks of a line may take: with its head it stays below 4096, which a shell writes at once.
ROOM = 3000
#: Bytes that the changes of one task may take, and characters of a single text.
TASK_ROOM = 1200
TEXT = 200
#: A name that says of its value that it is nobody's business.
_TELLING = r"[\w.-]*(?:TOKEN|KEY|SECRET|PASS(?:WORD|WD)?)[\w.-]*"
_GIVEN = re.compile(rf"({_TELLING}=)('[^']*'|\"[^\"]*\"|[^\s'\"]+)", re.IGNORECASE)
_ALONE = re.compile(rf"{_TELLING}=", re.IGNORECASE)
_OPTION = re.compile(rf"-{_TELLING}", re.IGNORECASE)


@dataclass(frozen=True)
class RunNotes:
    """What is noted on a host of a run that changes it: when it begins, and (asked then) when it ends."""

    begun: Mapping[str, Any]
    ended: Callable[[], Mapping[str, Any]]


def log_of(root: str) -> str:
    """The log of a host."""
    return f"{root}/audit.jsonl"


def body(event: str, who: Mapping[str, str], fields: Mapping[str, Any]) -> str:
    """A line but for the time, which the host's own clock gives: what comes after ``{"at": N, ``."""
    return json.dumps({"by": BY, "event": event, **who, **fields})[1:]


def task(name: str, outcome: str, changes: Sequence[str], seconds: float, error: str = "") -> dict[str, Any]:
    """One task as both logs keep it; the changes that there is no room for are counted."""
    failed = {"error": short(error)} if error else {}
    texts = fitting([short(text) for text in changes], TASK_ROOM)
    return {
        "task": short(name),
        "outcome": outcome,
        "changes": texts,
        **failed,
        "seconds": round(seconds, 3),
    }


def masked(words: Sequence[str]) -> list[str]:
    """A command line without the values that its own names call secret.

    >>> masked(["serve", "--api-key", "abc", "--token=abc", "sh", "-c", "A=1 HF_TOKEN='a b' run"])
    ['serve', '--api-key', '********', '--token=********', 'sh', '-c', 'A=1 HF_TOKEN=******** run']
    """
    shown: list[str] = []
    secret = False
    for word in words:
        named = _OPTION.fullmatch(word) is not None
        begins = _ALONE.match(word)
        if secret and not named:
            shown.append(MASK)
        else:
            shown.append(begins[0] + MASK if begins else _GIVEN.sub(rf"\1{MASK}", word))
        secret = named
    return shown


def short(text: str) -> str:
    """The text, or its beginning.

    >>> short("x" * 300) == "x" * 197 + "..."
    True
    """
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."


def fitting(items: Sequence[Any], room: int) -> list[Any]:
    """As many as fit in ``room`` bytes of JSON; the others are one text.

    >>> fitting(["one", "two", "three"], 14)
    ['one', 'two', 'and 1 more']
    """
    for number, item in enumerate(items):
        room -= len(json.dumps(item)) + 2
        if room < 0:
            return [*items[:number], f"and {len(items) - number} more"]
    return list(items)
