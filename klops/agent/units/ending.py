"""Ending a lineage: TERM to the root, TERM to all, KILL; by what still lives, not by what was sent."""

from __future__ import annotations

import signal
from typing import Any, Mapping, Sequence

from klops.agent.processes.procs import HALTED, Process

#: Seconds after TERM to all members until KILL: an engine whose API server was killed needs about six to
#: put its shared memory away.
GRACE = 8.0
#: Seconds for the root of a generation that never was ready: a TERM during the load of the model gets lost.
LOADING = 10.0
#: Seconds after its first KILL until a member that lives on is called unkillable.
UNKILLABLE = 10.0
#: How often KILL is repeated to one process.
KILLS = 3


class Ending:
    """The end of one generation. Asked at every look at the lineage which signals are due."""

    def __init__(self, now: float, root: int | None, patience: float) -> None:
        """``root`` is the pid of the living root, ``patience`` the seconds it has after TERM."""
        self._root = root
        self._patience = patience
        self._begun = now
        self._all_since: float | None = None
        self._kill_since: float | None = None
        self._sent: dict[tuple[int, int, str], int] = {}
        #: by pid and start: when it was sent its first KILL
        self._killed_at: dict[tuple[int, int], float] = {}
        #: members that asking did not end: ``{cpid, start, name, why}``
        self.killed: list[dict[str, Any]] = []
        self._last_kill = 0.0

    def due(self, living: Sequence[Process], now: float) -> list[tuple[Process, int, str]]:
        """Signals to send now: (process, signal, which part of the escalation)."""
        root = next((p for p in living if p.pid == self._root), None)
        if self._all_since is None:
            if root is not None and root.state not in HALTED and now - self._begun < self._patience:
                return self._once([root], now, signal.SIGTERM, "the root first")
            self._all_since = now
        if self._kill_since is None and now - self._all_since < GRACE:
            halted = [p for p in living if p.state in HALTED]
            rest = [p for p in living if p.state not in HALTED]
            asked = self._once(rest, now, signal.SIGTERM, "all that lives")
            return asked + self._once(halted, now, signal.SIGKILL, "stopped")
        if self._kill_since is None:
            self._kill_since = now
        if self._last_kill and now - self._last_kill < 1.0:
            return self._once(living, now, signal.SIGKILL, "outlived TERM")
        self._last_kill = now
        return self._once(living, now, signal.SIGKILL, "outlived TERM", times=KILLS)

    def _once(
        self, processes: Sequence[Process], now: float, number: int, part: str, times: int = 1
    ) -> list[tuple[Process, int, str]]:
        due = []
        for process in processes:
            key = (process.pid, process.start, part)
            if self._sent.get(key, 0) < times:
                if number == signal.SIGKILL and key not in self._sent:
                    who = {"cpid": process.pid, "start": process.start, "name": process.name}
                    self.killed.append({**who, "why": part})
                    self._killed_at.setdefault(key[:2], now)
                self._sent[key] = self._sent.get(key, 0) + 1
                due.append((process, number, part))
        return due

    def stuck(self, living: Sequence[Process], now: float) -> list[Process]:
        """Members that outlive KILL, once that is certain: of one that came late it isn't yet."""
        return [p for p in living if now - self._killed_at.get((p.pid, p.start), now) >= UNKILLABLE]


def unkillable(stuck: Sequence[Process], cards: Mapping[int, Sequence[int]]) -> str:
    """What is said of processes that KILL doesn't end; ``cards``: indexes of cards by pid."""
    numbers = {p.pid: " ".join(map(str, cards.get(p.pid, ()))) or "none" for p in stuck}
    listed = ", ".join(f"pid {p.pid} ({p.name}) in state {p.state}, card {numbers[p.pid]}" for p in stuck)
    return f"unkillable: {listed}; it sits in the driver: the card needs a reset, or the host a reboot"
