"""Output of verbs that go on for long, and whether somebody still reads it.

``docker exec`` doesn't end what it started when its client ends: such a verb has to notice that itself.
"""

from __future__ import annotations

import os
import select
from typing import Callable


def write(data: bytes) -> bool:
    """Write all of it to standard output; whether somebody read it."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return False
    return True


def line() -> str:
    """The first line of standard input, and nothing of what follows it."""
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(0, 1)
        if not part:
            break
        data += part
    return data.decode("utf-8", "replace")


def watch(while_stdin: bool) -> Callable[[float], bool]:
    """A function that waits some seconds and tells whether the reader is gone, at once when it goes.

    It is gone when the pipe of standard output has no other end any more; with ``while_stdin`` also when
    standard input has come to its end.
    """
    poll = select.poll()
    poll.register(1, 0)  # POLLERR comes unasked
    if while_stdin:
        poll.register(0, select.POLLIN)

    def gone(seconds: float) -> bool:
        return any(
            fd == 1 or events & ~select.POLLIN or not os.read(0, 4096)
            for fd, events in poll.poll(seconds * 1000)
        )

    return gone
