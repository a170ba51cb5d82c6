"""Results of a run: per task and host, recaps, and the JSON of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from klops.actions.base import Change
from klops.errors import KlopsError, exit_status


class Status(str, Enum):
    """What became of a task on a host. ``unknown`` only occurs in check mode: it shows when applied."""

    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    RESCUED = "rescued"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class TurnResult:
    """What became of one turn of a loop; ``label`` is what is shown for it, ``place`` as in a result."""

    label: str
    status: Status
    message: str = ""
    error: KlopsError | None = None
    place: str = ""


@dataclass(frozen=True)
class TaskResult:
    """What became of one task on one host; ``seconds`` is wall time, ``values`` what ``register`` gets.

    ``ignored``: it failed or was unreachable, and the task says to go on all the same. ``turns``: how often a
    recap counts it; each file of an include in a loop counts. ``place``: the host that the task was delegated
    to, "" for its own. ``items``: the turns of a loop.
    """

    status: Status
    changes: tuple[Change, ...] = ()
    message: str = ""
    seconds: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)
    error: KlopsError | None = None
    warnings: tuple[str, ...] = ()
    ignored: bool = False
    turns: int = 1
    #: check mode: ``values`` are only what is certain before it is applied
    tentative: bool = False
    place: str = ""
    items: tuple[TurnResult, ...] = ()


@dataclass
class TaskRun:
    """One task of a play over its hosts; a handler is one, too."""

    name: str
    action: str
    hosts: dict[str, TaskResult] = field(default_factory=dict)
    handler: bool = False


@dataclass
class PlayRun:
    """One play that ran, or one batch of it (``batch`` of ``batches``) where ``serial`` makes several."""

    name: str
    hosts: tuple[str, ...]
    tasks: list[TaskRun] = field(default_factory=list)
    batch: int = 1
    batches: int = 1


RECAP_KEYS = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored", "unknown")


def counted(result: TaskResult) -> tuple[str, ...]:
    """The keys of a recap that a result counts for.

    As in Ansible a changed task also counts as ok, and so does one whose failure is ignored.
    """
    if result.ignored:
        keys = ("ok", "ignored")
        return (*keys, "changed") if result.values.get("changed") else keys
    if result.status is Status.CHANGED:
        return ("ok", "changed")
    return (result.status.value,)


@dataclass
class RunResult:
    """A whole run. ``errors`` holds the error of each host that dropped out; ``values`` the results by host
    and action name of the last task of that action (so ``values["h"]["klops.status"]``). ``not_run``: by play
    the hosts, sound as they are, that it left out because it or an earlier one ended before its time;
    ``handlers_left``: by host the handlers that the next run of the play will run."""

    playbook: str
    check: bool = False
    plays: list[PlayRun] = field(default_factory=list)
    hosts: tuple[str, ...] = ()
    errors: dict[str, KlopsError] = field(default_factory=dict)
    values: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    remote_commands: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False
    not_run: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    handlers_left: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def recap(self) -> dict[str, dict[str, int]]:
        """Counts by host; see :func:`counted`."""
        counts = {host: dict.fromkeys(RECAP_KEYS, 0) for host in self.hosts}
        for play in self.plays:
            for task in play.tasks:
                for host, result in task.hosts.items():
                    row = counts.setdefault(host, dict.fromkeys(RECAP_KEYS, 0))
                    for key in counted(result):
                        row[key] += result.turns
        return counts

    @property
    def ok(self) -> bool:
        """No host failed, none was unreachable, nobody interrupted."""
        return not self.errors and not self.interrupted

    @property
    def pending(self) -> bool:
        """Check mode found something that would change, or that only shows when applied."""
        return any(
            result.status in (Status.CHANGED, Status.UNKNOWN)
            for play in self.plays
            for task in play.tasks
            for result in task.hosts.values()
        )

    def exit_status(self, *, detailed: bool = False) -> int:
        """The contract's exit code; ``detailed`` turns pending changes of a check into 3."""
        statuses = [error.exit_status for error in self.errors.values()]
        if self.interrupted:
            statuses.append(130)
        if detailed and self.check and self.pending:
            statuses.append(3)
        return exit_status(statuses)
