"""What a start needs: cards that are there and free, a free port, and a gate."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from klops.agent import isolated
from klops.agent.processes import children, devices, listeners, observers, openfiles, procs
from klops.agent.processes.access import Access
from klops.agent.processes.procs import Process
from klops.agent.units import room

#: Seconds that it counts that a node could be opened: where the machine is busy, not all tests end within one
#: look, and those that ended in the one before need not be made again.
_TESTED = 2.5


class Obstacle(NamedTuple):
    """What is in the way of a start."""

    #: "" for nothing
    problem: str = ""
    #: cards are missing or can't be opened, or room in /dev/shm; else somebody is in the way, who may go
    lacking: bool = False
    #: whether they can be opened isn't known yet, but soon will be
    undecided: bool = False


def missing(spec: Mapping[str, Any]) -> str:
    """What is wrong with the first of a unit's cards that isn't there; "" when all are."""
    return devices.used(spec)[2]


def obstacle(spec: Mapping[str, Any], processes: Mapping[int, Process], access: Access) -> Obstacle:
    """What is in the way of a start now."""
    chosen, control, missing = devices.used(spec)
    if missing:
        return Obstacle(missing, lacking=True)
    refused = access.refusals([*chosen, *control], max_age=_TESTED)
    if refused:
        return Obstacle("; ".join(one.problem for one in refused), lacking=True)
    if refused is None and access.undecided:
        return Obstacle(undecided=True)
    problem = _in_the_way(spec, processes, chosen)
    if problem:
        return Obstacle(problem)
    little = room.shortage(spec, processes)
    return Obstacle(little, lacking=bool(little))


def _in_the_way(spec: Mapping[str, Any], processes: Mapping[int, Process], chosen: list[devices.Node]) -> str:
    held, unknown = devices.holders(processes.values(), chosen) if chosen else ({}, [])
    holders = [pid for pid in sorted(held) if not _observes(processes[pid])]
    if holders:
        listed = ", ".join(
            f"pid {pid} ({processes[pid].name}) holds {' '.join(held[pid])}" for pid in holders
        )
        return f"a process that is not this unit's holds its cards: {listed}"
    # the init of a container is docker's own: it opens no card, and may be out of sight where others aren't
    unseen = [process for process in unknown if process.pid != procs.INIT and not _observes(process)]
    if unseen:
        listed = ", ".join(f"pid {process.pid} ({process.name})" for process in unseen)
        return f"whether its cards are free can't be seen: no access to the open files of {listed}"
    for listener in listeners.on_port(int(spec["port"])):
        return f"port {spec['port']} is taken by {listeners.describe_owner(listener)}"
    return ""


def _observes(process: Process) -> bool:
    """Whether it only reads cards. The look at what is held has waited already for those that are stuck."""
    return openfiles.settled(process, 0.0) and observers.observes(process)


def open_gate(package: str, name: str, log: str, generation: int) -> tuple[int, int]:
    """Start a gate; returns its pid and the descriptor that its instructions are written to."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        waiting, instructions = os.pipe()
        try:
            pid = os.posix_spawn(
                isolated.PYTHON[0],
                [*isolated.PYTHON, package, "gate"],
                {**os.environ, children.MARKER: f"{name}:{generation}"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, waiting, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
            )
        except OSError:
            os.close(instructions)
            raise
        finally:
            os.close(waiting)
    finally:
        os.close(output)
    return pid, instructions


def write_all(fd: int, data: bytes) -> None:
    """Write all of it. Raises ``BrokenPipeError`` when nobody reads."""
    while data:
        data = data[os.write(fd, data) :]
