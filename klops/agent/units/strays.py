"""Orphans that came to a subreaper of ours before their parents were ever seen."""

from __future__ import annotations

from typing import Collection, Mapping, Sequence

from klops.agent.processes import children, openfiles, procs
from klops.agent.processes.procs import Process
from klops.agent.units.managed import Managed


def marked(process: Process) -> str:
    """The unit that a process' environment names, "" when it names none (titles overwrite it in some).

    That of one which is stuck isn't read: the supervisor might wait with it.
    """
    if not openfiles.settled(process, 0.0):
        return ""
    wanted = (children.MARKER + "=").encode("ascii")
    for item in procs.slurp(f"/proc/{process.pid}/environ").split(b"\0"):
        if item.startswith(wanted):
            return item[len(wanted) :].decode("utf-8", "replace").rpartition(":")[0]
    return ""


def adopt(
    processes: Mapping[int, Process],
    units: Sequence[Managed],
    adopters: Collection[int],
    never: Collection[int],
    *,
    all_known: bool = True,
) -> tuple[set[str], list[Process]]:
    """Put them on record; returns the names of the units they belong to, and those of whom nobody can tell.

    That they descend from a unit is certain, unless the marker says that they are the supervisor's own:
    nothing else comes there. Which one, the marker tells; without it only a single unit can be meant, if
    these are ``all_known`` ones: of one that could not be taken over even the root is on no record here.
    ``never`` are pids that belong to no unit.
    """
    found, nobodys = set(), []
    known = {key for managed in units for key in managed.lineage.members}
    for process in processes.values():
        if process.ppid not in adopters or not process.alive or process.pid in never:
            continue
        if (process.pid, process.start) in known:
            continue
        name = marked(process)
        if name == children.NOBODY:
            continue
        meant = [m for m in units if m.name == name or (not name and all_known)]
        if len(meant) == 1:
            meant[0].lineage.notice(process, meant[0].record.generation)
            found.add(meant[0].name)
        else:
            nobodys.append(process)
    return found, nobodys
