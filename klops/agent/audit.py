"""The audit log: one JSON line per signal, start and end of a unit.

It is written as well as can be: a full disk keeps nobody from ending or starting anything.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from klops.agent.processes import identity, procs
from klops.agent.processes.identity import Handle
from klops.agent.store import append_line, rotate
from klops.agent.trouble import Troubles

#: Bytes after which it becomes ``audit.jsonl.1``, in place of the one before: about 60000 lines.
LONGEST = 16 << 20


class Audit:
    """Appends to ``ROOT/audit.jsonl``."""

    def __init__(self, path: str, by: str, troubles: Troubles) -> None:
        self._path = path
        self._by = by
        self._troubles = troubles

    def note(self, event: str, unit: str, **fields: Any) -> None:
        """One line: when, who, what."""
        line = {"at": round(time.time(), 3), "by": self._by, "event": event, "unit": unit, **fields}
        try:
            append_line(self._path, line)
            rotate(self._path, LONGEST)
        except OSError as error:
            self._troubles.met(f"{self._path} can't be written", error)
        else:
            self._troubles.over(f"{self._path} can't be written")

    def signal(self, unit: str, handle: Handle, name: str, number: int, why: str) -> str:
        """Send a signal and write down to whom, which, why, and what came of it."""
        outcome = handle.send(number)
        self._sent(unit, handle.identity, name, number, why, handle.how, outcome)
        return outcome

    def signal_child(self, pid: int, number: int, why: str) -> str:
        """The same to a child of this process that it has not reaped: the pid can't be another's.

        It is sent even where there are no descriptors left; then without a line that could name it whole.
        """
        try:
            process = procs.read(pid)
        except OSError:
            process = None
        try:
            os.kill(pid, number)
            outcome = "sent"
        except ProcessLookupError:
            outcome = "gone"
        if process is None and outcome == "sent":
            self.note("signal", "", pid=pid, signal=signal.Signals(number).name, why=why, outcome=outcome)
        elif process is not None:
            self._sent("", identity.of(process), process.name, number, why, "kill: an own child", outcome)
        return outcome

    def _sent(
        self, unit: str, who: identity.Identity, name: str, number: int, why: str, how: str, outcome: str
    ) -> None:
        self.note(
            "signal",
            unit,
            pid=who.pid,
            start=who.start,
            boot=who.boot,
            ns=who.ns,
            name=name,
            signal=signal.Signals(number).name,
            why=why,
            how=how,
            outcome=outcome,
        )
