"""The audit log: one JSON line per signal, start and end of a unit."""

from __future__ import annotations

import signal
import time
from typing import Any

from klops.agent.identity import Handle
from klops.agent.store import append_line


class Audit:
    """Appends to ``ROOT/audit.jsonl``."""

    def __init__(self, path: str, by: str) -> None:
        self._path = path
        self._by = by

    def note(self, event: str, unit: str, **fields: Any) -> None:
        """One line: when, who, what."""
        append_line(
            self._path, {"at": round(time.time(), 3), "by": self._by, "event": event, "unit": unit, **fields}
        )

    def signal(self, unit: str, handle: Handle, name: str, number: int, why: str) -> str:
        """Send a signal and write down to whom, which, why, and what came of it."""
        outcome = handle.send(number)
        who = handle.identity
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
            how=handle.how,
            outcome=outcome,
        )
        return outcome
