"""What the audit logs keep of a run: the tasks that changed something or failed, by host."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from klops.errors import KlopsError
from klops.playbook.events import Event, TaskFinished
from klops.playbook.results import Status
from klops.remote import audit

#: What is worth a line though nothing was changed.
_BAD = (Status.FAILED, Status.UNREACHABLE, Status.RESCUED)


def noted(event: TaskFinished) -> dict[str, Any] | None:
    """A task on a host in few words; None when it changed nothing and nothing went wrong."""
    result = event.result
    if not result.changes and result.status not in _BAD:
        return None
    changes = [change.what for change in result.changes]
    error = result.error.message if result.error is not None else ""
    return audit.task(event.task, result.status.value, changes, result.seconds, error)


class HostNotes:
    """A sink that knows, when a host's lock is given back, what was done there: for the log on the host.

    What a delegated task did is noted where it was done.
    """

    def __init__(self, playbook: str) -> None:
        self._playbook = playbook
        self._tasks: dict[str, list[dict[str, Any]]] = {}
        self._guard = threading.Lock()
        #: why hosts dropped out of the run
        self.errors: Mapping[str, KlopsError] = {}
        #: somebody, or a fault, ended the run in the middle
        self.interrupted = False

    def handle(self, event: Event) -> None:
        """Keep what is to be noted of it."""
        task = noted(event) if isinstance(event, TaskFinished) else None
        if isinstance(event, TaskFinished) and task is not None:
            with self._guard:
                self._tasks.setdefault(event.result.place or event.host, []).append(task)

    def of(self, host: str) -> audit.RunNotes:
        """What is noted on one host; the time counts from here."""
        began = time.monotonic()
        return audit.RunNotes({"playbook": self._playbook}, lambda: self._ended(host, began))

    def _ended(self, host: str, began: float) -> dict[str, Any]:
        with self._guard:
            tasks = list(self._tasks.get(host, ()))
        error = self.errors.get(host)
        outcome = "interrupted" if self.interrupted else "failed" if error is not None else "done"
        return {
            "outcome": outcome,
            **({"code": error.code} if error is not None else {}),
            "tasks": audit.fitting(tasks, audit.ROOM),
            "seconds": round(time.monotonic() - began, 3),
        }
