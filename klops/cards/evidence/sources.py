"""Do the places that know of cards agree? Each is held against the cards of xpu-smi -m and -q. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from klops.cards.evidence.findings import DEGRADED, FAIL, NOTE, UNKNOWN, Finding
from klops.cards.identity import Card, normalise_bdf
from klops.cards.smi.listing import Listed

#: The cards' PCI vendors; one and the same card was seen under both.
VENDORS = ("1d22", "2057")
#: Device ids of a P800, and those of older cards.
P800 = ("3686", "3687", "3688", "3689")
OLDER = ("3684",)

# "16:00.0 1200: 1d22:3686 (rev 01)", with or without a domain
_LSPCI = re.compile(r"^(\S+)\s+[0-9a-f]{4}:\s+([0-9a-f]{4}):([0-9a-f]{4})\b")
_DEV = re.compile(r"dev(\d+)\Z")


@dataclass(frozen=True)
class Pci:
    """One device on the PCI bus."""

    bdf: str
    vendor: str
    device: str


def parse_lspci(text: str) -> list[Pci]:
    """Cards in the lines of ``lspci -n``; other devices, of these vendors too, are left out."""
    found = []
    for line in text.splitlines():
        match = _LSPCI.match(line.strip().lower())
        if match is None or match[2] not in VENDORS or match[3] not in (*P800, *OLDER):
            continue
        bdf = normalise_bdf(match[1])
        if bdf:
            found.append(Pci(bdf, match[2], match[3]))
    return found


def parse_proc(text: str) -> list[int]:
    """Numbers of the ``devN`` in a listing of ``/proc/kunlun``."""
    return sorted(int(match[1]) for match in map(_DEV.match, text.split()) if match)


def on_the_bus(cards: Sequence[Card], bus: Iterable[Pci]) -> list[Finding]:
    """Cards on the PCI bus and cards of xpu-smi."""
    here = {one.bdf: one for one in bus}
    found = []
    for bdf in sorted(set(here) - {card.bdf for card in cards}):
        said = (
            f"a card is on the PCI bus at {bdf} ({here[bdf].vendor}:{here[bdf].device}), but xpu-smi doesn't "
            "know it: the driver has lost it, or never took it"
        )
        found.append(Finding("sources", None, FAIL, said, "inspect"))
    for card in cards:
        one = here.get(card.bdf)
        if one is None and card.bdf:
            said = f"xpu-smi has card {card.index} at {card.bdf}, where lspci lists no card"
            found.append(Finding("sources", card.index, UNKNOWN, said, "inspect"))
        elif one is not None and one.device in OLDER:
            said = f"card {card.index} is no P800 ({one.vendor}:{one.device})"
            found.append(Finding("sources", card.index, NOTE, said))
    return found


def listed(cards: Sequence[Card], lines: Iterable[Listed]) -> list[Finding]:
    """Cards of ``xpu-smi -L``: by index, with the UUID or address that its format has."""
    known = {card.index: card for card in cards}
    found, seen = [], set()
    for line in lines:
        seen.add(line.index)
        card = known.get(line.index)
        if card is None:
            said = f"card {line.index} is in xpu-smi -L only"
            found.append(Finding("sources", None, DEGRADED, said, "inspect"))
            continue
        for mine, theirs in ((card.uuid, line.uuid), (card.bdf, line.bdf)):
            if mine and theirs and mine != theirs:
                said = f"card {card.index} is {mine} in xpu-smi -m and -q, and {theirs} in -L"
                found.append(Finding("sources", card.index, UNKNOWN, said, "inspect"))
    found += [
        Finding("sources", index, UNKNOWN, f"card {index} is not in xpu-smi -L", "inspect")
        for index in sorted(set(known) - seen)
    ]
    return found


def counted(cards: Sequence[Card], count: int, what: str) -> list[Finding]:
    """How many cards another place has, which names them by numbers of its own."""
    if count == len(cards):
        return []
    said = f"xpu-smi knows {len(cards)} cards, and {what} has {count}"
    return [Finding("sources", None, DEGRADED if count > len(cards) else NOTE, said, "inspect")]


def in_topology(cards: Sequence[Card], known: Collection[int]) -> list[Finding]:
    """Cards of ``xpu-smi topo -m``, which has the same indexes."""
    here = {card.index for card in cards}
    return [
        Finding(
            "sources",
            index if index in here else None,
            UNKNOWN if index in here else DEGRADED,
            f"card {index} is {'not in xpu-smi topo -m' if index in here else 'in xpu-smi topo -m only'}",
            "inspect",
        )
        for index in sorted(here ^ set(known))
    ]


def nodes_without_card(cards: Sequence[Card], nodes: Iterable[str]) -> list[Finding]:
    """Nodes of cards that xpu-smi doesn't know: their minor is that of no card."""
    return [
        Finding(
            "sources", None, DEGRADED, f"{node} is there, but xpu-smi knows no card of that minor", "inspect"
        )
        for node in sorted(set(nodes) - {card.node for card in cards})
    ]
