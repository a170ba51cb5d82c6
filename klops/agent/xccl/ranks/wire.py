"""What a rank and who asks it say to each other: one JSON object a line, each way over a pipe of its own.

Not over standard input and output: an image's own start-up files print there before a rank says its first
word, and what torch and the libraries below it print is for the log.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Mapping

#: Descriptors that a rank finds at its start: what it says goes to the first, what it is asked comes on the
#: second.
TELL, ASK = 3, 4
#: Where pipes are put meanwhile, so that none lies on a place that another is about to be given.
_ABOVE = 10
#: Bytes of a line: what is longer is no message.
LONGEST = 1 << 20


def line(value: Mapping[str, Any]) -> bytes:
    """One message."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


class Lines:
    """Puts messages together from what arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are whole by now. What is no JSON object is passed over."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        found = []
        for text in whole:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found.append(value)
        return found


def pipe() -> tuple[int, int]:
    """A pipe (read end, write end) that no child inherits, on numbers that no rank's own are among."""
    ends = os.pipe()
    try:
        reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for end in ends)
    finally:
        for end in ends:
            os.close(end)
    return reads, writes
