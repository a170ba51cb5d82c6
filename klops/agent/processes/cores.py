"""Looking at many processes on several cores: nearly all the time is the kernel's, one call after another."""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Callable, List, NoReturn, Sequence

#: Processes that are worth a child, and children at most: more would only wait for each other in the kernel.
_WORTH, _MOST = 500, 3

Look = Callable[[Sequence[int]], Any]


def shared(look: Look, pids: Sequence[int], worth: int = _WORTH) -> List[Any]:
    """What ``look`` gives for parts of ``pids`` that are all of them together; as JSON has it, of all parts.

    In a program of several threads nobody is begotten. A child that fails tells nothing: its part is looked
    at here, and what is wrong comes up. Raises what ``look`` raises.
    """
    parts = max(1, min(len(os.sched_getaffinity(0)), _MOST + 1, len(pids) // worth))
    if threading.active_count() > 1:
        parts = 1  # a child would have the locks of threads that it hasn't
    mine, *others = (list(pids[place::parts]) for place in range(parts))
    children: list[_Child] = []
    try:
        for part in others:
            try:
                child = _Child(look, part)
            except OSError:
                mine += part  # where no process can be started it takes longer, and that is all
            else:
                children.append(child)
        found = [json.loads(json.dumps(look(mine)))]
        return [*found, *(child.answer() for child in children)]
    finally:
        for child in children:
            child.end()


class _Child:
    """One that looks at its part and is gone."""

    def __init__(self, look: Look, part: Sequence[int]) -> None:
        self._look, self._part = look, part
        self._answer, answer = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._answer)
            raise
        else:
            if not self._pid:
                _tell(answer, look, part)
        finally:
            os.close(answer)

    def answer(self) -> Any:
        """What it found."""
        data = b"".join(iter(lambda: os.read(self._answer, 1 << 16), b""))
        pid, self._pid = self._pid, 0
        _, status = os.waitpid(pid, 0)
        # it may have failed for want of what is there again by now
        return json.loads(data if status == 0 else json.dumps(self._look(self._part)))

    def end(self) -> None:
        """Let go of it. One whose answer nobody wants any more ends when it can't tell it.

        It isn't waited for: it may be stuck.
        """
        os.close(self._answer)
        if self._pid:
            os.waitpid(self._pid, os.WNOHANG)


def _tell(answer: int, look: Look, part: Sequence[int]) -> NoReturn:
    status = 1
    try:
        data = json.dumps(look(part)).encode("ascii")
        while data:
            data = data[os.write(answer, data) :]
        status = 0
    finally:
        os._exit(status)
