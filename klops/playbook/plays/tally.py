"""What a run has come to so far, and who is told of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from klops.errors import KlopsError
from klops.playbook.events import Event, HostDropped, Sink, TaskFinished, TaskProgress, TaskStarted, Warned
from klops.playbook.results import RunResult, TaskResult, TaskRun
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.redaction import redacted_error
from klops.secret import Redactor


class Tally:
    """Keeps results and emits events; used by all threads of a run."""

    def __init__(
        self, result: RunResult, sinks: Sequence[Sink], redactor: Redactor, begun: threading.Event
    ) -> None:
        self.result = result
        self.redactor = redactor
        self._sinks = sinks
        self._speaking = threading.Lock()
        #: hosts that dropped out of the current play, though their errors may be cleared since
        self.left: set[str] = set()
        self._numbers: dict[int, int] = {}
        #: set when the run is interrupted
        self.stop = threading.Event()
        #: what sinks are not told yet; None once they are told everything at once
        self._held: list[Event] | None = []
        #: set when sinks know of the run, or when they never will
        self.begun = begun

    @property
    def cancelled(self) -> bool:
        """Whether the run was interrupted."""
        return self.stop.is_set()

    def emit(self, event: Event) -> None:
        """Tell all sinks; what comes before :meth:`speak` is told there."""
        with self._speaking:
            if self._held is None:
                self._tell(event)
            else:
                self._held.append(event)

    def speak(self) -> None:
        """From here on sinks are told at once: the first hosts are at work.

        While they wait for the first answers there is time for what sinks need to begin.
        """
        with self._speaking:
            held, self._held = self._held, None
            for event in held or ():
                self._tell(event)
        self.begun.set()

    def _tell(self, event: Event) -> None:
        for sink in self._sinks:
            sink.handle(event)

    def progress(self, host: str, task: str, message: str, elapsed: float, percent: float | None) -> None:
        """A task is still busy."""
        self.emit(TaskProgress(host, task, self.redactor(message), elapsed, percent))

    def started(self, entry: TaskRun) -> None:
        """A task begins on its first host."""
        number = self._numbers.setdefault(id(entry), len(self._numbers) + 1)
        entry.name = self.redactor(entry.name)
        self.emit(TaskStarted(entry.name, entry.action, entry.handler, number))

    def finished(self, host: str, entry: TaskRun, result: TaskResult) -> None:
        """A task ended on a host; ``result`` is redacted."""
        self.result.values.setdefault(host, {})[entry.action] = result.values
        self.emit(TaskFinished(host, entry.name, entry.action, result, self._numbers[id(entry)]))
        for text in result.warnings:
            self.emit(Warned(host, text))

    def dropped(self, host: Host, error: KlopsError | None) -> None:
        """A host takes no part any more. ``error``: None for one that stops because others failed."""
        self.left.add(host.name)
        if error is None:
            host.error = KlopsError("stopped because other hosts failed", code="stopped")
            return
        error = redacted_error(error, self.redactor)
        host.error = error
        if not self.cancelled:
            self.result.errors[host.name] = error
            self.emit(HostDropped(host.name, error))

    def revived(self, host: Host) -> None:
        """The errors of a host are cleared."""
        host.error = None
        self.result.errors.pop(host.name, None)
