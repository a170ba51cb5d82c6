"""What stat says of a path on the host, under Ansible's names."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import Any

from klops.errors import TaskFailed
from klops.remote.base import Reply
from klops.remote.filereads import NO_PROGRAM

_FIELDS = 10
_GONE = "No such file or directory"
#: the letters of lsattr, and what they are called
ATTRIBUTES: Mapping[str, str] = {
    "A": "noatime",
    "a": "append",
    "c": "compressed",
    "C": "nocow",
    "d": "nodump",
    "D": "dirsync",
    "e": "extents",
    "E": "encrypted",
    "h": "blocksize",
    "i": "immutable",
    "I": "indexed",
    "j": "journalled",
    "N": "inline",
    "s": "zero",
    "S": "synchronous",
    "t": "notail",
    "T": "blockroot",
    "u": "undelete",
    "X": "compressedraw",
    "Z": "compresseddirty",
}


def parse(reply: Reply, *, mime: bool = False, attributes: bool = False) -> dict[str, Any]:
    """The value of ``stat`` from the answer to a :class:`~klops.remote.filereads.StatRead`.

    Only ``exists`` when nothing is there. Raises :class:`TaskFailed` when it could not be looked at.
    """
    if not reply.ok:
        return _absent(reply)
    fields = [field.decode("utf-8", "surrogateescape") for field in reply.stdout.split(b"\0")]
    if len(fields) <= _FIELDS:
        raise TaskFailed("the host's stat gave an answer that can't be read", code="stat")
    path, numbers, owner, group, may, source, target, checksum, file, lsattr = fields[:_FIELDS]
    found = {"exists": True, "path": path, **_numbers(numbers)}
    found |= {"readable": "r" in may, "writeable": "w" in may, "executable": "x" in may}
    if found["islnk"]:
        found |= {"lnk_source": source, "lnk_target": target}
    # both stats say UNKNOWN for a number without a name
    found |= {key: name for key, name in (("pw_name", owner), ("gr_name", group)) if name != "UNKNOWN"}
    if checksum:
        found["checksum"] = checksum
    if mime:
        found |= _mime(file)
    if attributes:
        found |= _attributes(lsattr)
    return found


def _absent(reply: Reply) -> dict[str, Any]:
    said = reply.error_text.strip()
    if reply.rc == NO_PROGRAM:
        raise TaskFailed(
            "the host has no program for it",
            hint="install coreutils there, or ask for less",
            code="no-program",
        )
    if said.endswith(_GONE):
        return {"exists": False}
    raise TaskFailed(said.rsplit(": ", 1)[-1] or "stat failed", code="stat")


def _numbers(text: str) -> dict[str, Any]:
    raw, uid, gid, size, inode, dev, links, blocks, block_size, major, minor, *moments = text.split()
    mode = int(raw, 16)
    found: dict[str, Any] = {
        "mode": f"{stat.S_IMODE(mode):04o}",
        "isdir": stat.S_ISDIR(mode),
        "ischr": stat.S_ISCHR(mode),
        "isblk": stat.S_ISBLK(mode),
        "isreg": stat.S_ISREG(mode),
        "isfifo": stat.S_ISFIFO(mode),
        "islnk": stat.S_ISLNK(mode),
        "issock": stat.S_ISSOCK(mode),
        "isuid": bool(mode & stat.S_ISUID),
        "isgid": bool(mode & stat.S_ISGID),
        "uid": int(uid),
        "gid": int(gid),
        "size": int(size),
        "inode": int(inode),
        "dev": int(dev),
        "nlink": int(links),
        "blocks": int(blocks),
        "block_size": int(block_size),
        "device_type": _device(int(major, 16), int(minor, 16)),
    }
    for place, who in enumerate(("usr", "grp", "oth")):
        found |= {f"{letter}{who}": bool(mode & bit >> 3 * place) for letter, bit in _BITS}
    found |= dict(zip(("atime", "mtime", "ctime"), map(_moment, moments), strict=True))
    return found


_BITS = (("r", stat.S_IRUSR), ("w", stat.S_IWUSR), ("x", stat.S_IXUSR))


def _device(major: int, minor: int) -> int:
    """A device's number as Linux puts it together."""
    return (minor & 0xFF) | (major & 0xFFF) << 8 | (minor & ~0xFF) << 12 | (major & ~0xFFF) << 32


def _moment(text: str) -> float:
    """Seconds since 1970; busybox gives whole ones."""
    whole, _, rest = text.partition(".")
    return int(whole) + 1e-9 * int(rest.ljust(9, "0")[:9] or 0)


def _mime(answer: str) -> dict[str, str]:
    kind, found, charset = answer.partition("; charset=")
    return {"mimetype": kind, "charset": charset} if found else {"mimetype": "unknown", "charset": "unknown"}


def _attributes(answer: str) -> dict[str, Any]:
    """From ``VERSION LETTERS PATH``; file systems without attributes say nothing."""
    words = answer.split()
    if len(words) < 3:
        return {"version": None, "attributes": [], "attr_flags": ""}
    letters = words[1].replace("-", "")
    names = [ATTRIBUTES[letter] for letter in letters if letter in ATTRIBUTES]
    return {"version": words[0], "attributes": names, "attr_flags": letters}
