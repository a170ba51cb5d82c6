"""One look at all processes that can be seen: who they are, where they live, what they hold. It only reads.

From inside a container its own numbers are all there are. From the host each process of a container has two:
the host's, by which it is signalled, and the container's, which the lineages have.
"""

from __future__ import annotations

import functools
import os
import re
import time
from typing import Collection, Iterable, Mapping, NamedTuple, Sequence

from klops.agent.processes import devices, identity, observers, openfiles, procs
from klops.agent.processes.procs import Process

_ID = re.compile(rb"[0-9a-f]{64}")
#: What a keeper's command line says it is.
HOLD, SUPERVISE = "hold", "supervise"
#: Seconds that one must be in state D to count as stuck: most that wait for a disk or a driver do so for a
#: moment.
_STUCK = 0.1
_NUMBERS = (b"NStgid", b"NSpid", b"NSpgid", b"NSsid")


class Seen(NamedTuple):
    """One process."""

    #: in the viewer's numbers; its state is ``D`` where only one of its threads stays in that
    process: Process
    #: the same in those of its container
    inner: Process
    #: pid namespace that the inner numbers are of; 0 when that can't be told
    ns: int
    #: id of its container, "" for none
    container: str
    #: -1 when it wasn't looked up, or can't be told
    uid: int = -1
    #: names of card nodes it holds
    cards: tuple[str, ...] = ()
    #: it has a watched file open or mapped
    files: bool = False
    #: what it holds could not be read
    unreadable: bool = False
    #: it is a tool that reads cards
    observer: bool = False
    #: ``HOLD`` or ``SUPERVISE`` for one with the command line of a launcher or supervisor of this root
    keeper: str = ""
    #: the main process of a container, and all of it is on its way out
    ending: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Pid and start in the viewer's numbers."""
        return self.process.pid, self.process.start

    @property
    def holds(self) -> bool:
        """Whether it is in the way of a start."""
        return bool(self.cards) or self.files


class Sight(NamedTuple):
    """What one look has shown."""

    #: by the viewer's pid
    processes: dict[int, Seen]
    #: seen from the host, not from inside the container
    host: bool
    #: id of klops' container; "" for none, or when it can't be told from inside
    container: str
    #: its pid namespace; 0 when nothing lives in it
    ns: int
    #: the viewer and all above it
    mine: frozenset[int]
    #: whose the units are
    uid: int
    #: seconds since the boot
    uptime: float

    def table(self, ns: int) -> dict[int, Process]:
        """All processes of a pid namespace, by their numbers there."""
        return {seen.inner.pid: seen.inner for seen in self.processes.values() if seen.ns == ns}

    def pids(self, ns: int) -> dict[int, int]:
        """The viewer's pids by those of a namespace."""
        return {seen.inner.pid: pid for pid, seen in self.processes.items() if seen.ns == ns}

    def over(self, ns: int) -> bool | None:
        """Whether a pid namespace has come to its end; None when its first process can't be seen.

        Once that one ends the kernel ends all others, and it is there until they are gone: who is left beside
        it then is stuck.
        """
        for seen in self.processes.values():
            if seen.ns == ns and seen.inner.pid == 1:
                return seen.ending or not seen.process.alive
        return None

    @property
    def whole(self) -> bool:
        """Whether nobody at all is out of sight: only then who isn't seen is gone.

        Who may not look at the host's first process doesn't see those of others at all.
        """
        return self.host and 1 in self.processes and all(seen.ns for seen in self.processes.values())

    def age(self, process: Process) -> float:
        """Seconds that a process has lived."""
        return max(0.0, self.uptime - process.start / os.sysconf("SC_CLK_TCK"))


