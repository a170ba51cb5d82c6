"""Replies of a host, rewritten to what they would be after changes that were only planned. Pure."""

from __future__ import annotations

import hashlib
import posixpath
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace

from klops.actions.files.attributes import found
from klops.actions.touched import Becomes, Touched
from klops.commands.listing import Entry
from klops.commands.systemd import unit
from klops.remote.base import Reply
from klops.remote.environment import EnvironmentRead
from klops.remote.filereads import ChecksumRead, ContentRead
from klops.remote.reads import (
    ABSENT,
    ChecksumsRead,
    DigestRead,
    FileRead,
    FilesRead,
    PathRead,
    Read,
    RealPathRead,
    SameContentRead,
)
from klops.remote.systemreads import CrontabRead, UnitRead

#: who what is new may belong to, where that isn't known: user, group, and a size
Owner = tuple[int, int, int]
ROOT: Owner = (0, 0, 0)
ANYBODY: Owner = (2**32 - 2, 2**32 - 2, 1)
#: reads to which the attributes of a path don't matter
AT_CONTENT = (FileRead, DigestRead, ChecksumsRead, SameContentRead, ContentRead, ChecksumRead)
_MAKES = (Becomes.FILE, Becomes.DIRECTORY, Becomes.UNSURE)
_UNIT_FOLDERS = tuple(f"{top}/systemd/" for top in ("/etc", "/run", "/lib", "/usr/lib", "/usr/local/lib"))


@dataclass(frozen=True)
class _Now:
    """What has become of a path: ``becomes`` None for nothing. Others as in :class:`Touched`."""

    becomes: Becomes | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    content: bytes | None = None


_UNSURE = _Now(Becomes.UNSURE)
_GONE = _Now(Becomes.ABSENT)


def inner(read: Read) -> Read:
    """The read without the environment that it is asked in."""
    return read.read if isinstance(read, EnvironmentRead) else read


def rewritten(read: Read, reply: Reply, touched: Sequence[Touched], owner: Owner) -> Reply | str:
    """The reply as it would be then, or the path because of which it can't be told."""
    read = inner(read)
    if isinstance(read, PathRead):
        return _path(read, reply, touched, owner)
    if isinstance(read, CrontabRead):
        return _crontab(read, reply, touched)
    if isinstance(read, FilesRead):
        return _files(read, reply, touched)
    if isinstance(read, UnitRead):
        return _unit(read, reply, touched)
    for look in read.looks:
        if look.endswith("/"):
            if _within(look, touched):
                return look.rstrip("/") or "/"
            continue
        now = _now(look, touched, there=reply.ok)
        if now.becomes is None:
            continue
        answer = _answer(read, look, reply, now)
        if answer is None:
            return look
        if answer is not reply:
            return answer
    return reply


def _now(path: str, touched: Sequence[Touched], *, there: bool) -> _Now:
    """What a path has become by all of it, in order. ``there``: something was there before."""
    path, tail = plain(path), _end(path)
    now = _Now()
    for one in touched:
        if tail and one.path.endswith(tail):
            now = _UNSURE
        elif one.path == path:
            now = _made(now, one)
        elif _is_below(path, one.path):
            if one.becomes is Becomes.ABSENT:
                now = _GONE
            elif one.below:
                now = _UNSURE
        elif _is_below(one.path, path) and one.becomes in _MAKES:
            # folders above what is made are made, too
            is_there = there if now.becomes is None else now.becomes is not Becomes.ABSENT
            now = now if is_there else _UNSURE
    return now


def _made(now: _Now, one: Touched) -> _Now:
    if one.becomes is not Becomes.SAME:
        return _Now(one.becomes, one.mode, *one.owner, one.content)
    if now.becomes in (Becomes.UNSURE, Becomes.ABSENT):
        return _UNSURE
    uid, gid = one.owner
    return replace(
        now,
        becomes=now.becomes or Becomes.SAME,
        mode=now.mode if one.mode is None else one.mode,
        uid=now.uid if uid is None else uid,
        gid=now.gid if gid is None else gid,
    )


