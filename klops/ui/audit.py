"""The sink that keeps what runs did: a line for each run, and for each task that changed or failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from klops.playbook.events import Event, RunFinished, RunStarted, TaskFinished
from klops.playbook.noting import noted
from klops.playbook.results import RunResult
from klops.ui.auditfile import AuditFile


class AuditSink:
    """Writes a run to the audit log of this user. ``argv`` is kept as it is given: known secrets aside.

    Of a check only its beginning and end are kept: its tasks did nothing.
    """

    def __init__(self, file: AuditFile, argv: Sequence[str], who: str, origin: str) -> None:
        self._file = file
        self._argv = list(argv)
        self._who = {"who": who, "from": origin}
        self._run = ""
        self._check = False

    def handle(self, event: Event) -> None:
        """Note one event."""
        if isinstance(event, RunStarted):
            self._run, self._check = event.run, event.check
            begun = {
                **self._who,
                "run": event.run,
                "argv": self._argv,
                "playbook": event.playbook,
                "hosts": list(event.hosts),
                "check": event.check,
            }
            self._file.note("run-begun", begun)
        elif isinstance(event, TaskFinished):
            task = None if self._check else noted(event)
            if task is not None:
                place = {"place": event.result.place} if event.result.place else {}
                fields = {"run": self._run, "host": event.host, **place, "action": event.action, **task}
                self._file.note("task", fields)
        elif isinstance(event, RunFinished):
            self._file.note("run-ended", {"run": self._run, **_ended(event.result)})


def _ended(result: RunResult) -> dict[str, Any]:
    outcome = "interrupted" if result.interrupted else "done" if result.ok else "failed"
    return {
        "outcome": outcome,
        "errors": {host: error.code for host, error in result.errors.items()},
        "seconds": round(result.seconds, 3),
    }
