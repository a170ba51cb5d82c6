"""How long a rank may say nothing until it counts as hanging. Pure.

A collective that hangs prints nothing, so only time tells it from a slow one. The whole patience (setting
``probe.timeout``) is for what nothing is known of. Once a collective went well in this diagnosis it is known
how long healthy ranks are silent here, and one that is silent far longer hangs. Nobody is blamed by the short
patience alone: what failed is repeated in fresh processes, with the whole one.

No figure for a P800 is known: how long XCCL takes to connect there was never measured by us. So the short one
is a multiple of what this very host shows, and :data:`LEAST` where that is very little.
"""

from __future__ import annotations

from typing import Optional

#: Seconds that are waited at least: a host that is short of memory or processors stalls for some.
LEAST = 5.0
#: So many times the longest silence of healthy ranks: a group of eight may take some times as long as pairs,
#: and a slow card, which is a tenth slower or a half, is far from it.
TIMES = 10


class Patience:
    """Of one diagnosis, in seconds."""

    def __init__(self, whole: float) -> None:
        self.whole = whole
        #: the longest silence of ranks whose collective went well; None before there was one
        self._silence: Optional[float] = None

    def learn(self, silence: float) -> None:
        """A collective went well whose ranks said nothing for so long at most.

        Only of processes in which it was the first one, if that is the one that takes longest: libraries are
        loaded and connected then, and one that is replaced has to do so again.
        """
        self._silence = max(silence, self._silence or 0.0)

    def of(self, *, fresh: bool) -> float:
        """For the next test; ``fresh``: one that repeats a failed one, which is to count."""
        if fresh or self._silence is None:
            return self.whole
        return min(self.whole, max(LEAST, TIMES * self._silence))
