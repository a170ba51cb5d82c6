"""The lineage of a unit: every descendant of its roots ever seen, by identity, on disk.

A process belongs to it when its parent does, or when its session or process group was founded by a member
(these ids stay when the parent dies). A session counts until it has been seen empty: after that its number
may be given to a stranger.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Iterable, NamedTuple

from klops.agent import procs, store
from klops.agent.identity import Identity, here
from klops.agent.procs import Process


class Member(NamedTuple):
    """One recorded process."""

    identity: Identity
    name: str
    generation: int


class Lineage:
    """Members on record, appended to ``run/NAME.lineage.jsonl`` as they are seen."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.members: dict[tuple[int, int], Member] = {}
        #: pid -> start of members that founded a session or group which has not been seen empty
        self._founders: dict[int, int] = {}
        self._open: set[int] = set()
        #: lines that the disk did not take yet
        self._unwritten: list[dict[str, Any]] = []
        #: lines of the file that say nothing: what they told of is lost, the rest counts
        self.damaged: list[str] = []
        self._load()

    def _load(self) -> None:
        for line in procs.slurp(self.path).decode("utf-8", "replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a write that a crash cut short: its process never got its go-ahead
            try:
                self._take(entry)
            except (KeyError, TypeError, ValueError, OverflowError):
                self.damaged.append(line[:200])
        # all of it was seen by an earlier supervisor, so the next look tells which sessions are empty by now
        self._open = set(self._founders)

    def _take(self, entry: dict[str, Any]) -> None:
        if "closed" in entry:
            self._founders.pop(int(entry["closed"]), None)
            return
        identity = Identity(str(entry["boot"]), int(entry["ns"]), int(entry["pid"]), int(entry["start"]))
        if (identity.boot, identity.ns) != here():
            return  # another boot of the host or the container: whoever has these pids now is not ours
        self.members[(identity.pid, identity.start)] = Member(
            identity, str(entry["name"]), int(entry["generation"])
        )
        self._founders[identity.pid] = identity.start

    @staticmethod
    def _line(process: Process, generation: int) -> dict[str, Any]:
        boot, ns = here()
        return {
            "boot": boot,
            "ns": ns,
            "pid": process.pid,
            "start": process.start,
            "name": process.name,
            "generation": generation,
        }

    def record(self, process: Process, generation: int) -> Member:
        """Put a process on record, on disk first: one that is not to run before. Raises ``OSError``."""
        line = self._line(process, generation)
        store.append_line(self.path, line)
        self._take(line)
        return self.members[(process.pid, process.start)]

    def notice(self, process: Process, generation: int) -> None:
        """Put a process on record that runs already: :meth:`write` takes it to disk."""
        line = self._line(process, generation)
        self._take(line)
        self._unwritten.append(line)

    def write(self) -> None:
        """Take to disk what is not there yet. Raises ``OSError``; what is left is for the next time."""
        while self._unwritten:
            store.append_line(self.path, self._unwritten[0])
            del self._unwritten[0]

    def forget(self) -> None:
        """Start anew: only when no member lives. What is dead for certain need not be kept."""
        store.write_text(self.path, "")
        self._unwritten.clear()
        self.members.clear()
        self._founders.clear()
        self._open.clear()

    def _founded(self, group: int, process: Process, processes: dict[int, Process]) -> bool:
        start = self._founders.get(group)
        if start is None or process.start < start:
            return False
        leader = processes.get(group)
        return leader is None or leader.start == start

    def _belongs(self, process: Process, processes: dict[int, Process]) -> bool:
        parent = processes.get(process.ppid)
        if parent is not None and (parent.pid, parent.start) in self.members:
            return True
        return self._founded(process.session, process, processes) or self._founded(
            process.pgrp, process, processes
        )

    def unrecorded(self, processes: dict[int, Process], never: Collection[int]) -> list[Process]:
        """Processes of the table that belong here and are not on record, parents before children.

        ``never`` are pids that can't belong: the supervisor, its launcher, pid 1.
        """
        found: dict[int, Process] = {}
        rest = [p for p in processes.values() if (p.pid, p.start) not in self.members and p.pid not in never]
        grown = True
        while grown:
            grown = False
            for process in rest:
                if process.pid not in found and (process.ppid in found or self._belongs(process, processes)):
                    found[process.pid] = process
                    grown = True
        return list(found.values())

    def grow(self, processes: dict[int, Process], generation: int, never: Collection[int]) -> list[Process]:
        """Notice what is new in the table, close sessions that were seen empty; returns the new ones."""
        new = self.unrecorded(processes, never)
        for process in new:
            self.notice(process, generation)
        used = set(processes) | {group for p in processes.values() for group in (p.session, p.pgrp)}
        # a number isn't given away while a session or group of that number lives: a stranger proves it empty
        strangers = {pid for pid, start in self._founders.items() if _start(processes, pid, start) != start}
        self._open |= (used | strangers) & set(self._founders)
        for pid in (self._open - used) | strangers:
            self._founders.pop(pid, None)
            self._unwritten.append({"closed": pid})
        self._open &= set(self._founders)
        return new

    def root(self) -> list[int] | None:
        """Pid and start of the root: it was the first to be put on record."""
        return next((list(key) for key in self.members), None)

    def living(self, processes: dict[int, Process]) -> list[Process]:
        """Members that still run, by the table given."""
        return [p for p in processes.values() if p.alive and (p.pid, p.start) in self.members]


def _start(processes: dict[int, Process], pid: int, default: int) -> int:
    return processes[pid].start if pid in processes else default


def owners(lineages: Iterable[tuple[str, Lineage]], processes: dict[int, Process]) -> dict[int, str]:
    """Unit by pid of living members, without writing anything down: what read verbs use."""
    found = {}
    for name, lineage in lineages:
        for process in [*lineage.living(processes), *lineage.unrecorded(processes, (1,))]:
            if process.alive:
                found[process.pid] = name
    return found
