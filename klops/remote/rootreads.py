"""Reads of files below klops' root on a host, wherever the container has that root.

A container that klops makes has the host's folder mounted. One that was adopted may have it in its own
writable layer: its files are copied out by ``docker cp``, which works as well while it doesn't run. Which of
the two it is the host itself tells, by the record of an adopted container; where that has the folder mounted
both ways lead to the same file.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass

from klops.remote.base import Reply
from klops.remote.reads import ABSENT, FileRead, Read

#: Bytes of a tar's first header, and where its magic stands.
_BLOCK, _MAGIC = 512, slice(257, 262)
#: What docker says of a path that isn't in the container, in the words of its versions.
_NOT_THERE = ("No such container:path", "Could not find the file")


def copy_out(docker: Sequence[str], container: str, path: str) -> str:
    """Shell: a path of the container as a tar on standard output; status ``ABSENT`` when it isn't there."""
    copy = shlex.join((*docker, "cp", f"{container}:{path}", "-"))
    absent = "|".join(f"*{shlex.quote(words)}*" for words in _NOT_THERE)
    return (
        f"exec 5>&1; said=$({copy} 2>&1 >&5 5>&-); rc=$?; "
        f'[ -z "$said" ] || printf "%s\\n" "$said" >&2; '
        f"[ $rc -eq 0 ] || case $said in {absent}) exit {ABSENT};; esac; exit $rc"
    )


@dataclass(frozen=True)
class RootFileRead(Read):
    """A file below the root; its reply is for :func:`plain`. Status ``ABSENT`` when it isn't there."""

    docker: tuple[str, ...]
    container: str
    path: str
    #: the record of an adopted container
    record: str

    @property
    def script(self) -> str:
        out = copy_out(self.docker, self.container, self.path)
        host = FileRead(self.key, self.path).script
        return f"if [ -e {shlex.quote(self.record)} ]; then {out}; else {host}; fi"


@dataclass(frozen=True)
class RootNamesRead(Read):
    """Names in a folder below the root, hidden ones left out; its reply is for :func:`plain`."""

    docker: tuple[str, ...]
    container: str
    path: str
    #: the record of an adopted container
    record: str

    @property
    def script(self) -> str:
        out = copy_out(self.docker, self.container, self.path)
        host = f"ls -1 -- {shlex.quote(self.path)}"
        return f"if [ -e {shlex.quote(self.record)} ]; then {out}; else {host}; fi"


def plain(reply: Reply) -> Reply:
    """The reply with the content of a file, or the names in a folder, in place of the tar they came in."""
    data = reply.stdout
    if not reply.ok or len(data) < _BLOCK or data[_MAGIC] != b"ustar":
        return reply
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            first, *rest = tar.getmembers()
            content = tar.extractfile(first)
            if content is not None:
                return Reply(0, content.read(), reply.stderr)
    except (tarfile.TarError, ValueError, KeyError) as error:
        return Reply(1, b"", f"docker cp gave a damaged archive: {error}".encode())
    names = (entry.name.rstrip("/").split("/")[1:] for entry in rest)
    listed = sorted(parts[0] for parts in names if len(parts) == 1 and not parts[0].startswith("."))
    return Reply(0, "".join(f"{name}\n" for name in listed).encode(), reply.stderr)


def archive(name: str, data: bytes, mode: int) -> bytes:
    """A tar of one file that belongs to root, for ``docker cp - CONTAINER:FOLDER``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), mode
        tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
