"""What programs that have ended left alive: ended by KILL, each by its identity, and taken in."""

from __future__ import annotations

import os
import signal
import time
from typing import Iterable

from klops.agent.audit import Audit
from klops.agent.processes import identity, procs
from klops.agent.units.lineage import Lineage

#: Seconds for KILL to have its effect: on those of a record, and on children of this process.
_ENDING, _ENDING_OWN = 5.0, 2.0
#: Seconds between two looks.
_LOOK = 0.02


def end_all(lineage: Lineage, audit: Audit, why: str, patience: float = _ENDING) -> list[procs.Process]:
    """KILL whatever of a record still lives, by identity, and make the record empty; who lives on."""
    deadline = time.monotonic() + patience
    sent: set[tuple[int, int]] = set()
    while True:
        table = procs.table()
        lineage.grow(table, 0, (0, 1, os.getpid()))
        living = lineage.living(table)
        if not living:
            lineage.forget()
            if not lineage.elsewhere:
                os.unlink(lineage.path)
            return []
        if time.monotonic() > deadline:
            lineage.write()
            return living
        for one in living:
            handle = identity.hold(identity.of(one)) if (one.pid, one.start) not in sent else None
            if handle is not None:
                audit.signal("", handle, one.name, signal.SIGKILL, why)
                handle.close()
            sent.add((one.pid, one.start))
        _reap(living)
        time.sleep(_LOOK)


def end_children(audit: Audit, why: str, patience: float = _ENDING_OWN) -> None:
    """KILL what came to this process from others that ended, and isn't on record: of env_script, for one."""
    deadline = time.monotonic() + patience
    sent: set[tuple[int, int]] = set()
    while True:
        own = [one for one in procs.table().values() if one.ppid == os.getpid()]
        _reap(own)
        living = [one for one in own if one.alive]
        if not living or time.monotonic() > deadline:
            return
        for one in living:
            handle = identity.hold(identity.of(one)) if (one.pid, one.start) not in sent else None
            sent.add((one.pid, one.start))
            if handle is not None:
                audit.signal("", handle, one.name, signal.SIGKILL, why)
                handle.close()
        time.sleep(_LOOK)


def _reap(living: Iterable[procs.Process]) -> None:
    """Take in what has ended and came to this process, when its parent ended before it."""
    for one in living:
        if one.ppid == os.getpid():
            try:
                os.waitpid(one.pid, os.WNOHANG)
            except ChildProcessError:
                continue
