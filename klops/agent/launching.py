"""What a start needs: cards that are there and free, a free port, and a gate."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping

from klops.agent import devices, environment, listeners
from klops.agent.procs import Process

#: The container's init, docker's own: it opens no card, and may be out of sight where others aren't.
INIT = 1


def obstacle(spec: Mapping[str, Any], processes: Mapping[int, Process]) -> tuple[str, bool]:
    """What is in the way of a start, "" for nothing; and whether waiting can't help (a card is missing)."""
    chosen, missing = devices.resolve(spec["cards"], spec["device_dir"])
    if missing:
        return missing, True
    held, unknown = devices.holders(processes.values(), chosen) if chosen else ({}, [])
    if held:
        listed = ", ".join(
            f"pid {pid} ({processes[pid].name}) holds {' '.join(held[pid])}" for pid in sorted(held)
        )
        return f"a process that is not this unit's holds its cards: {listed}", False
    unseen = [process for process in unknown if process.pid != INIT]
    if unseen:
        listed = ", ".join(f"pid {process.pid} ({process.name})" for process in unseen)
        return f"whether its cards are free can't be seen: no access to the open files of {listed}", False
    for listener in listeners.on_port(int(spec["port"])):
        return f"port {spec['port']} is taken by {listeners.describe_owner(listener)}", False
    return "", False


def open_gate(package: str, name: str, log: str, generation: int) -> tuple[int, int]:
    """Start a gate; returns its pid and the descriptor that its instructions are written to."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        waiting, instructions = os.pipe()
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", package, "gate"],
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