def look(
    root: str,
    uid: int,
    nodes: Sequence[devices.Node],
    *,
    host: bool,
    container: str = "",
    files: Collection[tuple[int, int]] = (),
) -> Sight:
    """Look at everything. ``nodes`` are the cards', ``files`` (device, inode) the units' in shared memory."""
    begun = time.monotonic()
    table = procs.table()
    if not host:
        container = container_id(procs.slurp("/proc/self/cgroup"))
    names = {node.rdev: os.path.basename(node.path) for node in nodes}
    placed = _placed(table) if host else {pid: _as_seen(process) for pid, process in table.items()}
    waiting = {pid for pid, one in placed.items() if _waits(one.process)}
    held = devices.holdings([pid for pid in placed if pid not in waiting and _has(placed[pid])], names, files)
    seen = {
        pid: _filled(one, root, names, held.get(pid, devices.NOTHING))
        for pid, one in placed.items()
        if pid not in waiting
    }
    if waiting:
        time.sleep(max(0.0, begun + _STUCK - time.monotonic()))
    for pid in waiting:
        now = _again(placed[pid])
        if now is not None:
            mapped = not _is_stuck(now)
            opened = devices.holds(pid, names, files, mapped=mapped) if _has(now) else devices.NOTHING
            seen[now.process.pid] = _filled(now, root, names, opened)
    for pid, one in seen.items():
        parent = seen.get(one.process.ppid)
        if parent is not None and parent.keeper == HOLD and not _is_stuck(one):
            seen[pid] = one._replace(keeper=_keeps(_words(pid), root))
    ns = _namespace(seen.values(), container) if host else identity.here()[1]
    me = os.getpid()
    return Sight(
        seen,
        host,
        container,
        ns,
        frozenset((me, *procs.ancestors(me, table))),
        uid,
        float(procs.slurp("/proc/uptime").split()[0]),
    )


def _as_seen(process: Process) -> Seen:
    """A process as its container sees it: looked at from inside."""
    return Seen(process, process, identity.here()[1], _container(process))


def _placed(table: dict[int, Process]) -> dict[int, Seen]:
    """All processes with the numbers that they have in their containers."""
    own = identity.here()[1]
    numbers: dict[int, dict[bytes, list[int]]] = {}
    spaces: dict[int, int] = {}
    for pid, process in table.items():
        spaces[pid] = own if process.kernel else _link(pid)
        if spaces[pid] != own:
            numbers[pid] = _numbers(procs.slurp(f"/proc/{pid}/status"))
    found = {}
    for pid, process in table.items():
        mine = numbers.get(pid, {})
        depth = len(mine.get(b"NSpid", ()))
        if spaces[pid] == own or depth == 1:
            found[pid] = Seen(process, process, own, "" if process.kernel else _container(process))
            continue
        if not depth and _now(process) is None:
            continue  # it ended while it was looked at
        space = spaces[pid] if depth == 2 else _around(pid, table, numbers, spaces)
        found[pid] = Seen(process, _inner(process, mine), space, _container(process))
    # a parent is one of the same namespace, or none: as those see it that live there
    for pid, seen in found.items():
        if seen.inner is not seen.process:
            parent = found.get(seen.process.ppid)
            inside = parent.inner.pid if parent is not None and parent.ns == seen.ns else 0
            ending = seen.inner.pid == 1 and seen.process.exiting and _ends(pid)
            found[pid] = seen._replace(inner=seen.inner._replace(ppid=inside), ending=ending)
    return found


def _ends(pid: int) -> bool:
    """Whether all threads of a process are on their way out."""
    folder = f"/proc/{pid}/task"
    try:
        threads = [procs.slurp(f"{folder}/{thread}/stat") for thread in os.listdir(folder)]
    except (FileNotFoundError, ProcessLookupError):
        return True  # the last is gone
    return all(procs.parse_stat(stat).exiting for stat in threads if stat)


def _inner(process: Process, numbers: Mapping[bytes, Sequence[int]]) -> Process:
    """The second of the numbers of each kind is the container's; deeper ones are of namespaces inside it."""

    def second(name: bytes) -> int:
        given = numbers.get(name, ())
        return given[1] if len(given) > 1 else 0

    return process._replace(pid=second(b"NSpid"), pgrp=second(b"NSpgid"), session=second(b"NSsid"), ppid=0)


def _around(
    pid: int,
    table: dict[int, Process],
    numbers: Mapping[int, Mapping[bytes, Sequence[int]]],
    spaces: Mapping[int, int],
) -> int:
    """The container's namespace for a process of one inside it: that of its nearest ancestor there."""
    for above in procs.ancestors(pid, table):
        if len(numbers.get(above, {}).get(b"NSpid", ())) == 2:
            return spaces[above]
    return 0


