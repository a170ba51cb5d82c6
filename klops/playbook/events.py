"""The one stream of typed events. Terminal, JSON, audit log and metrics are sinks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from klops.errors import KlopsError
from klops.playbook.results import RunResult, TaskResult


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""


@dataclass(frozen=True)
class RunStarted(Event):
    """A playbook starts: its file (and whether it is the user's or the shipped one), hosts, check mode.

    ``run`` is the run's name, as locks and the audit logs of hosts have it.
    """

    playbook: str
    hosts: tuple[str, ...]
    check: bool
    run: str = ""


@dataclass(frozen=True)
class PlayStarted(Event):
    """A play starts on its hosts, or one batch of it does.

    With the ``free`` strategy tasks of several kinds are at work at a time.
    """

    play: str
    hosts: tuple[str, ...]
    batch: int = 1
    batches: int = 1
    free: bool = False


@dataclass(frozen=True)
class PlayEnded(Event):
    """A play ended before its time, and why."""

    play: str
    reason: str


@dataclass(frozen=True)
class TaskStarted(Event):
    """A task starts on the hosts that are still in. ``number`` tells the tasks of a run apart."""

    task: str
    action: str
    handler: bool = False
    number: int = 0


@dataclass(frozen=True)
class TaskProgress(Event):
    """A task on a host is still busy: one line, elapsed seconds, a percentage where one is known."""

    host: str
    task: str
    message: str
    elapsed: float
    percent: float | None = None


@dataclass(frozen=True)
class TaskFinished(Event):
    """A task ended on a host."""

    host: str
    task: str
    action: str
    result: TaskResult
    number: int = 0


@dataclass(frozen=True)
class HostDropped(Event):
    """A host drops out of the run; the others go on."""

    host: str
    error: KlopsError


@dataclass(frozen=True)
class Warned(Event):
    """Something that isn't wrong but should be known."""

    host: str
    message: str


@dataclass(frozen=True)
class RunFinished(Event):
    """The run ended."""

    result: RunResult


class Sink(Protocol):
    """Where events go. ``handle`` is called from one thread at a time."""

    def handle(self, event: Event) -> None: ...
