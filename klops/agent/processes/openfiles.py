"""What processes have open and mapped, by device and inode: a path can be another file by now."""

from __future__ import annotations

import os
import re
import time
from typing import Collection, Iterable, Iterator, NamedTuple

from klops.agent.processes import procs
from klops.agent.processes.procs import Process

#: A mapping of a file: device, inode and path.
_MAPPING = re.compile(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9][0-9]*) +(/.*)$", re.MULTILINE)
#: Seconds that are waited, for all of a pass, until processes are out of uninterruptible sleep: most read
#: from a disk.
PATIENCE = 0.2
_LOOK = 0.02


class Mapping(NamedTuple):
    """A file that is mapped."""

    dev: int
    inode: int
    #: the name that it was mapped by: glibc maps a semaphore before it gives that the name which it keeps
    path: str


def mapped(pid: int, folder: str = "/") -> Iterator[Mapping]:
    """Mapped files of a process below a folder, by the path that they have for it.

    Raises ``PermissionError`` when they can't be seen; of one that is gone there are none.
    """
    _, data = maps(pid)
    wanted = os.fsencode(folder)
    if wanted not in data:
        return
    for major, minor, inode, path in _MAPPING.findall(data):
        if path.startswith(wanted):
            dev = os.makedev(int(major, 16), int(minor, 16))
            yield Mapping(dev, int(inode), os.fsdecode(path))


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    parts: list[bytes] = []
    try:
        while not parts or parts[-1]:
            parts.append(os.read(fd, 65536))
    except ProcessLookupError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)


def folders(pid: int) -> Iterator[str]:
    """Folders of /proc in which to look, one after another, for what the threads of a process share.

    The first thread's; where that is on its way out, or has ended, nothing may be left in it of what the
    others still have: theirs too.
    """
    yield f"/proc/{pid}"
    first = procs.read(pid)
    if first is not None and first.exiting and first.alive:
        for thread, state in procs.threads(pid).items():
            if thread != pid and state not in procs.ENDED:
                yield f"/proc/{pid}/task/{thread}"


def maps(pid: int) -> tuple[str, bytes]:
    """The mappings of a process as text, and the folder of /proc that they are in.

    Raises ``PermissionError`` when they can't be seen; of one that is gone there are none.
    """
    folder, data = "", b""
    for folder in folders(pid):
        data = _read(f"{folder}/maps")
        if data:
            break
    return folder, data


def opened(pid: int) -> list[os.stat_result]:
    """What the descriptors of a process lead to.

    Raises ``PermissionError`` when they can't be seen; of one that is gone there are none.
    """
    found: list[os.stat_result] = []
    for folder in folders(pid):
        found, whole = _descriptors(folder)
        if whole:
            break
    return found


def _descriptors(folder: str) -> tuple[list[os.stat_result], bool]:
    """Where those in a folder of /proc lead to, and whether there are any and none went away meanwhile."""
    try:
        fd = os.open(f"{folder}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return [], False
    found = []
    names: list[str] = []
    try:
        names = os.listdir(fd)
        for name in names:
            try:
                found.append(os.stat(name, dir_fd=fd))
            except PermissionError:
                raise
            except OSError:
                continue  # closed meanwhile
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile
    finally:
        os.close(fd)
    return found, bool(names) and len(found) == len(names)


class Holders(NamedTuple):
    """Who has files open or mapped."""

    #: by device and inode
    by_key: dict[tuple[int, int], list[Process]]
    #: by the path that they have for who maps them: where a file system is stacked on another, the device in
    #: the map isn't the one of ``stat``
    by_path: dict[str, list[Process]]
    #: processes that could not be looked at, so that nothing is known of any file
    unseen: list[Process]

    def of(self, key: tuple[int, int], path: str) -> list[Process]:
        """Who has this file."""
        found = {p.pid: p for p in [*self.by_key.get(key, ()), *self.by_path.get(path, ())]}
        return [found[pid] for pid in sorted(found)]


def readable(process: Process) -> bool:
    """Whether its map can be read without the risk to wait for a driver.

    A thread in uninterruptible sleep may have the map of all of them locked for as long as it stays there,
    and whoever reads the map then stays with it.
    """
    if process.state == procs.WAITING:
        return False
    return process.threads == 1 or procs.WAITING not in procs.threads(process.pid).values()


def settled(process: Process, until: float) -> bool:
    """Whether its map can be read by then, or it is gone."""
    now: Process | None = process
    while now is not None and now.start == process.start and not readable(now):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK)
        now = procs.read(process.pid)
    return True


def holders(processes: Iterable[Process], keys: Collection[tuple[int, int]], folder: str) -> Holders:
    """Who of these has any of the files, which are all below ``folder``, open or mapped: one pass."""
    found = Holders({}, {}, [])
    until = time.monotonic() + PATIENCE
    # those that have to be waited for come last
    for process in sorted(processes, key=lambda one: one.state == procs.WAITING):
        if not process.alive:
            continue
        try:
            for status in opened(process.pid):
                key = (status.st_dev, status.st_ino)
                if key in keys:
                    found.by_key.setdefault(key, []).append(process)
            if not settled(process, until):
                found.unseen.append(process)
                continue
            for one in mapped(process.pid):
                if (one.dev, one.inode) in keys:
                    found.by_key.setdefault((one.dev, one.inode), []).append(process)
                elif one.path.startswith(folder):
                    found.by_path.setdefault(one.path, []).append(process)
        except PermissionError:
            found.unseen.append(process)
    return found
