"""The lineage of a unit: every descendant of its roots ever seen, by identity, on disk.

A process belongs to it when its parent does, or when its session or process group was founded by a member
(these ids stay when the parent dies). A session counts until it has been seen empty: after that its number
may be given to a stranger. Who is dead, and whose session and group were seen empty, tells nothing any more
and is forgotten, but for the root: a server may begin programs for as long as it runs.

A line names the boot and the pid namespace that its pid is of. Members of another namespace of this boot are
kept: one that sits in the driver outlives its container, and only the host's view finds it again.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Iterable, NamedTuple

from klops.agent import store
from klops.agent.processes.identity import Identity, here
from klops.agent.processes.procs import Process

#: Lines of other namespaces that are kept when a lineage starts anew, the newest: some hundred generations.
KEPT = 2000
#: Lines of a file beyond twice those that say something, after which it is written anew: 100 KB, which take
#: some 10 ms to read.
SPARE = 1000


class Member(NamedTuple):
    """One recorded process."""

    identity: Identity
    name: str
    generation: int


class Lineage:
    """Members on record, appended to ``run/NAME.lineage.jsonl`` as they are seen."""

    def __init__(self, path: str, home: tuple[str, int] | None = None) -> None:
        """``home`` is the boot id and the pid namespace whose numbers are meant; default: this process'.

        Raises ``OSError`` when the file can't be read.
        """
        self.path = path
        self.home = here() if home is None else home
        self.members: dict[tuple[int, int], Member] = {}
        #: pid -> start of members that founded a session or group which has not been seen empty
        self._founders: dict[int, int] = {}
        self._open: set[int] = set()
        #: lines of other namespaces of this boot, by namespace
        self._elsewhere: dict[int, list[dict[str, Any]]] = {}
        #: lines that the disk did not take yet
        self._unwritten: list[dict[str, Any]] = []
        #: how many the file has, as far as this process knows
        self._lines = 0
        #: lines of the file that say nothing: what they told of is lost, the rest counts
        self.damaged: list[str] = []
        self._load()

    def _load(self) -> None:
        for line in self._text().splitlines():
            self._lines += 1
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a write that a crash cut short: its process never got its go-ahead
            except RecursionError:
                self.damaged.append(line[:200])
                continue
            try:
                self._take(entry)
            except (KeyError, TypeError, ValueError, OverflowError):
                self.damaged.append(line[:200])
        # all of it was seen by an earlier supervisor, so the next look tells which sessions are empty by now
        self._open = set(self._founders)

    def _text(self) -> str:
        """What is on disk, "" before there is a file: one that may not be read is not an empty one."""
        try:
            return store.read_text(self.path, "replace")
        except FileNotFoundError:
            return ""

    def _take(self, entry: dict[str, Any]) -> None:
        if "over" in entry:
            self._elsewhere.pop(int(entry["over"]), None)
            return
        if "closed" in entry:
            if int(entry.get("ns", self.home[1])) == self.home[1]:
                self._founders.pop(int(entry["closed"]), None)
            return
        identity = Identity(str(entry["boot"]), int(entry["ns"]), int(entry["pid"]), int(entry["start"]))
        if (identity.boot, identity.ns) != self.home:
            # whoever has these pids here is not ours; in its own namespace, until the next boot, it may be
            if identity.boot == self.home[0]:
                self._elsewhere.setdefault(identity.ns, []).append(entry)
            return
        self.members[(identity.pid, identity.start)] = Member(
            identity, str(entry["name"]), int(entry["generation"])
        )
        self._founders[identity.pid] = identity.start

    @property
    def elsewhere(self) -> set[int]:
        """Other pid namespaces of this boot that members on record are of."""
        return set(self._elsewhere)

    def over(self, ns: int) -> None:
        """Put on record that nothing lives in another namespace any more. Raises ``OSError``."""
        line = {"over": ns}
        self._append(line)
        self._take(line)

    def _append(self, line: dict[str, Any]) -> None:
        store.append_line(self.path, line)
        self._lines += 1

    def _member(self, process: Process, generation: int) -> Member:
        return Member(Identity(*self.home, process.pid, process.start), process.name, generation)

    def record(self, process: Process, generation: int) -> Member:
        """Put a process on record, on disk first: one that is not to run before. Raises ``OSError``."""
        line = _line(self._member(process, generation))
        self._append(line)
        self._take(line)
        return self.members[(process.pid, process.start)]

    def notice(self, process: Process, generation: int) -> None:
        """Put a process on record that runs already: :meth:`write` takes it to disk."""
        line = _line(self._member(process, generation))
        self._take(line)
        self._unwritten.append(line)

    def write(self) -> None:
        """Take to disk what is not there yet. Raises ``OSError``; what is left is for the next time."""
        while self._unwritten:
            self._append(self._unwritten[0])
            del self._unwritten[0]

    def shorten(self) -> None:
        """Write the file anew if little of it says something: for its one writer. Raises ``OSError``.

        One with damaged lines is left as it is: that there are such is all that is known of whom they named.
        """
        lines = self._foreign()
        if self.damaged or self._lines <= 2 * (len(lines) + len(self.members)) + SPARE:
            return
        for (pid, start), member in self.members.items():
            lines.append(_line(member))
            if self._founders.get(pid) != start:
                lines.append(self._closed(pid))  # in this place: the number may be a later member's
        self._rewrite(lines)

    def _foreign(self) -> list[dict[str, Any]]:
        """Lines of other namespaces, the newest."""
        return [line for lines in self._elsewhere.values() for line in lines][-KEPT:]

    def _closed(self, pid: int) -> dict[str, Any]:
        return {"closed": pid, "ns": self.home[1]}

    def _rewrite(self, lines: list[dict[str, Any]]) -> None:
        store.write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
        self._lines = len(lines)
        self._unwritten.clear()

    def forget(self) -> None:
        """Start anew: only when no member lives. What is dead for certain need not be kept.

        Of other namespaces nothing is certain here.
        """
        self._rewrite(self._foreign())
        self.members.clear()
        self._founders.clear()
        self._open.clear()

    def _founded(self, group: int, process: Process, processes: dict[int, Process]) -> bool:
        start = self._founders.get(group)
        if start is None or process.start < start:
            return False
        init = processes.get(1)
        if init is not None and start < init.start:
            return False  # of an earlier life of the container, whose namespace had the same number
        leader = processes.get(group)
        return leader is None or leader.start == start

    def _belongs(self, process: Process, processes: dict[int, Process], never: Collection[int]) -> bool:
        parent = processes.get(process.ppid)
        if parent is not None and parent.pid not in never and (parent.pid, parent.start) in self.members:
            return True
        groups = {process.session, process.pgrp}.difference(never)
        return any(self._founded(group, process, processes) for group in groups)

    def unrecorded(self, processes: dict[int, Process], never: Collection[int]) -> list[Process]:
        """Processes of the table that belong here and are not on record, parents before children.

        ``never`` are pids that can't belong: the supervisor, its launcher, pid 1. Nothing belongs by them
        either, whatever is on record: everybody in the container descends from pid 1.
        """
        found: dict[int, Process] = {}
        rest = [p for p in processes.values() if (p.pid, p.start) not in self.members and p.pid not in never]
        grown = True
        while grown:
            grown = False
            for process in rest:
                if process.pid not in found and (
                    process.ppid in found or self._belongs(process, processes, never)
                ):
                    found[process.pid] = process
                    grown = True
        return list(found.values())

    def grow(self, processes: dict[int, Process], generation: int, never: Collection[int]) -> list[Process]:
        """Notice what is new in the table, close sessions that were seen empty; returns the new ones.

        Who is in no table any more and stands for no session or group is forgotten.
        """
        new = self.unrecorded(processes, never)
        for process in new:
            self.notice(process, generation)
        used = set(processes) | {group for p in processes.values() for group in (p.session, p.pgrp)}
        # a number isn't given away while a session or group of that number lives: a stranger proves it empty
        strangers = {pid for pid, start in self._founders.items() if _start(processes, pid, start) != start}
        self._open |= (used | strangers) & set(self._founders)
        for pid in (self._open - used) | strangers:
            self._founders.pop(pid, None)
            self._unwritten.append(self._closed(pid))
        self._open &= set(self._founders)
        for pid, start in list(self.members)[1:]:
            if self._founders.get(pid) != start and _start(processes, pid, -1) != start:
                del self.members[pid, start]
        return new

    def root(self) -> list[int] | None:
        """Pid and start of the root: it was the first to be put on record."""
        return next((list(key) for key in self.members), None)

    def living(self, processes: dict[int, Process]) -> list[Process]:
        """Members that still run, by the table given."""
        return [p for p in processes.values() if p.alive and (p.pid, p.start) in self.members]


def _line(member: Member) -> dict[str, Any]:
    who = member.identity
    return {
        "boot": who.boot,
        "ns": who.ns,
        "pid": who.pid,
        "start": who.start,
        "name": member.name,
        "generation": member.generation,
    }


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
