"""A plain tar of some members of any archive. Pure, from bytes to bytes.

What is sent to a host is always that, and only what differs there: the host needs no unzip and no xz, and
gets nothing that it has already.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Sequence
from typing import IO

from klops.actions.archive.archives import Member, handler

_TYPES = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard": tarfile.LNKTYPE,
}


def packed(content: bytes, wanted: Sequence[Member], all_members: Sequence[Member]) -> bytes:
    """A plain tar of ``wanted``; what they are hard links to comes along."""
    by_name = {member.name: member for member in all_members}
    sent = {member.name: member for member in wanted}
    targets = {
        member.target: by_name[member.target]
        for member in wanted
        if member.kind == "hard" and member.target in by_name and member.target not in sent
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar, _Contents(content) as source:
        for member in (*targets.values(), *wanted):
            info = _info(member)
            if member.kind == "file" and member.size:
                with source.open(member.stored) as data:
                    tar.addfile(info, data)
            else:
                tar.addfile(info)
    return out.getvalue()


def _info(member: Member) -> tarfile.TarInfo:
    info = tarfile.TarInfo(member.name)
    info.type = _TYPES[member.kind]
    info.mode, info.mtime = member.mode, member.mtime
    info.uid, info.gid = member.uid, member.gid
    info.size = member.size if member.kind == "file" else 0
    info.linkname = member.target
    return info


class _Contents:
    """Opens members of either kind of archive by the names they are stored under."""

    def __init__(self, content: bytes) -> None:
        data = io.BytesIO(content)
        self._zip = zipfile.ZipFile(data) if handler(content) == "ZipArchive" else None
        self._tar = None if self._zip else tarfile.TarFile.open(fileobj=data)

    def open(self, name: str) -> IO[bytes]:
        """The content of a file."""
        if self._zip is not None:
            return self._zip.open(name)
        found = self._tar.extractfile(name) if self._tar else None
        assert found is not None  # noqa: S101 - only files are asked for
        return found

    def __enter__(self) -> _Contents:
        return self

    def __exit__(self, *_: object) -> None:
        for archive in (self._zip, self._tar):
            if archive is not None:
                archive.close()
