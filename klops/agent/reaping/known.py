"""What is on record of units, put beside what is seen: lineages, states, and who looks after them."""

from __future__ import annotations

import json
import os
from typing import Any, Collection, Iterable, Mapping, NamedTuple

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import identity, procs
from klops.agent.reaping import judge
from klops.agent.reaping.judge import Case, Member, Unit
from klops.agent.reaping.sight import SUPERVISE, Sight
from klops.agent.supervision import control
from klops.agent.units import ondisk, traces
from klops.agent.units.lineage import Lineage, owners

#: Seconds for the supervisor's answer.
_ANSWER = 3.0


class Asked(NamedTuple):
    """What the caller wants."""

    kind: str
    grace: float
    named: Collection[tuple[int, int]]


class _Told(NamedTuple):
    """What a supervisor has said."""

    #: pid and start in its container's numbers
    who: tuple[int, int]
    units: Mapping[str, Unit]
    #: those that it can't place, likewise
    strays: Collection[tuple[int, int]]


def files(paths: store.Paths) -> tuple[set[tuple[int, int]], list[str]]:
    """Device and inode of what units have in /dev/shm by their lists, and what is wrong with these."""
    found, faults = set(), []
    for name in paths.names():
        listed, fault = ondisk.attempt(lambda where, unit: traces.load(where.traces(unit)), paths, name)
        if fault is not None:
            faults.append(f"{fault.message}: what {name} has in shared memory can't be told")
        elif listed is not None:
            found |= {(one.dev, one.inode) for one in listed.files if one.kind == traces.MEMORY}
    return found, faults


def inside(paths: store.Paths, sight: Sight) -> store.Paths:
    """Where the container has these files: a root that isn't shared with the host is reached through it."""
    here = [seen.process for seen in sight.processes.values() if sight.ns and seen.ns == sight.ns]
    if not sight.host or not here:
        return paths
    first = min(here, key=lambda process: process.start)
    there = store.Paths(f"/proc/{first.pid}/root{paths.root}")
    mine, its = _which(paths.run), _which(there.run)
    return paths if its is None or its == mine else there


