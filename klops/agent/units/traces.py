"""What the members of a unit have in shared memory, noted while they live: what they may leave behind.

Files in /dev/shm by device and inode, System V segments that a member made, sockets that a member listens on.
What was in /dev/shm before the launch is not the unit's, whoever of it uses that; without a note of what was
there no file counts. Once noted something stays on the list, over generations, until it is gone.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Iterable, NamedTuple, Sequence

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import openfiles, sysv, unixsockets
from klops.agent.processes.procs import Process
from klops.agent.processes.sysv import Segment

#: Where shared memory with a name is.
SHM = "/dev/shm"  # noqa: S108 - the folder itself is meant
#: Seconds between notes: of a unit that is ready, and of one that starts, as most is made during the start.
INTERVAL = 60.0
STARTING = 10.0
#: What a file of the list is.
MEMORY, SOCKET = "shm", "socket"
#: Ending of the files' names below ``run/``.
ENDING = ".traces.json"


class File(NamedTuple):
    """A file with the name and the identity that it had when it was seen."""

    path: str
    dev: int
    inode: int
    uid: int
    #: ``MEMORY`` or ``SOCKET``
    kind: str

    @property
    def there(self) -> bool:
        """Whether it still is the file of that name."""
        return look(self.path, self.kind) == self


class Traces(NamedTuple):
    """What is on the list of one unit."""

    files: list[File]
    segments: list[Segment]
    #: device and inode of what was in /dev/shm before the launch; None: nobody looked
    before: list[list[int]] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not self.files and not self.segments


def look(path: str, kind: str) -> File | None:
    """The file of a name, None when there is none of this kind."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    right = stat.S_ISREG if kind == MEMORY else stat.S_ISSOCK
    if not right(status.st_mode):
        return None
    return File(path, status.st_dev, status.st_ino, status.st_uid, kind)


def load(path: str) -> Traces:
    """The list of a unit, empty when it has none. Raises :class:`VerbError` when it can't be read."""
    value = store.read_json(path)
    if value is None:
        return Traces([], [])
    try:
        before = value["before"]
        return Traces(
            [File(str(f[0]), int(f[1]), int(f[2]), int(f[3]), str(f[4])) for f in value["files"]],
            [Segment(*(int(number) for number in one)) for one in value["segments"]],
            None if before is None else [[int(dev), int(inode)] for dev, inode in before],
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise VerbError(
            "damaged", f"{path} is no list of traces: {error!r}", "it is set aside at the next launch"
        ) from error


def save(path: str, traces: Traces) -> None:
    """Write the list. Raises ``OSError``."""
    store.write_json(path, traces._asdict())


def begin(path: str, shm: str = SHM) -> None:
    """Before a launch: note what is there already. Raises ``OSError``.

    A list that can't be read is set aside: it is no reason not to start.
    """
    try:
        files, segments, _ = load(path)
    except VerbError:
        store.set_aside(path)
        files, segments = [], []
    save(path, Traces(files, segments, [list(key) for key in present(shm)]))


def present(shm: str) -> dict[tuple[int, int], File]:
    """The files in /dev/shm by device and inode; none where there is no such folder. Raises ``OSError``."""
    try:
        names = os.listdir(shm)
    except FileNotFoundError:
        return {}
    found = (look(f"{shm}/{name}", MEMORY) for name in sorted(names))
    return {(one.dev, one.inode): one for one in found if one is not None}


def note(path: str, members: Sequence[Process], shm: str = SHM) -> None:
    """Bring the list up to date with what the living members have now.

    Raises ``OSError`` and :class:`VerbError`. A member that can't be looked at adds nothing.
    """
    known = load(path)
    files, segments = seen(members, shm)
    if known.before is None:
        files = [one for one in files if one.kind != MEMORY]
    else:
        before = {(dev, inode) for dev, inode in known.before}
        files = [one for one in files if one.kind != MEMORY or (one.dev, one.inode) not in before]
    # what has gone since is no longer anybody's
    kept = [one for one in dict.fromkeys([*known.files, *files]) if one.there]
    present_ids = {(one.id, one.ctime) for one in sysv.segments()}
    listed = {(one.id, one.ctime): one for one in [*segments, *known.segments]}
    merged = Traces(kept, [listed[key] for key in listed if key in present_ids], known.before)
    if merged != known:
        save(path, merged)


def seen(members: Iterable[Process], shm: str = SHM) -> tuple[list[File], list[Segment]]:
    """What processes have in shared memory, and the sockets that they listen on."""
    there = present(shm)
    had: set[tuple[int, int]] = set()
    sockets: set[int] = set()
    living = [one for one in members if one.alive]
    for member in living:
        with contextlib.suppress(PermissionError):
            _look_at(member, shm, had, sockets)
    files = [there[key] for key in there if key in had]
    if sockets:
        files += _listening(sockets)
    starts = {one.pid: one.start for one in living}
    return files, [one for one in sysv.segments() if _made_by(one, starts)]


def _look_at(member: Process, shm: str, had: set[tuple[int, int]], sockets: set[int]) -> None:
    for status in openfiles.opened(member.pid):
        if stat.S_ISSOCK(status.st_mode):
            sockets.add(status.st_ino)
        elif stat.S_ISREG(status.st_mode):
            had.add((status.st_dev, status.st_ino))
    if openfiles.readable(member):
        had.update((one.dev, one.inode) for one in openfiles.mapped(member.pid, shm + "/"))


def _listening(inodes: set[int]) -> list[File]:
    """The files of sockets that listen. Of two sockets of one path it can't be told whose the file is."""
    listening = [one for one in unixsockets.bound() if one.listens and one.path.startswith("/")]
    paths = [one.path for one in listening]
    found = []
    for one in listening:
        file = look(one.path, SOCKET) if one.inode in inodes and paths.count(one.path) == 1 else None
        if file is not None:
            found.append(file)
    return found


def _made_by(segment: Segment, starts: dict[int, int]) -> bool:
    """Whether one of these processes made it: its pid did, at a time when it was this process'."""
    start = starts.get(segment.cpid)
    return start is not None and segment.ctime >= clock(start)


def clock(start: int) -> float:
    """Seconds since 1970 of a start time, rounded down: ``ctime`` has whole seconds."""
    ticks = os.sysconf("SC_CLK_TCK")
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return int(time.time() - since_boot + start / ticks)
