"""Reading ``ls -lnd`` in the C locale: the one listing that every POSIX host can give.

A line is ``MODE LINKS UID GID SIZE DATE NAME``, where devices have ``MAJOR, MINOR`` in place of the size and
links end with `` -> TARGET``. GNU, busybox and BSD agree on it. Names may hold spaces. Busybox prints ``?``
for what isn't ASCII in a name: who asks for one path knows its name, who asks for many prints the same line
with ``stat -c`` and :data:`STAT_LINE`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Format of ``stat -c`` that gives the line of a listing, names byte by byte: without times, the numbers of
#: devices and the targets of links.
STAT_LINE = "%A %h %u %g %s Jan  1 00:00 %n"

_TYPES = {
    "-": "file",
    "d": "directory",
    "l": "link",
    "c": "char",
    "b": "block",
    "p": "fifo",
    "s": "socket",
}
# The mark after the mode says that an ACL (+), an SELinux context (.) or extended attributes (@) exist.
_LINE = re.compile(
    r"(?P<type>[-dlcbps])(?P<mode>[-rwxsStT]{9})[.+@]?\s+(?P<links>\d+)\s+(?P<uid>\d+)\s+(?P<gid>\d+)\s+"
    r"(?:(?P<major>\d+),\s*(?P<minor>\d+)|(?P<size>\d+))\s+"
    r"[A-Z][a-z]{2}\s+\d{1,2}\s+(?:\d{1,2}:\d{2}|\d{4,}) (?P<name>.+)"
)
_NAMED = re.compile(r"[-dlcbps][-rwxsStT]{9}[.+@]?\s+\d+\s+(?P<owner>\S+)\s+(?P<group>\S+)\s")


@dataclass(frozen=True)
class Entry:
    """One path of a listing.

    ``type`` is file, directory, link, char, block, fifo or socket; ``mode`` the permission bits (with setuid,
    setgid and sticky); ``size`` in bytes, 0 for devices; ``major``/``minor`` are of devices, ``target`` of
    symbolic links; ``links`` counts the hard ones.
    """

    type: str
    mode: int
    uid: int
    gid: int
    size: int = 0
    major: int | None = None
    minor: int | None = None
    target: str = ""
    links: int = 1


def parse(text: str) -> dict[str, Entry]:
    """Entries by path as it was asked for; lines that are none (errors, noise) are passed over.

    >>> parse("-rwsr-xr-x 1 0 0 12 Nov 29 15:26 /a b\\n")["/a b"].mode == 0o4755
    True
    """
    found: dict[str, Entry] = {}
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        kind = _TYPES[match["type"]]
        name, target = match["name"], ""
        if kind == "link":
            name, _, target = name.partition(" -> ")
        found[name] = Entry(
            type=kind,
            mode=mode_bits(match["mode"]),
            uid=int(match["uid"]),
            gid=int(match["gid"]),
            size=int(match["size"] or 0),
            major=int(match["major"]) if match["major"] else None,
            minor=int(match["minor"]) if match["minor"] else None,
            target=target,
            links=int(match["links"]),
        )
    return found


def names(line: str) -> tuple[str, str]:
    """Owner and group as a line of ``ls -ld`` names them; empty for what is no such line.

    >>> names("drwxr-xr-x 2 root adm 4096 Nov 29 15:26 /var/log")
    ('root', 'adm')
    """
    match = _NAMED.match(line)
    return (match["owner"], match["group"]) if match else ("", "")


def mode_bits(letters: str) -> int:
    """The permission bits of nine letters such as ``rwsr-xr-t``.

    >>> oct(mode_bits("rwxrwxrwt"))
    '0o1777'
    """
    bits = 0
    for place, letter in enumerate(letters):
        if letter in "rwxst":
            bits |= 1 << (8 - place)
        # s and S stand in the owner's and the group's x place, t and T in that of the others
        if letter in "sStT":
            bits |= (0o4000, 0o2000, 0o1000)[place // 3]
    return bits
