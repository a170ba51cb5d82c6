"""Unix sockets that have a path, from /proc/net/unix."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from klops.agent.processes import procs

_LIST = "/proc/self/net/unix"
#: A line of it: flags, inode and name. Names are there as they were given, ends of lines in them too, so that
#: there are lines which are but the rest of a name.
_LINE = re.compile(rb"\S+: \S+ \S+ ([0-9A-Fa-f]+) \S+ \S+ +([0-9]+) (.+)")
#: Set for a socket that listens.
_ACCEPTS = 0x10000


class Bound(NamedTuple):
    """A socket with a name in a file system."""

    #: of the socket, as ``stat`` of a descriptor has it; not of the file that is its name
    inode: int
    #: as it was bound: it may be relative, or lead through a link
    path: str
    listens: bool


def bound() -> list[Bound]:
    """All of this network namespace: also those that were accepted, which have the path of the listener.

    Raises ``OSError`` where there is no list: that is no news of any socket.
    """
    text = procs.slurp(_LIST)
    if not text:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), _LIST)
    found = []
    for line in text.split(b"\n")[1:]:
        fields = _LINE.fullmatch(line)
        if fields is not None and not fields[3].startswith(b"@"):
            found.append(Bound(int(fields[2]), os.fsdecode(fields[3]), bool(int(fields[1], 16) & _ACCEPTS)))
    return found
