"""Reader of ``xpu-smi -L``, of which three formats were seen: what is sure is ``XPU`` and the index."""

from __future__ import annotations

import re
from dataclasses import dataclass

from klops.cards.identity import normalise_bdf

_LINE = re.compile(r"^XPU\s+(\d+):\s*(.*)$")
_UUID = re.compile(r"\bGPU-[0-9A-Za-z-]+")
_BDF = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")


@dataclass(frozen=True)
class Listed:
    """One line: the index, and UUID or PCI address where the line has one."""

    index: int
    uuid: str = ""
    bdf: str = ""


def parse_list(text: str) -> list[Listed]:
    """The cards of ``xpu-smi -L``; other lines are noise and left out.

    >>> parse_list("XPU 0: P800 OAM (UUID: GPU-12-34)")
    [Listed(index=0, uuid='GPU-12-34', bdf='')]
    """
    found = []
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None:
            continue
        uuid, bdf = _UUID.search(match[2]), _BDF.search(match[2])
        found.append(Listed(int(match[1]), uuid[0] if uuid else "", normalise_bdf(bdf[0]) if bdf else ""))
    return found
