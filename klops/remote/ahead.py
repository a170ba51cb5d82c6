"""Connections that are opened while klops gets ready, before a run asks for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from klops.remote import factory
from klops.remote.become import Become

if TYPE_CHECKING:
    from klops.inventory.connection import Connection
    from klops.remote.base import Remote
    from klops.remote.link import Link


class Ahead:
    """Opens connections; each goes to the first who wants one with the same settings.

    What goes wrong meanwhile is told to that one, as if it had just been tried.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._links: dict[str, tuple[Connection, Link]] = {}

    def begin(self, connection: Connection) -> None:
        """Open one, if it is over ssh. Raises :class:`UsageError` for settings that can't be met."""
        if connection.kind == "local":
            return
        from klops.remote.link import Link

        link = Link.of(connection)
        self._links[connection.name] = connection, link
        link.begin()

    def open_remote(
        self,
        connection: Connection,
        *,
        become: bool | None = None,
        become_user: str | None = None,
        audit_log: str = "",
    ) -> Remote:
        """As :func:`klops.remote.factory.open_remote`, over a connection that is there or on its way."""
        with self._guard:
            known, link = self._links.get(connection.name, (None, None))
            if link is None or known != connection:
                return factory.open_remote(
                    connection, become=become, become_user=become_user, audit_log=audit_log
                )
            del self._links[connection.name]
        from klops.remote.ssh import SshRemote

        identity = Become.of(connection).but(become, become_user)
        return SshRemote(connection.name, link, become=identity, audit_log=audit_log)

    def close(self) -> None:
        """Close those that nobody wanted. One that isn't there yet is closed when it is."""
        with self._guard:
            links, self._links = self._links, {}
        for _, link in links.values():
            # klops may end meanwhile: it must not wait for a host that doesn't answer
            threading.Thread(target=link.close, name="klops-close", daemon=True).start()
