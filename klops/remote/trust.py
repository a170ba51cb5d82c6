"""Looking at a host's key and recording it: what ``klops hosts trust`` does, hop by hop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.errors import HostKeyRejected, UsageError
from klops.remote import hostkeys
from klops.remote.hostkeys import HostKey, Verdict
from klops.remote.sshconfig import Target, resolve

if TYPE_CHECKING:
    from klops.inventory.connection import Connection


@dataclass(frozen=True)
class Shown:
    """The key that a hop shows, and what known_hosts says of it."""

    target: Target
    key: HostKey
    verdict: Verdict

    @property
    def file(self) -> str:
        """The known_hosts file that the key would be written into."""
        if not self.target.user_known_hosts:
            raise UsageError(
                f"{self.target.name}: there is no file to record the key in",
                hint="UserKnownHostsFile is none or /dev/null in ~/.ssh/config or ansible_ssh_common_args",
            )
        return self.target.user_known_hosts[0]

    @property
    def recorded(self) -> list[str]:
        """The recorded keys with their places, one text each."""
        return [f"{e.key} ({e.file}:{e.line})" for e in self.verdict.entries]

    def record(self) -> str:
        """Write the key into the file in use, in place of those that differ; the file's name.

        Raises :class:`HostKeyRejected` for a revoked key, and when another one stands in the system's file.
        """
        if self.verdict.kind == "revoked":
            raise HostKeyRejected(f"{self.target.name}: the key is revoked: {', '.join(self.recorded)}")
        stuck = [e for e in self.verdict.entries if e.file not in self.target.user_known_hosts]
        if stuck:
            raise HostKeyRejected(
                f"{self.target.name}: another key is recorded in {stuck[0].file}:{stuck[0].line}",
                hint="that file is the system's: change it there",
            )
        for other in self.target.user_known_hosts[1:]:
            hostkeys.remove(other, self.target.known_hosts_name, self.verdict.entries)
        hostkeys.record(self.file, self.target.known_hosts_name, self.key, replaced=self.verdict.entries)
        return self.file


def look(connection: Connection) -> Iterator[Shown]:
    """The keys of the hops to a host, the outermost first. Nobody is logged in on the host itself.

    To look past a jump host it must be trusted: whoever iterates records its key first, or
    :class:`HostKeyRejected` is raised.
    """
    from klops.remote.link import Link

    last = resolve(connection)
    hops = [last]
    while hops[0].jump is not None:
        hops.insert(0, hops[0].jump)
    for hop in hops:
        link = Link(hop)
        try:
            key = link.shown_key()
        finally:
            link.close()
        entries = hostkeys.load(hop.known_hosts)
        yield Shown(hop, key, hostkeys.judge(entries, hop.known_hosts_name, key))
