"""All hosts of the inventory as a run knows them; those that no play is about are made when asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from klops.playbook.plays.hostrender import HostRenderers
from klops.playbook.tasks.host import Host, Lock
from klops.remote import audit
from klops.remote.base import Remote
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory import Inventory
    from klops.inventory.connection import Connection
    from klops.inventory.settings import Settings


class OpenRemote(Protocol):
    """How to get at a host; :func:`klops.remote.factory.open_remote`."""

    def __call__(
        self,
        connection: Connection,
        *,
        become: bool | None = None,
        become_user: str | None = None,
        audit_log: str = "",
    ) -> Remote: ...


#: makes the lock of a host from its remote and the root of klops there
MakeLock = Callable[[Remote, str], Lock]


class RunFleet:
    """The hosts of a run; see :class:`klops.playbook.tasks.surroundings.Fleet`.

    ``connections`` are those that were looked at before the run. ``extra``: variables of ``-e``.
    """

    def __init__(
        self,
        inventory: Inventory,
        connections: Mapping[str, Connection],
        extra: Mapping[str, Any],
        open_remote: OpenRemote,
        make_lock: MakeLock,
        redactor: Redactor,
    ) -> None:
        self._inventory = inventory
        self._connections = connections
        self._extra = extra
        self._open_remote = open_remote
        self._make_lock = make_lock
        self._redactor = redactor
        self._hosts: dict[str, Host] = {}
        self._variables: dict[str, Mapping[str, Any]] = {}
        self._settings: dict[str, Settings] = {}
        self._guard = threading.RLock()
        self._renderer = HostRenderers(inventory, extra)
        self.names: Sequence[str] = tuple(inventory.hosts)
        self.groups: Mapping[str, Sequence[str]] = {
            name: tuple(inventory.members(name)) for name in inventory.groups
        }
        self.groups_of = by_host(self.groups)

    def host(self, name: str) -> Host:
        """The host in this run. A name that isn't in :attr:`names` is one of this machine.

        Raises :class:`UsageError` for a name nobody has and for mistakes in connection variables.
        """
        with self._guard:
            if name not in self._hosts:
                self._hosts[name] = Host(name, partial(self._open, self._connection(name)), self._make_lock)
            return self._hosts[name]

    def variables(self, name: str) -> Mapping[str, Any]:
        """Variables of the inventory, templates not rendered; neither the play's nor ``-e``."""
        with self._guard:
            if name not in self._variables:
                self._variables[name] = self._inventory.plain_variables(name)
            return self._variables[name]

    def settings(self, name: str) -> Settings:
        """Its klops settings; the redactor learns their secrets."""
        with self._guard:
            if name not in self._settings:
                render = self._renderer(name)
                settings = self._inventory.settings(name, extra=self._extra, render=render)
                settings.resolve_secrets(self._redactor)
                self._settings[name] = settings
            return self._settings[name]

    @property
    def known(self) -> list[Host]:
        """Hosts that were asked for so far."""
        with self._guard:
            return list(self._hosts.values())

    def _connection(self, name: str) -> Connection:
        if name in self._connections:
            return self._connections[name]
        render = self._renderer(name)
        connection = self._inventory.connection(name, extra=self._extra, render=render)
        learn(connection, self._redactor)
        return connection

    def _open(self, connection: Connection, become: bool | None, user: str | None = None) -> Remote:
        # of a host that has settings these are known before anything runs on it
        settings = self._settings.get(connection.name)
        audit_log = audit.log_of(settings.root) if settings is not None else ""
        return self._open_remote(connection, become=become, become_user=user, audit_log=audit_log)


def by_host(groups: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """The groups of each host, from the hosts of each group."""
    found: dict[str, list[str]] = {}
    for group, hosts in groups.items():
        for host in hosts:
            found.setdefault(host, []).append(group)
    return found


def learn(connection: Connection, redactor: Redactor) -> None:
    """Have the secrets of a connection masked."""
    for secret in connection.secrets:
        redactor.add(secret)
