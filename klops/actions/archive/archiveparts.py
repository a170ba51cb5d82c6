"""Which members of an archive are wanted, and which of them a host has otherwise. Pure."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from klops.actions.archive.archives import Kind, Member, refused


@dataclass(frozen=True)
class There:
    """What a host has in a member's place."""

    kind: Kind | Literal["other"]
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    sha256: str = ""
    target: str = ""


def chosen(
    found: Sequence[Member], include: Sequence[str], exclude: Sequence[str], strip: int
) -> tuple[Member, ...]:
    """Members that are wanted, with ``strip`` folders taken off their names.

    ``include`` names members or folders, ``exclude`` has patterns that match a name, or the end of one, and
    all below. Raises :class:`TaskFailed` for something included that isn't there.
    """
    included = [posixpath.normpath(name) for name in include]
    for name in included:
        if not any(_below(member.name, name) or fnmatch.fnmatchcase(member.name, name) for member in found):
            raise refused(f"{name} is not in the archive", "name it as tar -t lists it")
    kept = []
    for member in found:
        if included and not any(
            _below(member.name, name) or fnmatch.fnmatchcase(member.name, name) for name in included
        ):
            continue
        if any(_excluded(member.name, pattern.rstrip("/")) for pattern in exclude):
            continue
        name = "/".join(member.name.split("/")[strip:])
        target = "/".join(member.target.split("/")[strip:]) if member.kind == "hard" else member.target
        if name:
            kept.append(replace(member, name=name, target=target))
    names = {member.name for member in kept}
    # a hard link to what is left out becomes a file of its own
    return tuple(
        replace(member, kind="file", target="")
        if member.kind == "hard" and member.target not in names
        else member
        for member in kept
    )


def differing(
    wanted: Sequence[Member], there: Mapping[str, There], *, owners: bool, times: bool, keep_newer: bool
) -> tuple[Member, ...]:
    """Members that the host hasn't, or has otherwise. ``times``: files of another age differ."""
    return tuple(
        member
        for member in wanted
        if _differs(member, there.get(member.name), owners=owners, times=times, keep_newer=keep_newer)
    )


def _below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def _excluded(name: str, pattern: str) -> bool:
    """As tar: a pattern may match the end of a name, from any slash on, and takes what is below with it."""
    parts = name.split("/")
    return any(
        fnmatch.fnmatchcase("/".join(parts[first : last + 1]), pattern)
        for first in range(len(parts))
        for last in range(first, len(parts))
    )


def _differs(member: Member, there: There | None, *, owners: bool, times: bool, keep_newer: bool) -> bool:
    kind = "file" if member.kind == "hard" else member.kind
    if there is None or there.kind != kind:
        return True
    if kind == "file" and keep_newer and there.mtime >= member.mtime:
        return False
    if owners and (there.uid, there.gid) != (member.uid, member.gid):
        return True
    if kind == "link":
        return there.target != member.target
    if there.mode != member.mode:
        return True
    if kind == "directory":
        return False
    return (there.size, there.sha256) != (member.size, member.sha256) or (
        times and there.mtime != member.mtime
    )
