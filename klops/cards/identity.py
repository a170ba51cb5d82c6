"""A card and the five numbers it goes by.

smi index, ``/dev`` minor, OAM id, in-container index and rank are five different numbers. What stays is UUID,
serial and PCI address; everything else is derived from them, and only here.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_BDF = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def normalise_bdf(text: str) -> str:
    """A PCI address in the one form that all sources can be brought to, ``0000:9a:00``; "" when it is none.

    xpu-smi writes ``00000000:9A:00.0``, lspci ``9a:00.0``, the kernel log ``0000:9a:00``: so lower case, a
    domain of four digits, no function.

    >>> normalise_bdf("00000000:9A:00.0")
    '0000:9a:00'
    """
    match = _BDF.match(text.strip())
    if not match:
        return ""
    domain = int(match.group(1) or "0", 16)
    return f"{domain:04x}:{match.group(2).lower()}:{match.group(3).lower()}"


def node_name(minor: int) -> str:
    """Name of a card's device node below the device folder: ``xpu3``."""
    return f"xpu{minor}"


#: Name of the control node that every user of any card opens too.
CONTROL_NODE = "xpuctrl"


@dataclass(frozen=True)
class Card:
    """One XPU. Memory in MiB, utilisation in percent; None and "" where no source said."""

    #: as xpu-smi counts
    index: int
    #: number in the node's name, ``/dev/xpu<minor>``
    minor: int
    #: device node, with the folder it was looked for in
    node: str
    bdf: str = ""
    uuid: str = ""
    serial: str = ""
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    utilisation: int | None = None
    #: False: no source told the minor, so that this node may be another card's
    minor_known: bool = True

    def as_json(self) -> dict[str, Any]:
        """What is told of it, the shape ``klops status`` shows."""
        return {key: value for key, value in asdict(self).items() if key != "minor_known"}

    def identity(self) -> dict[str, Any]:
        """What a unit's specification records: no readings, so that it is the same at every look."""
        return {
            "index": self.index,
            "minor": self.minor,
            "node": self.node,
            "bdf": self.bdf,
            "uuid": self.uuid,
            "serial": self.serial,
        }


def numbers(card: Card, container: int | None, rank: int | None = None) -> str:
    """What a card is called here and there, in one line.

    ``container``: its number for runtimes in the container, None where it isn't in it; ``rank``: its place in
    a service's or a diagnosis' list of cards. The fifth number, its OAM id, is not told: nothing that is read
    here says it. ``PCIe Id`` of ``xpu-smi -q`` is not known to be it.

    >>> numbers(Card(6, 5, "/dev/xpu5", "0000:b6:00"), 2)
    'host 6 = container 2 = /dev/xpu5 = 0000:b6:00'
    """
    parts = [
        *([f"rank {rank}"] if rank is not None else []),
        f"host {card.index}",
        "not in the container" if container is None else f"container {container}",
        card.node,
        card.bdf or "PCI address unknown",
    ]
    return " = ".join(parts)