def _path(read: PathRead, reply: Reply, touched: Sequence[Touched], owner: Owner) -> Reply | str:
    (path,) = read.paths
    there = found(reply)
    now = _now(path, touched, there=there.own is not None)
    if now.becomes is None:
        return reply
    if now.becomes is Becomes.ABSENT:
        return reply if there.own is None else Reply(2, b"", b"")
    if now.becomes is Becomes.UNSURE or (
        now.becomes is Becomes.SAME and (there.own is None or there.own.type == "link")
    ):
        return path
    if now.becomes is Becomes.SAME and there.own is not None:
        had, names = there.own, (there.owner, there.group)
    else:
        kind = "directory" if now.becomes is Becomes.DIRECTORY else "file"
        size = owner[2] if now.content is None else len(now.content)
        had, names = Entry(kind, 0, *owner[:2], size), (str(owner[0]), str(owner[1]))
        if now.mode is None:
            return path
    entry = replace(
        had,
        mode=had.mode if now.mode is None else now.mode,
        uid=had.uid if now.uid is None else now.uid,
        gid=had.gid if now.gid is None else now.gid,
    )
    user = names[0] if now.uid in (None, had.uid) else str(now.uid)
    group = names[1] if now.gid in (None, had.gid) else str(now.gid)
    numbered = _line(path, entry, str(entry.uid), str(entry.gid))
    return Reply(0, (numbered + _line(path, entry, user, group)).encode("utf-8", "surrogateescape"), b"")


_FORMATS = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "char": stat.S_IFCHR,
    "block": stat.S_IFBLK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}


def _line(path: str, entry: Entry, user: str, group: str) -> str:
    letters = stat.filemode(_FORMATS[entry.type] | entry.mode)
    size = entry.size if entry.major is None else f"{entry.major}, {entry.minor}"
    return f"{letters} {entry.links} {user} {group} {size} Jan  1  2000 {path}\n"


def _answer(read: Read, path: str, reply: Reply, now: _Now) -> Reply | None:
    """Of a path that was touched; None when that can't be told."""
    if now.becomes is Becomes.UNSURE:
        return None
    if isinstance(read, RealPathRead):
        # the last part is no link then; what is above it is as it was
        if reply.ok:
            return reply if posixpath.basename(reply.text.rstrip("\n")) == posixpath.basename(path) else None
        return None if now.becomes is Becomes.ABSENT else Reply(0, f"{path}\n".encode(), b"")
    if now.becomes is Becomes.SAME:
        return reply if isinstance(read, AT_CONTENT) else None
    if now.becomes is Becomes.ABSENT:
        if not reply.ok:
            return reply
        return Reply(ABSENT, b"", b"") if isinstance(read, (FileRead, DigestRead)) else None
    if now.becomes is Becomes.FILE and now.content is not None:
        if isinstance(read, FileRead):
            return Reply(0, now.content[: read.limit], b"")
        if isinstance(read, DigestRead):
            return Reply(0, hashlib.sha256(now.content).hexdigest().encode() + b"\n", b"")
    if now.becomes is Becomes.DIRECTORY:
        if isinstance(read, FileRead):
            return Reply(1, b"", b"not a regular file\n")
        if isinstance(read, DigestRead):
            return Reply(ABSENT, b"", b"")
    return None


def _crontab(read: CrontabRead, reply: Reply, touched: Sequence[Touched]) -> Reply | str:
    (look,) = read.looks
    for one in reversed(touched):
        if one.path == look and one.becomes is Becomes.FILE and one.content is not None:
            return Reply(0, one.content, b"")
        if one.path.startswith("cron:") and (one.path == look or "cron:" in (one.path, look)):
            # one's own may be that of the other name
            return look
    return reply


def _files(read: FilesRead, reply: Reply, touched: Sequence[Touched]) -> Reply | str:
    (look,) = read.looks
    folder = look.rstrip("/") or "/"
    now = _now(folder, touched, there=reply.rc != ABSENT)
    if reply.rc == ABSENT and now.becomes is Becomes.DIRECTORY and not _filled(folder, touched):
        return Reply(0, b"", b"")
    return folder if _within(look, touched) else reply


def _unit(read: UnitRead, reply: Reply, touched: Sequence[Touched]) -> Reply | str:
    (look,) = read.looks
    if any(one.path == look for one in touched):
        return look
    files = [one.path for one in touched if one.path.startswith(_UNIT_FOLDERS)]
    # what a unit that is there does isn't changed by its file
    if reply.rc in (0, 1) and not unit(reply.text).found and files:
        return files[0]
    return reply


def _within(look: str, touched: Sequence[Touched]) -> bool:
    """Whether anything at or below a folder was touched, or all that is below one above it."""
    folder = plain(look.rstrip("/") or "/")
    return any(
        within(one.path, folder)
        or (_is_below(folder, one.path) and (one.below or one.becomes is Becomes.ABSENT))
        for one in touched
    )


def _filled(folder: str, touched: Sequence[Touched]) -> bool:
    return any(_is_below(one.path, plain(folder)) for one in touched)


def plain(path: str) -> str:
    """A path without dots and doubled slashes; what is none as it is."""
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else path


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return path == folder or _is_below(path, folder)


def _end(path: str) -> str:
    """The end of a path that the host expands; "" for one that says itself where it is."""
    return "/" + path.partition("/")[2] if path.startswith(("~", "$")) and "/" in path else ""


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/") and path != folder
