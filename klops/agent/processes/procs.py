"""The process table, read from /proc."""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

#: States in which a process has ended and only waits to be reaped: counted as gone.
ENDED = "ZXx"
#: States of a stopped process: it can't act on TERM.
HALTED = "Tt"
#: Uninterruptible sleep: it waits where no signal reaches it, for a disk or in a driver.
WAITING = "D"
#: The main process of a pid namespace.
INIT = 1
#: Flags of a thread: it is the kernel's; it is on its way out.
_KERNEL = 0x00200000
_EXITING = 0x00000004
_NOTHING_THERE = (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError)


class Process(NamedTuple):
    """One line of the table. ``start``, in clock ticks since boot, tells processes of one pid apart."""

    pid: int
    ppid: int
    pgrp: int
    session: int
    #: its first thread's; where that has ended and others have not, theirs
    state: str
    start: int
    #: at most 15 characters, as the kernel keeps it
    name: str
    threads: int = 1
    #: a thread of the kernel: it has no descriptors, no memory, and nobody ends it
    kernel: bool = False
    #: its first thread is on its way out: the main process of a container stays so while others are stuck
    exiting: bool = False

    @property
    def alive(self) -> bool:
        """Whether it still runs: a zombie doesn't, unless only its first thread has ended."""
        return self.state not in ENDED or self.threads > 1


def parse_stat(data: bytes) -> Process:
    """Read ``/proc/PID/stat``. The name may hold blanks and parentheses, so it ends at the last one."""
    left, right = data.index(b"("), data.rindex(b")")
    rest = data[right + 2 :].split()
    flags = int(rest[6])
    return Process(
        pid=int(data[:left]),
        state=rest[0].decode("ascii"),
        ppid=int(rest[1]),
        pgrp=int(rest[2]),
        session=int(rest[3]),
        start=int(rest[19]),
        name=data[left + 1 : right].decode("utf-8", "replace"),
        threads=int(rest[17]),
        kernel=bool(flags & _KERNEL),
        exiting=bool(flags & _EXITING),
    )


def slurp(path: str) -> bytes:
    """A small file of /proc, whole; b"" when its process is gone or may not be read.

    Raises ``OSError`` when nothing can be read at all (no descriptors, no memory): that is no news of a
    process.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except _NOTHING_THERE:
        return b""
    try:
        parts: list[bytes] = []
        while True:
            part = os.read(fd, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except _NOTHING_THERE:
        return b""
    finally:
        os.close(fd)


def read(pid: int) -> Process | None:
    """One process, or None when there is none of that pid."""
    data = slurp(f"/proc/{pid}/stat")
    if not data:
        return None
    process = parse_stat(data)
    if process.state in ENDED and process.alive:
        left = [state for state in threads(pid).values() if state not in ENDED]
        # one that waits is what keeps it from ending
        return process._replace(state=WAITING if WAITING in left else [*left, process.state][0])
    return process


def threads(pid: int) -> dict[int, str]:
    """State of each thread of a process, the first one first; empty when it is gone or may not be seen."""
    folder = f"/proc/{pid}/task"
    try:
        names = os.listdir(folder)
    except _NOTHING_THERE:
        return {}
    stats = {int(name): slurp(f"{folder}/{name}/stat") for name in names}
    # the name before it may hold blanks and parentheses, as in parse_stat
    return {thread: chr(stat[stat.rindex(b")") + 2]) for thread, stat in stats.items() if stat}


def pids() -> list[int]:
    """All pids of this pid namespace."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def table() -> dict[int, Process]:
    """All processes by pid, zombies too. What ends meanwhile is left out."""
    found = {}
    for pid in pids():
        process = read(pid)
        if process is not None:
            found[pid] = process
    return found


def defunct(processes: Iterable[Process]) -> dict[int, list[Process]]:
    """Dead processes that nobody has reaped yet, by the pid of who should."""
    found: dict[int, list[Process]] = {}
    for process in processes:
        if not process.alive:
            found.setdefault(process.ppid, []).append(process)
    return found


def title(pid: int) -> str:
    """The command line as ``ps`` shows it; "" for zombies and kernel threads."""
    return slurp(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip().decode("utf-8", "replace")


def ancestors(pid: int, processes: dict[int, Process]) -> Iterable[int]:
    """Parents of a pid, nearest first."""
    seen = {pid}
    while pid in processes:
        pid = processes[pid].ppid
        if pid in seen or pid not in processes:
            return
        seen.add(pid)
        yield pid
