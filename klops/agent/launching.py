"""What a start needs: cards that are there and free, a free port, and a gate."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from klops.agent import devices, environment, isolated, listeners
from klops.agent.access import Access
from klops.agent.procs import Process

#: The container's init, docker's own: it opens no card, and may be out of sight where others aren't.
INIT = 1


class Obstacle(NamedTuple):
    """What is in the way of a start."""

    #: "" for nothing
    problem: str = ""
    #: cards are missing or can't be opened; else somebody is in the way, who may go
    lacking: bool = False
    #: whether they can be opened isn't known yet, but soon will be
    undecided: bool = False


def obstacle(spec: Mapping[str, Any], processes: Mapping[int, Process], access: Access) -> Obstacle:
    """What is in the way of a start now."""
    chosen, control, missing = devices.used(spec)
    if missing:
        return Obstacle(missing, lacking=True)
    refused = access.refusals([*chosen, *control])
    if refused:
        return Obstacle("; ".join(one.problem for one in refused), lacking=True)
    if refused is None and access.undecided:
        return Obstacle(undecided=True)
    return Obstacle(_in_the_way(spec, processes, chosen))


def _in_the_way(spec: Mapping[str, Any], processes: Mapping[int, Process], chosen: list[devices.Node]) -> str:
    held, unknown = devices.holders(processes.values(), chosen) if chosen else ({}, [])
    if held:
        listed = ", ".join(
            f"pid {pid} ({processes[pid].name}) holds {' '.join(held[pid])}" for pid in sorted(held)
        )
        return f"a process that is not this unit's holds its cards: {listed}"
    unseen = [process for process in unknown if process.pid != INIT]
    if unseen:
        listed = ", ".join(f"pid {process.pid} ({process.name})" for process in unseen)
        return f"whether its cards are free can't be seen: no access to the open files of {listed}"
    for listener in listeners.on_port(int(spec["port"])):
        return f"port {spec['port']} is taken by {listeners.describe_owner(listener)}"
    return ""


def open_gate(package: str, name: str, log: str, generation: int) -> tuple[int, int]:
    """Start a gate; returns its pid and the descriptor that its instructions are written to."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        waiting, instructions = os.pipe()
        try:
            pid = os.posix_spawn(
                isolated.PYTHON[0],
                [*isolated.PYTHON, package, "gate"],
                {**os.environ, environment.MARKER: f"{name}:{generation}"},
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
