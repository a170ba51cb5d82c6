"""What ranks leave in shared memory: noted while they live, removed once they are gone.

As with units: libraries of collectives leave segments behind when their process is killed. The list has a
name that no unit can have, so that a clean-up removes what a diagnosis that was killed itself has left.
"""

from __future__ import annotations

import time
from typing import Sequence

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes.procs import Process
from klops.agent.trouble import reason
from klops.agent.units import leftovers, traces
from klops.agent.units.leftovers import Place

_NAME = "@xccl"
#: Seconds for what is in the way of a removal to pass, and between looks.
_PATIENCE = 2.0
_LOOK = 0.2


class Leavings:
    """The list of one diagnosis."""

    def __init__(self, paths: store.Paths, audit: Audit) -> None:
        """Clears what an earlier one left. Raises ``OSError``."""
        self._path = paths.traces(_NAME)
        self._place = Place(paths, audit, made=False)
        #: sentences on what is left all the same
        self.notes = self.clear()
        traces.begin(self._path)

    def note(self, ranks: Sequence[Process]) -> None:
        """Put down what living ranks have now: before they are ended."""
        try:
            traces.note(self._path, ranks)
        except OSError as error:
            self.notes.append(f"what ranks have in shared memory can't be noted: {reason(error)}")
        except VerbError as failure:
            self.notes.append(f"what ranks have in shared memory can't be noted: {failure.message}")

    def clear(self) -> list[str]:
        """Remove what is on the list and nobody uses; what is left, in sentences. Raises ``OSError``."""
        found = leftovers.tidy(self._place, (), check=False, only=_NAME)
        left = [one for one in found if one["action"] != "removed"]
        return [f"left in shared memory: {one['path']} ({one['bytes']} bytes): {one['why']}" for one in left]

    def close(self) -> None:
        """All ranks are gone: remove what they left, and say what could not be."""
        until = time.monotonic() + _PATIENCE
        try:
            left = self.clear()
            # who has what open can't be seen of a process that is just beginning, or waits for a disk
            while left and time.monotonic() < until:
                time.sleep(_LOOK)
                left = self.clear()
            self.notes += left
        except OSError as error:
            self.notes.append(f"shared memory could not be looked through: {reason(error)}")
