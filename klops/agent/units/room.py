"""Room in /dev/shm before a start: with too little of it a server dies later, and rarely says of what."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from klops.agent.processes import openfiles
from klops.agent.processes.procs import Process
from klops.agent.trouble import reason
from klops.agent.units import traces

#: How many of the biggest files are named.
_NAMED = 5


class _Big(NamedTuple):
    bytes: int
    name: str
    dev: int
    inode: int


def shortage(spec: Mapping[str, Any], processes: Mapping[int, Process], shm: str = traces.SHM) -> str:
    """What is wrong with the room there is, "" when it is enough; with the biggest files and who has them."""
    needed = int(spec.get("min_shm", 0))
    if not needed:
        return ""
    try:
        status = os.statvfs(shm)
    except OSError as error:
        return f"how much room there is in {shm} can't be seen: {reason(error)}"
    # a tmpfs without a limit says that it has no blocks at all
    if not status.f_blocks or status.f_bavail * status.f_frsize >= needed:
        return ""
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    text = f"{shm} has {_mib(free)} of {_mib(size)} free, and min_shm asks for {_mib(needed)}"
    if size < needed:
        return f"{text}: make it larger (container.shm; of a container made by hand: docker run --shm-size)"
    biggest = ", ".join(_described(_biggest(shm), processes, shm))
    return (
        f"{text}; what takes most of it: {biggest or 'nothing that has a name'};"
        " klops reap removes what is klops' own and in nobody's use"
    )


def _mib(amount: int) -> str:
    return f"{amount / (1 << 20):.0f} MiB"


def _biggest(shm: str) -> list[_Big]:
    found = []
    for folder, _, names in os.walk(shm):
        for name in names:
            path = f"{folder}/{name}"
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            found.append(_Big(status.st_blocks * 512, path, status.st_dev, status.st_ino))
    return sorted(found, reverse=True)[:_NAMED]


def _described(files: list[_Big], processes: Mapping[int, Process], shm: str) -> list[str]:
    held = openfiles.holders(processes.values(), {(one.dev, one.inode) for one in files}, shm)
    lines = []
    for one in files:
        who = held.of((one.dev, one.inode), one.name)
        users = ", ".join(f"pid {p.pid} ({p.name})" for p in who)
        nobody = "by whom can't be seen" if held.unseen else "nobody in this container"
        lines.append(f"{one.name} {_mib(one.bytes)} (open: {users or nobody})")
    return lines
