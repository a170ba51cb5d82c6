"""Runs single tasks on fake hosts, without a playbook file: what the engine makes of a task's keywords."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.actions.catalog import catalog
from klops.errors import KlopsError, Location
from klops.inventory.settings import Settings
from klops.playbook.model import Play, Task
from klops.playbook.options import RunOptions
from klops.playbook.plays.fleet import by_host
from klops.playbook.results import TaskResult
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.locallooks import LocalLooks
from klops.playbook.tasks.surroundings import PlayHosts, Surroundings
from klops.playbook.tasks.taskrun import HostPlay
from klops.remote.base import Remote
from klops.remote.fake import FakeRemote
from klops.secret import Redactor

HERE = Location("p.yml", 3, 7)
ACTIONS: Mapping[str, Action[Any]] = catalog()


class CountingLock:
    """A lock that counts how often it was taken."""

    def __init__(self) -> None:
        self.taken = 0
        self.lost: KlopsError | None = None

    def acquire(self) -> None:
        """Count it."""
        self.taken += 1

    def release(self) -> None:
        """Nothing."""

    def pause(self, seconds: float) -> None:
        """Nothing."""

    def resume(self) -> None:
        """Count it."""
        self.taken += 1


class CloningRemote(FakeRemote):
    """A fake host that knows how often it was cloned."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.clones = 0

    def clone(self, **_: Any) -> Remote:
        """The fake itself, as of any."""
        self.clones += 1
        return self


@dataclass
class Fleet:
    """Fake hosts by name, with variables of the inventory."""

    inventory: dict[str, dict[str, Any]]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remotes: dict[str, CloningRemote] = field(default_factory=dict)
    locks: dict[str, CountingLock] = field(default_factory=dict)
    opened: list[tuple[Any, ...]] = field(default_factory=list)
    _hosts: dict[str, Host] = field(default_factory=dict)

    @property
    def names(self) -> Sequence[str]:
        """Hosts of the inventory."""
        return list(self.inventory)

    @property
    def groups_of(self) -> Mapping[str, Sequence[str]]:
        """Groups of each host."""
        return by_host(self.groups)

    def host(self, name: str) -> Host:
        """The host in this run."""
        if name not in self._hosts:
            remote = self.remotes[name] = CloningRemote(name)
            lock = self.locks[name] = CountingLock()

            def opened(*identity: Any) -> Remote:
                self.opened.append((name, *identity))
                return remote

            self._hosts[name] = Host(name, opened, lambda remote, root: lock)
        return self._hosts[name]

    def remote(self, name: str = "h1") -> CloningRemote:
        """The fake remote of a host."""
        self.host(name)
        return self.remotes[name]

    def variables(self, name: str) -> Mapping[str, Any]:
        """Variables of the inventory."""
        return self.inventory[name]

    def settings(self, name: str) -> Settings:
        """Defaults."""
        return Settings()


@dataclass
class Bench:
    """A run over fake hosts of which the test takes every step."""

    fleet: Fleet = field(default_factory=lambda: Fleet({"h1": {}, "h2": {}}))
    check: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    play: Play = field(default_factory=lambda: Play("the play", ("all",), HERE, file=Path("p.yml")))
    #: of the play
    variables: dict[str, Any] = field(default_factory=dict)
    redactor: Redactor = field(default_factory=Redactor)
    cancelled: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)
    looks: LocalLooks = field(default_factory=LocalLooks)
    _plays: dict[str, HostPlay] = field(default_factory=dict)

    def on(self, name: str = "h1") -> HostPlay:
        """The play on a host."""
        if name not in self._plays:
            around = Surroundings(
                Path("p.yml"),
                self.check,
                "run1",
                self.extra,
                self.redactor,
                self.cancelled,
                lambda host, task, message, elapsed, percent: self.said.append(message),
                self.fleet,
                RunOptions(check=self.check),
                self.looks,
            )
            everybody = self.fleet.names
            variables = {**self.fleet.inventory.get(name, {}), **self.variables}
            self._plays[name] = HostPlay(
                self.fleet.host(name),
                self.play,
                Settings(),
                variables,
                around,
                PlayHosts(everybody, everybody, lambda: everybody),
            )
        return self._plays[name]

    def with_handlers(self, *names: str) -> None:
        """Give the play handlers of these names."""
        made = tuple(task("debug", {"msg": "handled"}, name=name) for name in names)
        self.play = replace(self.play, handlers=made)

    def run(self, made: Task, *ahead: Task, on: str = "h1") -> TaskResult:
        """Run one task on a host."""
        return self.on(on).run(made, ahead)

    def shows(self, expression: str, on: str = "h1", **keywords: Any) -> Any:
        """The value of an expression as a task on a host sees it, or the error."""
        result = self.run(task("debug", {"msg": "{{ " + expression + " }}"}, **keywords), on=on)
        return result.error if result.error else result.values.get("msg", result.message)


def task(action: str, params: Mapping[str, Any] | None = None, **keywords: Any) -> Task:
    """A task as the loader makes it."""
    return Task(
        keywords.pop("name", "a task"), ACTIONS[action], params or {}, HERE, Path("p.yml"), **keywords
    )
