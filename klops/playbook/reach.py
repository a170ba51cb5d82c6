"""How far the turns of a loop are looked ahead of the current one."""

from __future__ import annotations


class Reach:
    """How many later turns are read together with the current one, where something has to be read.

    All at first: a loop that changes nothing costs one command. A change makes all that was read worthless,
    so the turn after one is read alone, and each turn without a change doubles the reach again: what is read
    in vain is at most as much as what was read to some purpose, and the loop's cost stays linear.
    """

    def __init__(self, turns: int) -> None:
        self._most = self.turns = turns

    def after(self, *, changed: bool) -> None:
        """Take note of what the current turn did."""
        self.turns = 0 if changed else min(2 * self.turns + 1, self._most)
