"""Pointers of Git LFS, and the content they stand for, found without git-lfs.

A pointer is a small text: its version, further settings in the order of their names, among them ``oid``
(sha256 of the content) and ``size``. The whole of a file has to have that form: one that is about pointers is
none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from klops.commands import git as calls
from klops.source.git import said
from klops.source.git.command import GitFailed, run
from klops.source.git.repository import Repository

#: Bytes of the longest pointer, by the specification.
LONGEST = 1024
_POINTER = re.compile(
    rb"version (?:https://git-lfs\.github\.com/spec/v1|https://hawser\.github\.com/spec/v1|http://git-media\.io/v/2)\n"
    rb"(?:ext-[0-9]-[a-z0-9.-]+ [^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\n"
    rb"size ([0-9]+)\n?\Z"
)


class Pointer(NamedTuple):
    """What a pointer stands for: content of ``size`` bytes with this ``sha256``."""

    sha256: str
    size: int


def pointer(content: bytes) -> Pointer | None:
    """The pointer that a file is; None for any other file."""
    if len(content) > LONGEST:
        return None
    found = _POINTER.match(content.replace(b"\r\n", b"\n"))
    return Pointer(found[1].decode("ascii"), int(found[2])) if found else None


def stores(repository: Repository) -> tuple[Path, ...]:
    """Folders that content may be in: the repository's own, and those of others that it borrows from."""
    try:
        wanted = said.text(run(calls.setting("lfs.storage"), repository.environment()).rstrip(b"\0"))
    except GitFailed as error:
        if error.rc != 1:
            raise
        wanted = "lfs"
    found = [repository.common_dir / wanted / "objects"]
    for objects in repository.objects:
        found.append(objects.parent / "lfs" / "objects")
        alternates = objects / "info" / "alternates"
        if alternates.exists():
            lines = alternates.read_text("utf-8", "surrogateescape").splitlines()
            found += [(objects / line).parent / "lfs" / "objects" for line in lines if line]
    return tuple(dict.fromkeys(found))


def content(stores: tuple[Path, ...], wanted: Pointer) -> Path | None:
    """The file with the content; None when no store has one of that size."""
    for store in stores:
        path = store / wanted.sha256[:2] / wanted.sha256[2:4] / wanted.sha256
        if path.is_file() and path.stat().st_size == wanted.size:
            return path
    return None
