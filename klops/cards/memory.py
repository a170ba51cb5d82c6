"""Memory of cards: what a start will ask for, and whether a stop has given it back. Pure; MiB throughout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from klops.cards.smi.machine import MachineRow

#: How much more than before a start a card may hold after the stop and still count as given back. xpu-smi
#: counts whole MiB, and whoever merely looks at a card (xpu-smi, a monitor) has a context of some hundred on
#: it; a worker that lives on holds its share of the weights, which is tens of thousands.
SLACK = 512
#: vLLM's own default of ``--gpu-memory-utilization``.
UTILISATION = 0.9
_FLAG = "--gpu-memory-utilization"


class Use(NamedTuple):
    """Memory of one card, and how busy it is in percent."""

    used: int
    total: int
    busy: int | None = None

    @property
    def free(self) -> int:
        """What nobody holds."""
        return self.total - self.used


class Short(NamedTuple):
    """A card with less free memory than will be asked of it."""

    bdf: str
    use: Use
    asked: int


class Held(NamedTuple):
    """A card that holds more than before its unit was started."""

    bdf: str
    used: int
    before: int


def uses(rows: Iterable[MachineRow]) -> dict[str, Use]:
    """Use by PCI address; a card of which a line cut short says too little is left out."""
    found = {}
    for row in rows:
        if row.memory_used is not None and row.memory_total:
            found[row.bdf] = Use(row.memory_used, row.memory_total, row.utilisation)
    return found


def utilisation(argv: Sequence[str]) -> float | None:
    """The share of each card that ``vllm serve`` will ask for; None where its command line doesn't tell.

    vLLM refuses to start where less than this share *of all memory* is free.

    >>> utilisation(["vllm", "serve", "/m", "--gpu_memory_utilization=0.75"])
    0.75
    """
    if list(argv[1:2]) != ["serve"]:
        return None
    found: str | None = None
    for place, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") == _FLAG:
            found = value if equals else next(iter(argv[place + 1 : place + 2]), "")
    if found is None:
        # a file of settings may say otherwise
        told = any(word.partition("=")[0] == "--config" for word in argv)
        return None if told else UTILISATION
    try:
        share = float(found)
    except ValueError:
        return None  # vLLM will say so itself
    return share if 0 < share <= 1 else None


def short(needs: Mapping[str, float], now: Mapping[str, Use]) -> list[Short]:
    """Cards that have too little: ``needs`` is the share asked of each. Unknown cards are passed over."""
    found = []
    for bdf, share in needs.items():
        use = now.get(bdf)
        if use is not None and use.free < int(share * use.total):
            found.append(Short(bdf, use, int(share * use.total)))
    return found


def returned(before: Mapping[str, int], now: Mapping[str, Use], slack: int = SLACK) -> list[Held] | None:
    """Cards whose memory has not come back to what was used ``before``, [] when all has.

    None when it can't be told: a card isn't in ``now``.
    """
    if not set(before) <= set(now):
        return None
    return [Held(bdf, now[bdf].used, used) for bdf, used in before.items() if now[bdf].used > used + slack]
