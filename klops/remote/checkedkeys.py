"""Host keys during a connection: each is asked known_hosts about, and refused with the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paramiko

from klops.errors import HostKeyRejected
from klops.remote import hostkeys
from klops.remote.hostkeys import HostKey

if TYPE_CHECKING:
    from klops.remote.sshconfig import Target


class CheckedKeys(paramiko.MissingHostKeyPolicy):
    """Asks known_hosts about every key. paramiko's own stores stay empty: they know no wildcards."""

    def __init__(self, target: Target, entries: list[hostkeys.Entry]) -> None:
        self._target = target
        self._entries = entries

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        check_key(self._target, self._entries, HostKey(key.get_name(), key.asbytes()))


def check_key(target: Target, entries: list[hostkeys.Entry], key: HostKey) -> None:
    """Raises :class:`HostKeyRejected` unless known_hosts has the key."""
    verdict = hostkeys.judge(entries, target.known_hosts_name, key)
    if verdict.kind == "known":
        return
    host = target.name.rsplit(": jump host ", 1)[0]
    note = (
        " (StrictHostKeyChecking is set to accept any key, which klops does not do)"
        if target.unchecked_wanted
        else ""
    )
    if verdict.kind == "unknown":
        raise HostKeyRejected(
            f"{target.name}: the key of {target.place} is unknown: {key}{note}",
            hint=f"compare the fingerprint, then: klops hosts trust {host}",
        )
    recorded = ", ".join(f"{e.key} ({e.file}:{e.line})" for e in verdict.entries)
    if verdict.kind == "revoked":
        raise HostKeyRejected(f"{target.name}: the key of {target.place} is revoked: {recorded}")
    raise HostKeyRejected(
        f"{target.name}: THE KEY OF {target.place} HAS CHANGED: it shows {key}, recorded is {recorded}{note}",
        hint="somebody may be in between; if the host was set up anew and the fingerprint is right: "
        f"klops hosts trust {host}",
    )
