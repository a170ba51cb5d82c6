"""How long things take on a card, in wall clock: a model, slept through.

Bandwidths are those seen on P800 hosts (field notes on P800, 3.5; algorithm bandwidth). Nothing takes less
than ``LEAST``, and all of it ``STRETCH`` times as long: klops compares durations by 15 %, and processes on
two cores keep step within some tenths of a millisecond, when others are busy there within a few. So figures
of pairs at 256 MiB are those of a P800 over STRETCH; below they tell nothing (2.6 MB take 0.13 ms there).
"""

from __future__ import annotations

import os
import time

from ._layer import rankfaults

#: GB/s of a pair by kind of link, and of more cards.
XL, SYS, MORE = 28.85, 37.88, 19.3
#: Neighbours over XPULink outside a card's own four, as the rehearsal's xpu-smi has them.
CROSS = ((0, 4), (1, 5), (2, 6), (3, 7))
#: Seconds that a fill and an all-reduce of two take at least. More ranks take turns on the cores and come one
#: after another, so ``BASE`` and ``EACH`` for each of them.
LEAST = 0.007
BASE, EACH = 0.004, 0.0015
#: A test that is about speed asks for more, on a machine that is busy.
STRETCH = float(os.environ.get("KLOPS_SIM_STRETCH") or 2)

_pace = rankfaults.Pace()
#: When the last of what is queued on the card was put to it; None when nothing is.
_begun: float | None = None
#: The card of this process, None before it has one that is known; whether it is in a group.
card: int | None = None
grouped = False


def all_reduce(size: int, cards: list[int | None]) -> float:
    """Seconds of an all-reduce of ``size`` bytes among healthy cards."""
    bandwidth, least = MORE, max(LEAST, BASE + EACH * len(cards))
    if len(cards) == 2 and None not in cards:
        a, b = sorted(one for one in cards if one is not None)
        bandwidth = XL if a // 4 == b // 4 or (a, b) in CROSS else SYS
    return STRETCH * max(least, size / bandwidth / 1e9)


def delay(seconds: float, factor: float) -> float:
    """What a slow card adds to something that lasts ``seconds``."""
    return _pace.delay(seconds, seconds, factor)


def reach(moment: float, seconds: float, extra: float) -> None:
    """Wait for the end of something that began at ``moment`` (monotonic) and lasts ``seconds + extra``."""
    left = moment + seconds + extra - time.monotonic()
    if left > 0:  # else nobody waited for it
        time.sleep(left)
        _pace.note(seconds, time.monotonic() - moment - extra)


def join(group: bool) -> None:
    """From now on in a group, or no longer. In one only collectives take time."""
    global grouped, _begun
    grouped, _begun = group, None


def queue(index: int | None) -> None:
    """Something was put to the card to do. Opens the card where that has not been done."""
    global _begun
    from . import cuda

    cuda.need(index)
    _begun = None if grouped else time.monotonic()


def settle() -> None:
    """Wait until the card has done what is queued."""
    global _begun
    if _begun is not None:
        began, _begun = _begun, None
        reach(began, STRETCH * LEAST, delay(STRETCH * LEAST, rankfaults.factor([card], card)))