def _link(pid: int) -> int:
    """The pid namespace of a process; 0 when it can't be read."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def _numbers(status: bytes) -> dict[bytes, list[int]]:
    found = {}
    # of a name that has an end of a line in it the kernel hides "\n", but no other
    for line in status.split(b"\n"):
        name, _, rest = line.partition(b":")
        if name in _NUMBERS:
            found[name] = [int(word) for word in rest.split()]
    return found


def _container(process: Process) -> str:
    """The id in the control group of a process; "" for none.

    In control groups of the first version a thread on its way out is in none of them.
    """
    folders = openfiles.folders(process.pid) if process.exiting else (f"/proc/{process.pid}",)
    ids = (container_id(procs.slurp(f"{folder}/cgroup")) for folder in folders)
    return next(filter(None, ids), "")


@functools.lru_cache(maxsize=None)
def container_id(cgroup: bytes) -> str:
    """The innermost container's, where they are nested; not all hierarchies need to know all of them.

    >>> container_id(b"9:pids:/docker/" + 64 * b"a" + b"/docker/" + 64 * b"b")[:4]
    'bbbb'
    >>> container_id(b"4:memory:/user.slice")
    ''
    """
    ids: list[bytes] = []
    for line in cgroup.splitlines():
        there = _ID.findall(line)
        if len(there) > len(ids):
            ids = there
    return ids[-1].decode("ascii") if ids else ""


def _namespace(all_seen: Collection[Seen], container: str) -> int:
    """The pid namespace of a container: of the first process that was started in it and is not nested."""
    inside = [seen for seen in all_seen if container and seen.container == container and seen.ns]
    return min(inside, key=lambda seen: (seen.process.start, seen.process.pid)).ns if inside else 0


def _waits(process: Process) -> bool:
    """Whether a part of it waits where no signal reaches it."""
    return not process.kernel and not openfiles.readable(process)


def _is_stuck(seen: Seen) -> bool:
    """Whether it stayed so: whoever reads its memory or mappings may wait with it."""
    return seen.process.state == procs.WAITING and not seen.process.kernel


def _again(seen: Seen) -> Seen | None:
    """With the state that it is in now; None when it is gone."""
    now = _now(seen.process)
    if now is None:
        return None
    state = procs.WAITING if _waits(now) else now.state
    process = seen.process._replace(state=state, threads=now.threads)
    return seen._replace(process=process, inner=seen.inner._replace(state=state, threads=now.threads))


def _now(process: Process) -> Process | None:
    """What has become of it; None when it is gone, whoever has its pid."""
    now = procs.read(process.pid)
    return now if now is not None and now.start == process.start else None


def _has(seen: Seen) -> bool:
    """Whether it can have anything: kernel threads and zombies don't."""
    return seen.process.alive and not seen.process.kernel


def _filled(seen: Seen, root: str, names: Mapping[int, str], held: devices.Held | None) -> Seen:
    """With what it holds, of one that is stuck what it has open."""
    process = seen.process
    if not _has(seen):
        return seen
    if _is_stuck(seen):
        found = held is not None and bool(held.nodes)
        return _with(seen, held, names)._replace(unreadable=not found)
    if held == devices.NOTHING:
        # a launcher's parent is the main process, or outside, and a supervisor's is that one or a launcher;
        # of what else holds nothing nobody asks more
        words = _words(process.pid) if seen.inner.ppid <= 1 else []
        return seen._replace(observer=observers.named(process), keeper=_keeps(words, root))
    words = _words(process.pid)
    observer = observers.observes(process, words)
    return _with(seen, held, names)._replace(observer=observer, keeper=_keeps(words, root))


def _words(pid: int) -> list[bytes]:
    return procs.slurp(f"/proc/{pid}/cmdline").split(b"\0")


def _with(seen: Seen, held: devices.Held | None, names: Mapping[int, str]) -> Seen:
    return seen._replace(
        uid=_uid(seen.process.pid),
        cards=tuple(sorted(names[number] for number in held.nodes)) if held is not None else (),
        files=held is not None and held.files,
        unreadable=held is None,
    )


def with_users(sight: Sight, pids: Iterable[int]) -> None:
    """Look up whose these are: of those that hold nothing it isn't known yet."""
    for pid in pids:
        seen = sight.processes[pid]
        if seen.uid < 0:
            sight.processes[pid] = seen._replace(uid=_uid(pid))


def _uid(pid: int) -> int:
    """The real user; the owner of /proc/PID is root for one that may not be dumped, whoever runs it."""
    _, _, rest = procs.slurp(f"/proc/{pid}/status").partition(b"\nUid:")
    words = rest.split(None, 1)
    return int(words[0]) if words else -1


def _keeps(words: Sequence[bytes], root: str) -> str:
    """Whether these are a launcher's or a supervisor's: PYTHON FLAGS PACKAGE VERB --root ROOT ..."""
    wanted = [b"--root", root.encode("utf-8", "surrogateescape")]
    for at in range(1, min(len(words), 12)):
        for verb in (HOLD, SUPERVISE):
            if words[at] == verb.encode("ascii") and list(words[at + 1 : at + 3]) == wanted:
                return verb
    return ""
