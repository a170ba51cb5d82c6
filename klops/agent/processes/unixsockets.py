"""Unix sockets that have a path, from /proc/net/unix."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from klops.agent.processes import procs

_LIST = "/proc/self/net/unix"
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
    lines = procs.slurp(_LIST).splitlines()
    if not lines:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), _LIST)
    found = []
    for line in lines[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8 and not fields[7].startswith(b"@"):
            found.append(Bound(int(fields[6]), os.fsdecode(fields[7]), bool(int(fields[3], 16) & _ACCEPTS)))
    return found
