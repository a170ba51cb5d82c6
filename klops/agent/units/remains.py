"""What one unit leaves behind, as the supervisor sees to it: noted while it lives, cleared before a start."""

from __future__ import annotations

import errno
import time
from typing import Any, Callable, Sequence

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes.procs import Process
from klops.agent.units import leftovers, traces
from klops.agent.units.kept import Surroundings
from klops.agent.units.leftovers import Place

#: Seconds between two clearings: what could not be removed is tried again, but not at every look.
_AGAIN = 5.0
#: Notes take at most one part in this of a core: the maps of ten engines' processes may have 50,000 lines.
_SHARE = 1000


class Remains:
    """The list of one unit, and what stands on it."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self._name = name
        self._around = around
        self._path = around.paths.traces(name)
        self._next_note = 0.0
        self._noted_ready = False
        self._cleared = 0.0

    def watch(self, living: Sequence[Process], now: float, *, ready: bool, ending: bool = False) -> None:
        """Note what the members have when it is time; at once when it gets ready or begins to end."""
        if not living or (now < self._next_note and self._noted_ready == ready and not ending):
            return
        self._noted_ready = ready
        begun = time.thread_time()
        self._attempt("can't be noted", lambda: traces.note(self._path, living))
        cost = time.thread_time() - begun
        self._next_note = now + max(traces.INTERVAL if ready else traces.STARTING, _SHARE * cost)

    def clear(self) -> None:
        """Remove what earlier generations left: only when nothing of the unit lives.

        Only in a container that klops made: of another it isn't known here with whom it shares its memory.
        """
        now = time.monotonic()
        if not self._around.made or now - self._cleared < _AGAIN:
            return
        self._cleared = now
        place = Place(self._around.paths, self._around.audit, made=True)
        self._attempt("can't be removed", lambda: leftovers.tidy(place, (), check=False, only=self._name))

    def begin(self) -> None:
        """A generation is about to be launched. Raises ``OSError``: without a note of it none is."""
        traces.begin(self._path)
        self._next_note = self._cleared = 0.0  # it may die young, and what it leaves then is cleared at once

    def leave(self) -> None:
        """The unit is removed: so is the list, unless something on it is left for a clean-up to find."""
        self._cleared = 0.0
        self.clear()

        def close() -> None:
            if not any(one.there for one in traces.load(self._path).files):
                store.remove(self._path)

        self._attempt("can't be forgotten", close)

    def _attempt(self, what: str, action: Callable[[], Any]) -> None:
        trouble = f"{self._name}: what it has in shared memory {what}"
        try:
            action()
        except OSError as error:
            self._around.troubles.met(trouble, error)
        except VerbError as failure:
            self._around.troubles.met(trouble, OSError(errno.EINVAL, failure.message))
        else:
            self._around.troubles.over(trouble)
