"""What a run gives to all its hosts, and what a play gives to the hosts of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from klops.playbook.options import RunOptions
from klops.playbook.tasks.locallooks import LocalLooks
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.playbook.model import Task
    from klops.playbook.tasks.host import Host


class Fleet(Protocol):
    """All hosts of the inventory, also those that the play isn't about. Used by several threads."""

    @property
    def names(self) -> Sequence[str]:
        """Hosts in the order of the inventory."""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """Hosts of every group, those of groups inside it included; ``all`` and ``ungrouped`` too."""

    @property
    def groups_of(self) -> Mapping[str, Sequence[str]]:
        """The same by host: the groups it is in."""

    def host(self, name: str) -> Host:
        """The host in this run. A name that isn't in :attr:`names` is this machine (``localhost``)."""

    def variables(self, name: str) -> Mapping[str, Any]:
        """Variables of the inventory, templates not rendered; neither the play's nor ``-e``."""

    def settings(self, name: str) -> Settings:
        """Its klops settings."""


class Notes(Protocol):
    """Remembers on the host what handlers still have to do, should the run end before they have run."""

    def before_change(self, task: Task) -> None:
        """Called once the lock is taken, before a task with ``notify`` changes anything."""


class NoFleet:
    """An inventory of nothing: for a host that is run by itself."""

    names: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = {}
    groups_of: Mapping[str, Sequence[str]] = {}

    def host(self, name: str) -> Host:
        """There is none."""
        raise KeyError(name)

    def variables(self, name: str) -> Mapping[str, Any]:
        """There are none."""
        raise KeyError(name)

    def settings(self, name: str) -> Settings:
        """There are none."""
        raise KeyError(name)


@dataclass(frozen=True)
class PlayHosts:
    """``all`` hosts of a play, those of the current ``batch``, and those that are ``living`` still."""

    all: Sequence[str]
    batch: Sequence[str]
    living: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Surroundings:
    """What a run gives to all its hosts."""

    playbook: Path
    check: bool
    #: what its locks are called
    run: str
    extra: Mapping[str, Any]
    redactor: Redactor
    cancelled: threading.Event
    #: host, task, message, elapsed seconds, percentage
    progress: Callable[[str, str, str, float, float | None], None]
    fleet: Fleet = field(default_factory=NoFleet)
    options: RunOptions = field(default_factory=RunOptions)
    looks: LocalLooks = field(default_factory=LocalLooks)
