"""Shared memory segments of System V, as the kernel lists them for this IPC namespace."""

from __future__ import annotations

import os
from typing import NamedTuple

from klops.agent.processes import procs

_LIST = "/proc/sysvipc/shm"
#: Of shmctl; the same on every architecture.
_IPC_RMID = 0


class Segment(NamedTuple):
    """One segment. ``id`` and ``ctime`` tell it from a later one of the same key."""

    id: int
    key: int
    #: bytes
    size: int
    #: pid of its creator, 0 for one outside this pid namespace
    cpid: int
    #: how many mappings it has, in all containers
    attached: int
    uid: int
    #: seconds since 1970 when it was made, or its owner or mode changed
    ctime: int


def segments() -> list[Segment]:
    """All of this IPC namespace. None where the kernel has no System V memory."""
    lines = procs.slurp(_LIST).decode("ascii").splitlines()
    if not lines:
        return []
    names = lines[0].split()
    found = []
    for line in lines[1:]:
        fields = line.split()
        row = {name: fields[place] for place, name in enumerate(names)}
        found.append(
            Segment(
                id=int(row["shmid"]),
                key=int(row["key"]),
                size=int(row["size"]),
                cpid=int(row["cpid"]),
                attached=int(row["nattch"]),
                uid=int(row["uid"]),
                ctime=int(row["ctime"]),
            )
        )
    return found


def remove(segment: Segment) -> None:
    """Remove a segment. Raises ``OSError``."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmctl(ctypes.c_int(segment.id), ctypes.c_int(_IPC_RMID), None) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
