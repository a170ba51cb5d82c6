"""From the connection settings of a host to the remote that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.remote.become import Become

if TYPE_CHECKING:
    from klops.inventory.connection import Connection
    from klops.remote.base import Remote


def open_remote(
    connection: Connection,
    *,
    become: bool | None = None,
    become_user: str | None = None,
    audit_log: str = "",
) -> Remote:
    """A remote for the host. Nothing is connected before it is first used.

    ``become`` and ``become_user`` override the connection's own settings (a task may say ``become: true``).
    Signals that it sends there are lines of ``audit_log`` ("": there is none).
    """
    other = Become.of(connection).but(become, become_user)
    # ssh brings fabric and paramiko with it, which a local host need not pay for
    if connection.kind == "local":
        from klops.remote.local import LocalRemote

        return LocalRemote.of(connection, become=other, audit_log=audit_log)
    from klops.remote.ssh import SshRemote

    return SshRemote.of(connection, become=other, audit_log=audit_log)
