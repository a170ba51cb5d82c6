"""Things in shared memory that klops may remove, if nobody has them open.

What stands on the list of a unit of which nothing lives is klops' own. In a container that klops made nobody
else keeps shared memory, so there a file of the supervisor's user counts too when its name is one of those
that vLLM and what it is built on give theirs.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterable, Mapping, NamedTuple

from klops.agent.processes import procs, sysv
from klops.agent.processes.procs import Process
from klops.agent.processes.sysv import Segment
from klops.agent.units import traces
from klops.agent.units.traces import File, Traces

#: Beginnings of names in /dev/shm, and whose they are.
PREFIXES = {
    "psm_": "Python's shared memory",  # multiprocessing.shared_memory._SHM_NAME_PREFIX
    "sem.mp-": "a semaphore of Python's multiprocessing",  # multiprocessing.synchronize.SemLock._make_name
    "vllm_dist_": "a message queue of vLLM's workers",  # seen with vLLM 0.15 after KILL of its workers
    "vllm_offload_": "vLLM's KV cache in main memory",  # vLLM, kv_offload: /dev/shm/vllm_offload_ID.mmap
    "nccl-": "a buffer of a collective",  # NCCL, misc/shmutils.cc: /dev/shm/nccl-XXXXXX
    "torch_": "a tensor that torch shares",  # torch, StorageSharing: /torch_PID_NUMBER_NUMBER
}
#: Names in /tmp: sockets of ZeroMQ, which vLLM never removes, and its meeting point of the workers.
_SOCKET = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_MEETING = "vllm_dist_"
TMP = "/tmp"  # noqa: S108 - the folder itself is meant, nothing is made there


class Claim(NamedTuple):
    """Something that klops may remove."""

    thing: File | Segment
    bytes: int
    #: ``shm``, ``sysv``, ``socket`` or ``file``
    kind: str
    #: the unit that left it, "" when only its name speaks
    unit: str
    why: str
    #: seconds since 1970 of its last change
    changed: float = 0.0

    @property
    def name(self) -> str:
        """Its path, or what stands for one."""
        return self.thing.path if isinstance(self.thing, File) else f"sysv:{self.thing.id}"

    def entry(self, why: str, *, removed: bool = False) -> dict[str, Any]:
        """What the verb lists."""
        return {
            "path": self.name,
            "bytes": self.bytes,
            "kind": self.kind,
            "action": "removed" if removed else "none",
            "why": why,
        }


def on_list(unit: str, listed: Traces) -> list[Claim]:
    """What of a unit's list is still there."""
    why = f"left behind by {unit}"
    claims = [Claim(file, _size(file.path), file.kind, unit, why) for file in listed.files if file.there]
    present = {(one.id, one.ctime, one.cpid): one for one in sysv.segments()}
    for segment in listed.segments:
        now = present.get((segment.id, segment.ctime, segment.cpid))
        if now is not None:
            claims.append(Claim(now, now.size, "sysv", unit, why))
    return claims


def by_name(shm: str, tmp: str, processes: Mapping[int, Process], own: Iterable[int]) -> list[Claim]:
    """Files with a name of vLLM's in a container that is klops' own. ``own``: pids of klops."""
    claims = []
    for path in _paths(shm):
        whose = next((text for head, text in PREFIXES.items() if os.path.basename(path).startswith(head)), "")
        file = traces.look(path, traces.MEMORY) if whose else None
        if file is not None:
            claims.append(_named(file, traces.MEMORY, f"by its name {whose}"))
    born = _born(processes, own)
    for path in _paths(tmp):
        name = os.path.basename(path)
        if _SOCKET.match(name):
            file = traces.look(path, traces.SOCKET)
            if file is not None:
                claims.append(_named(file, traces.SOCKET, "by its name a socket of vLLM's processes"))
        elif name.startswith(_MEETING):
            file = traces.look(path, traces.MEMORY)
            claim = _named(file, "file", "by its name where vLLM's workers met") if file is not None else None
            # it is opened for moments only, so who has it open says nothing: everybody who was there when it
            # was last changed has to be gone
            if claim is not None and claim.changed < born:
                claims.append(claim)
    return claims


def _paths(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    except FileNotFoundError:
        return []


def _named(file: File, kind: str, why: str) -> Claim:
    try:
        changed = os.lstat(file.path).st_ctime
    except OSError:  # gone meanwhile: what is left to do finds that out
        changed = time.time()
    return Claim(file, _size(file.path), kind, "", why, changed)


def _born(processes: Mapping[int, Process], own: Iterable[int]) -> float:
    """When the oldest process began that isn't klops' own or the init, seconds since 1970."""
    ours = {procs.INIT, *own}  # the container's own init has no shared memory
    starts = [one.start for one in processes.values() if one.alive and one.pid not in ours]
    return min((traces.clock(start) for start in starts), default=float("inf"))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
