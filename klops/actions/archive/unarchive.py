"""``unarchive``: unpack an archive into a folder of the host.

.. code-block:: yaml

    - unarchive: {src: tools.tar.gz, dest: /opt/tools, owner: root, group: root}
    - unarchive: {src: /data/models.tar, dest: /data/models, remote_src: true}

An archive of the control node is read here and compared, member by member, with what the host has: only what
differs is sent and unpacked, and check mode knows exactly what that is. Members are unpacked in their place,
one after the other; a run that was cut off is made whole by the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from klops.actions.archive import local, there
from klops.actions.archive.parameters import UnarchiveParams
from klops.actions.base import Action, Plan, Probe, Seen, View
from klops.actions.files import filestat, ownership
from klops.errors import TaskFailed
from klops.remote.archivereads import ArchiveRead, ManifestRead
from klops.remote.filereads import GlobRead, StatRead
from klops.remote.reads import CommandRead, NamesRead, Read


class Unarchive(Action[UnarchiveParams]):
    """Unpack an archive."""

    name = "unarchive"
    params = UnarchiveParams
    local_files: ClassVar[Mapping[str, str]] = {"src": local.FILES}
    refused: ClassVar[Mapping[str, str]] = {
        **ownership.REFUSED,
        "copy": "write remote_src: true for copy: false, and nothing for copy: true",
        "decrypt": "klops reads no vaults here",
        "validate_certs": "klops downloads nothing here",
        "io_buffer_size": "there is nothing to set: leave it out",
    }

    def local_name(self, text: str) -> str:
        """A URL is refused, and no file that could be missing."""
        return "" if "://" in text else text

    def probe(self, params: UnarchiveParams, view: View) -> Probe:
        """The folder; and what is there of the archive's members, or what the host's tar finds different."""
        reads: list[Read] = [StatRead("dest", params.dest, follow=True), CommandRead("me", ("id", "-u"))]
        if params.creates:
            reads.append(GlobRead("creates", params.creates))
        if params.remote_src:
            reads.append(
                ArchiveRead(
                    "archive",
                    params.src,
                    params.dest,
                    params.known_options,
                    tuple(params.include),
                    tuple(params.exclude),
                )
            )
            return Probe(tuple(reads))
        wanted = local.wanted(params, local.content(params, view))
        names = tuple(member.name for member in wanted)
        owners = [read for read in ownership.reads(params) if read.key != "groups"]
        users = {member.user for member in wanted if member.user}
        groups = {name for name in (params.group, *(member.group for member in wanted)) if name}
        reads += [
            ManifestRead("there", params.dest, names),
            *owners,
            NamesRead("groups", "group", tuple(sorted(groups))),
            NamesRead("users", "passwd", tuple(sorted(users))),
        ]
        return Probe(tuple(reads), {"src": (self.local_files["src"], params.src)})

    def plan(self, params: UnarchiveParams, view: View, seen: Seen) -> Plan:
        """Unpack what differs."""
        if params.creates and seen.replies["creates"].ok:
            return Plan(skipped=f"{params.creates} exists")
        dest = filestat.parse(seen.replies["dest"])
        if not dest["exists"] or not dest["isdir"]:
            raise TaskFailed(
                f"{params.dest} is no folder", hint="make it first: file with state: directory", code="absent"
            )
        return there.plan(params, dest, seen) if params.remote_src else local.plan(params, dest, seen)
