"""From the connection settings of a host to the remote that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klops.inventory.connection import Connection
    from klops.remote.base import Remote


def open_remote(connection: Connection, *, become: bool | None = None) -> Remote:
    """A remote for the host. Nothing is connected before it is first used.

    ``become`` overrides the connection's own setting (a task may say ``become: true``).
    """
    # ssh brings fabric and paramiko with it, which a local host need not pay for
    if connection.kind == "local":
        from klops.remote.local import LocalRemote

        return LocalRemote.of(connection, become=become)
    from klops.remote.ssh import SshRemote

    return SshRemote.of(connection, become=become)
