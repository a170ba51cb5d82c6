"""Bandwidth of an all-reduce, as nccl-tests defines it: GB/s are 10^9 bytes a second. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klops.cards.xccl.results import Outcome, Sample

#: Below this many bytes the time is that of starting an all-reduce, whatever the links do: it says nothing
#: on their bandwidth, and is the first to change with another load of the host's processors.
LATENCY = 1 << 20
#: Share of the learned bandwidth below which a group is slow.
ENOUGH = 0.85


def algorithm(count: int, us: float) -> float:
    """Algorithm bandwidth in GB/s of ``count`` bytes a rank in ``us`` microseconds; 0.0 for no time."""
    return count / us / 1000 if us > 0 else 0.0


def bus(algbw: float, world: int) -> float:
    """Bus bandwidth of an all-reduce of ``world`` ranks: what a link carried, to be compared with its speed.

    Each byte crosses it 2(n-1)/n times (nccl-tests, doc/PERFORMANCE.md).
    """
    return algbw * 2 * (world - 1) / world


def largest(outcome: Outcome) -> Sample | None:
    """The sample of the largest size that was timed."""
    return max((one for one in outcome.samples if one.us > 0), key=lambda one: one.bytes, default=None)


def against(outcome: Outcome, baseline: Mapping[int, float]) -> float | None:
    """The worst ratio to ``baseline``, algorithm bandwidth in GB/s by bytes; None: nothing to compare.

    Sizes that only one of them knows don't count, nor do those below :data:`LATENCY`.
    """
    ratios = [
        algorithm(one.bytes, one.us) / baseline[one.bytes]
        for one in outcome.samples
        if one.us > 0 and one.bytes >= LATENCY and baseline.get(one.bytes, 0.0) > 0
    ]
    return min(ratios, default=None)
