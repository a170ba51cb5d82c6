"""A record made anew from what is left when a unit's state file is damaged, gone, or a newer klops' own."""

from __future__ import annotations

from typing import Any, Mapping

from klops.agent.processes.procs import Process
from klops.agent.units import unit
from klops.agent.units.lineage import Lineage
from klops.agent.units.unit import Record, Seen


def rebuilt(
    name: str,
    lineage: Lineage,
    processes: dict[int, Process],
    running: Mapping[str, Any],
    seen: Seen,
    why: str,
    replaced: bool,
) -> Record:
    """What lives is kept and checked as if just started; of a unit that doesn't live nothing is guessed.

    Such a one is failed. It may have been stopped on purpose: where its file is ``replaced`` by this record
    no later life of the container starts it; a file that is left as it is will be read again then.

    ``running`` is what the unit's files say of it: a living one counts as launched with that.
    """
    record = Record(name, desired=unit.RUNNING)
    record.generation = max((member.generation for member in lineage.members.values()), default=0)
    if lineage.living(processes):
        record.root = lineage.root()
        record.launched = seen.now
        record.running = dict(running)
        record.enter(unit.STARTING, seen.now, seen.clock)
    else:
        record.desired = unit.STOPPED if replaced else unit.RUNNING
        record.error = why
        record.enter(unit.FAILED, seen.now, seen.clock)
    return record
