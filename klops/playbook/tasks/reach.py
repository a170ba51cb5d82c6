"""How far what comes later is looked ahead of what is done now: turns of a loop, and tasks of a host."""

from __future__ import annotations

import sys


class Reach:
    """How many later turns or tasks are read together with the current one, where something has to be read.

    All at first: a loop that changes nothing costs one command. A change makes all that was read worthless,
    so the turn after one is read alone, and each turn without a change doubles the reach again: what is read
    in vain is at most as much as what was read to some purpose, and the cost stays linear.

    ``spared``: after so many changes all is read once more, for one command: where little changes that is
    all that it takes.
    """

    def __init__(self, turns: int = sys.maxsize, spared: int = 0) -> None:
        self._most = self.turns = turns
        self._spared = spared

    def after(self, *, changed: bool) -> None:
        """Take note of what the current one did."""
        if not changed:
            self.turns = min(2 * self.turns + 1, self._most)
        elif self._spared:
            self._spared -= 1
        else:
            self.turns = 0
