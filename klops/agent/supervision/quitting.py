"""The verb ``quit``: all units end, then supervisor and launcher. What is wanted stays written down."""

from __future__ import annotations

import time
from typing import Any

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.supervision import control
from klops.agent.units import report

#: Seconds between looks.
_LOOK = 0.1
#: Seconds until it is given up: beyond those that a supervisor takes at most.
_PATIENCE = 150.0


def leave(paths: store.Paths) -> dict[str, Any]:
    """Returns when all are gone. Raises :class:`VerbError` when one lives on, or there is none to ask."""
    try:
        ending = control.insist(paths.run, {"verb": "quit"})["ending"]
    except VerbError as failure:
        if failure.code != control.NO_SUPERVISOR or _alive(report.from_disk(paths, procs.table())):
            raise
        ending = []  # nothing is left to end
    deadline = time.monotonic() + _PATIENCE
    while any(_lives(pid, start) for pid, start in ending):
        if time.monotonic() > deadline:
            left = ", ".join(f"pid {pid}" for pid, start in ending if _lives(pid, start))
            raise VerbError("quit-timeout", f"supervisor or launcher did not end in time: {left} lives")
        time.sleep(_LOOK)
    units = report.from_disk(paths, procs.table())
    alive = _alive(units)
    if alive:
        raise VerbError(
            "units-alive",
            f"the supervisor has ended, but not all of its units: {alive}",
            "klops up starts another supervisor, which ends them or says why it can't",
        )
    return {"units": units}


def _lives(pid: int, start: int) -> bool:
    process = procs.read(pid)
    return process is not None and process.start == start and process.alive


def _alive(units: dict[str, Any]) -> str:
    return ", ".join(
        f"pid {member['cpid']} ({member['name']}) of {name}"
        for name, one in units.items()
        for member in one["lineage"]
    )
