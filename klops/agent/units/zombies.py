"""Dead processes that nobody reaps: under a PID 1 that is no init they stay for ever.

They hold nothing and count as gone. But each keeps its number, and numbers run out.
"""

from __future__ import annotations

import time
from typing import Any, Mapping

from klops.agent.processes import procs
from klops.agent.processes.procs import Process

#: Seconds until PID 1 counts as one that doesn't reap: an init was seen to take up to two.
LASTING = 5.0


class Zombies:
    """Since when dead children of PID 1 have been seen."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}
        self._looked = 0.0

    def look(self, processes: Mapping[int, Process], now: float) -> None:
        """Take note of those in a process table. ``now`` is monotonic."""
        dead = [(p.pid, p.start) for p in procs.defunct(processes.values()).get(procs.INIT, ())]
        self._since = {key: self._since.get(key, now) for key in dead}
        self._looked = now

    def lasting(self, seconds: float = LASTING) -> dict[str, Any] | None:
        """``{count, init}`` of those that looks so far apart have found; None for none."""
        count = sum(self._looked - since >= seconds for since in self._since.values())
        if not count:
            return None
        init = procs.read(procs.INIT)
        return {"count": count, "init": init.name if init is not None else "?"}


def seen(seconds: float = 2.0) -> dict[str, Any] | None:
    """The same without a supervisor: two looks, the second only when the first finds some."""
    zombies = Zombies()
    zombies.look(procs.table(), time.monotonic())
    if not zombies.lasting(0.0):
        return None
    time.sleep(seconds)
    zombies.look(procs.table(), time.monotonic())
    return zombies.lasting(seconds)
