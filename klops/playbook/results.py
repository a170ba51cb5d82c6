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
class TaskResult:
    """What became of one task on one host; ``seconds`` is wall time, ``values`` what ``register`` gets."""

    status: Status
    changes: tuple[Change, ...] = ()
    message: str = ""
    seconds: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)
    error: KlopsError | None = None
    warnings: tuple[str, ...] = ()


@dataclass
class TaskRun:
    """One task of a play over its hosts."""

    name: str
    action: str
    hosts: dict[str, TaskResult] = field(default_factory=dict)


@dataclass
class PlayRun:
    """One play that ran."""

    name: str
    hosts: tuple[str, ...]
    tasks: list[TaskRun] = field(default_factory=list)


RECAP_KEYS = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "unknown")


@dataclass
class RunResult:
    """A whole run. ``errors`` holds the error of each host that dropped out; ``values`` the results by host
    and action name of the last task of that action (so ``values["h"]["klops.status"]``)."""

    playbook: str
    check: bool = False
    plays: list[PlayRun] = field(default_factory=list)
    hosts: tuple[str, ...] = ()
    errors: dict[str, KlopsError] = field(default_factory=dict)
    values: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    remote_commands: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False

    def recap(self) -> dict[str, dict[str, int]]:
        """Counts by host. As in Ansible a changed task also counts as ok."""
        counts = {host: dict.fromkeys(RECAP_KEYS, 0) for host in self.hosts}
        for play in self.plays:
            for task in play.tasks:
                for host, result in task.hosts.items():
                    row = counts.setdefault(host, dict.fromkeys(RECAP_KEYS, 0))
                    row[result.status.value] += 1
                    if result.status is Status.CHANGED:
                        row["ok"] += 1
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