def _which(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def case(paths: store.Paths, sight: Sight, asked: Asked) -> Case:
    """All that the judge needs beside the processes. ``paths`` are those of :func:`inside`.

    The supervisor is asked after the look: what it has started since isn't in sight.
    """
    lineages = {name: Lineage(paths.lineage(name), _home(sight)) for name in paths.names()}
    lineages[judge.RANKS] = Lineage(paths.ranks, _home(sight))
    # whatever the container is called by now: the socket is its root's
    told, spoke = _asked(paths)
    inner = sight.pids(sight.ns) if sight.ns else {}
    supervisors = _supervisors(paths, sight, inner, told)
    keepers = supervisors | {
        pid for pid, seen in sight.processes.items() if seen.keeper and seen.ns == sight.ns
    }
    keepers |= _launchers(sight, supervisors)
    presence = judge.ANSWERS if told is not None else judge.SILENT if spoke or supervisors else judge.NOBODY
    if presence == judge.NOBODY and keepers:
        presence = judge.LAUNCHER
    return Case(
        kind=asked.kind,
        supervisor=presence,
        units=_on_disk(paths, paths.names()) if told is None else told.units,
        members=_members(sight, lineages, keepers),
        keepers=frozenset(keepers),
        strays=_strays(sight, inner, told) if told is not None else (),
        grace=asked.grace,
        named=asked.named,
        faults=[
            f"{lineage.path}: {len(lineage.damaged)} line(s) can't be read: who they named isn't known"
            for lineage in lineages.values()
            if lineage.damaged
        ],
        diagnosing=_diagnosing(paths, sight),
    )


def _diagnosing(paths: store.Paths, sight: Sight) -> bool:
    """Whether whoever began the last diagnosis still lives: by identity, as the lock file has it."""
    try:
        said = json.loads(procs.slurp(paths.ranks_lock))
        who = (said["boot"], int(said["ns"]), int(said["pid"]), int(said["start"]))
    except (ValueError, TypeError, KeyError):
        return False
    process = sight.table(who[1]).get(who[2])
    alive = process is not None and process.alive and process.start == who[3]
    return alive and who[0] == identity.here()[0]


def _asked(paths: store.Paths) -> tuple[_Told | None, bool]:
    """What the supervisor says, and whether one said anything: of another version's not all makes sense."""
    try:
        reply = control.ask(paths.run, {"verb": "status"}, _ANSWER)
        if reply is None:
            return None, False
        who = reply["supervisor"]
        told = _Told(
            (int(who["cpid"]), int(who["start"])),
            {name: _reported(name, unit) for name, unit in reply["units"].items()},
            [(int(one["cpid"]), int(one["start"])) for one in reply.get("strays", [])],
        )
    except (VerbError, ValueError, TypeError, KeyError, AttributeError):
        return None, True
    return told, True


def _strays(sight: Sight, inner: Mapping[int, int], told: _Told) -> frozenset[int]:
    """The viewer's pids of those: the supervisor's word may be older than the look, and the number reused."""
    found = {inner[pid]: start for pid, start in told.strays if pid in inner}
    return frozenset(pid for pid, start in found.items() if sight.processes[pid].process.start == start)


def _home(sight: Sight) -> tuple[str, int]:
    return identity.here()[0], sight.ns


def _supervisors(paths: store.Paths, sight: Sight, inner: Mapping[int, int], told: _Told | None) -> set[int]:
    """The viewer's pids of who answers, has the lock of supervisors, or was started as one.

    Not all file systems have in the kernel's list of locks the number that they give their files.
    """
    found = set(_lock_holders(paths.lock))
    found |= {
        pid for pid, seen in sight.processes.items() if seen.keeper == SUPERVISE and seen.ns == sight.ns
    }
    if told is not None:
        pid = inner.get(told.who[0])
        if pid is not None and sight.processes[pid].process.start == told.who[1]:
            found.add(pid)
    return {pid for pid in found if pid in sight.processes and sight.processes[pid].process.alive}


def _lock_holders(path: str) -> Iterable[int]:
    """Who has a flock on a file: the kernel's list has it by device and inode."""
    key = _which(path)
    if key is None:
        return
    wanted = b"%02x:%02x:%d" % (os.major(key[0]), os.minor(key[0]), key[1])
    for line in procs.slurp("/proc/locks").splitlines():
        fields = line.split()
        # one that waits for a lock has an arrow before the kind
        if len(fields) >= 6 and fields[1] == b"FLOCK" and fields[5] == wanted:
            yield int(fields[4])


def _launchers(sight: Sight, supervisors: Collection[int]) -> set[int]:
    """Parents of supervisors, inside their container; its main process is one only by its command line."""
    found = set()
    for pid in supervisors:
        seen = sight.processes[pid]
        above = sight.processes.get(seen.process.ppid)
        if above is not None and above.ns == seen.ns and above.inner.pid != 1:
            found.add(above.process.pid)
    return found


def _on_disk(paths: store.Paths, names: Iterable[str]) -> dict[str, Unit]:
    found = {}
    for name in names:
        record, _ = ondisk.attempt(ondisk.record, paths, name)
        if record is not None:
            root = (record.root[0], record.root[1]) if record.root else None
            found[name] = Unit(name, record.desired, record.state, record.generation, root)
        elif os.path.exists(paths.state(name)) or os.path.exists(paths.spec(name)):
            # of one that is specified only its state is lost: a supervisor makes it anew of what lives
            found[name] = Unit(name, "", "", 0, None)
    return found


def _reported(name: str, told: Mapping[str, Any]) -> Unit:
    root = (int(told["cpid"]), int(told["start"])) if told["cpid"] else None
    return Unit(name, str(told["desired"]), str(told["state"]), int(told["generation"]), root)


def _members(sight: Sight, lineages: Mapping[str, Lineage], keepers: Collection[int]) -> dict[int, Member]:
    """By the viewer's pid; what belongs to a lineage but wasn't put on record yet, too."""
    found: dict[int, Member] = {}
    table = sight.table(sight.ns) if sight.ns else {}
    pids = sight.pids(sight.ns)
    never = {0, 1, *(sight.processes[pid].inner.pid for pid in keepers)}
    for name, lineage in lineages.items():
        for process in lineage.living(table):
            generation = lineage.members[process.pid, process.start].generation
            found[pids[process.pid]] = Member(name, generation, elsewhere=False)
        for process in lineage.unrecorded(table, never):
            if process.alive:
                found[pids[process.pid]] = Member(name, 0, elsewhere=False)
        for ns in lineage.elsewhere:
            there = sight.table(ns)
            if not there:
                continue
            other, numbers = Lineage(lineage.path, (lineage.home[0], ns)), sight.pids(ns)
            for process in other.living(there):
                generation = other.members[process.pid, process.start].generation
                found[numbers[process.pid]] = Member(name, generation, elsewhere=True)
    return found


def running(paths: store.Paths) -> set[str]:
    """From inside the container: units of which something lives now. A unit is on record before it begins."""
    table = procs.table()
    lineages = [(name, Lineage(paths.lineage(name))) for name in paths.names()]
    return set(owners(lineages, table).values())


def keep_up(paths: store.Paths, sight: Sight, case: Case) -> None:
    """What a supervisor would write down, where there is none: who has come, and which sessions are empty.

    The number of such a session may be given to a stranger. Raises ``OSError``.
    """
    # one that has been started since writes itself. Its lock isn't taken for this: a supervisor that found it
    # taken would leave for good
    if case.supervisor != judge.NOBODY or not sight.ns or any(_lock_holders(paths.lock)):
        return
    table = sight.table(sight.ns)
    for name in paths.names():
        lineage = Lineage(paths.lineage(name), _home(sight))
        if lineage.members:
            unit = case.units.get(name)
            lineage.grow(table, unit.generation if unit is not None else 0, (0, 1))
            lineage.write()


def close_earlier(paths: store.Paths, sight: Sight) -> None:
    """From the host: put on record which earlier lives of the container have nothing left.

    Only when everybody is in sight. Raises ``OSError``.
    """
    if not sight.whole:
        return
    present = {seen.ns for seen in sight.processes.values()}
    for name in paths.names():
        lineage = Lineage(paths.lineage(name), _home(sight))
        for ns in lineage.elsewhere - present:
            lineage.over(ns)
