"""The sshd of host tests: see :mod:`klops.sim.sshd`."""

from __future__ import annotations

from klops.inventory.connection import Connection
from klops.sim.sshd import Sshd, find_sshd, free_port, make_key, start_sshd

__all__ = ["Sshd", "connection_to", "find_sshd", "free_port", "make_key", "start_sshd"]


def connection_to(
    sshd: Sshd, name: str = "host1", *, port: int | None = None, args: tuple[str, ...] = ()
) -> Connection:
    """The settings of a host served by the sshd; keys and trust come from its own files alone."""
    known = ("-F", "none", "-o", f"UserKnownHostsFile={sshd.known_hosts}", "-o", "GlobalKnownHostsFile=none")
    return Connection(
        name=name,
        address="127.0.0.1",
        port=port or sshd.port,
        user=sshd.user,
        private_key_file=str(sshd.key_file),
        common_args=(*args, *known, "-o", "IdentitiesOnly=yes"),
    )
