"""Reader of ``xpu-smi topo -m``: how every two cards are linked.

Its one published sample is a test's, and not symmetric. So a link counts as there if either direction says
so, and what the two directions disagree on is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from klops.cards.evidence.findings import DEGRADED, NOTE, UNKNOWN, Finding

#: An XPULink between two cards.
XPULINK = "XL"
#: Ways between two cards over PCIe, from near to far, in the words of ``nvidia-smi topo``.
PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")
_SELF = "X"
_CARD = re.compile(r"XPU(\d+)\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Topology:
    """``links``: kind of link of each pair (low, high) that the table tells; ``cards``: those in it."""

    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    cards: tuple[int, ...] = ()

    @property
    def neighbours(self) -> dict[int, frozenset[int]]:
        """The cards that each card has an XPULink to."""
        return {
            card: frozenset(
                (set(pair) - {card}).pop()
                for pair, kind in self.links.items()
                if card in pair and kind == XPULINK
            )
            for card in self.cards
        }


def _number(word: str) -> int | None:
    match = _CARD.match(word)
    return int(match.group(1)) if match else None


def _kind(word: str) -> bool:
    return word in (_SELF, XPULINK, *PCIE)


def _table(text: str) -> dict[int, dict[int, str]]:
    """What each row says of each column: of cards only, by the header that comes before the rows."""
    columns: list[tuple[int, int]] = []
    rows: dict[int, dict[int, str]] = {}
    for line in _COLOUR.sub("", text).splitlines():
        words = line.split()
        if not words or _number(words[0]) is None:
            continue
        if len(words) == 1 or not _kind(words[1]):  # the header: what follows is no way to a card
            # among them are network cards, NIC0 or mlx5_0; columns of two words come last
            numbered = enumerate(map(_number, words), start=1)
            columns = columns or [(place, number) for place, number in numbered if number is not None]
        else:
            row = {number: words[place] for place, number in columns if place < len(words)}
            rows[int(words[0][len("XPU") :])] = row
    return rows


def parse(text: str) -> Topology:
    """Links between the cards. A row that doesn't mark its own card is shifted, and not believed."""
    findings = []
    rows = _table(text)
    for card, row in sorted(rows.items()):
        if row.get(card, _SELF) != _SELF:
            said = f"xpu-smi topo -m says {row[card]} where card {card} meets itself: its row is not read"
            findings.append(Finding("topology", None, UNKNOWN, said))
            rows[card] = {}
    links = {}
    known = sorted(set(rows).union(*rows.values())) if rows else []
    for place, low in enumerate(known):
        for high in known[place + 1 :]:
            there, back = rows.get(low, {}).get(high, ""), rows.get(high, {}).get(low, "")
            if there and back and there != back:
                findings.append(
                    Finding(
                        "topology",
                        None,
                        NOTE,
                        f"xpu-smi topo -m is not symmetric: {there} from card {low} to {high}, "
                        f"{back} from {high} to {low}",
                    )
                )
            kind = _either(there, back)
            if kind:
                links[low, high] = kind
    return Topology(links, tuple(findings), tuple(known))


def _either(there: str, back: str) -> str:
    """XPULink if either says so, else the farther way; "" where neither says anything."""
    said = [word for word in (there, back) if word]
    if XPULINK in said:
        return XPULINK
    return max(said, key=lambda word: PCIE.index(word) if word in PCIE else -1, default="")


def alone(topology: Topology) -> list[Finding]:
    """Cards without any XPULink, where most cards have one.

    Of a card that has some of them less than others nothing is said: which of two ends of a link that isn't
    there is at fault, or whether it is meant to be there, a table doesn't tell.
    """
    neighbours = topology.neighbours
    lonely = [card for card, others in sorted(neighbours.items()) if not others]
    if 2 * len(lonely) >= len(neighbours):
        return []
    said = "no XPULink to any other card by xpu-smi topo -m"
    return [Finding("link", card, DEGRADED, said, "inspect") for card in lonely]


def grouped(topology: Topology, groups: Iterable[Sequence[int]]) -> list[Finding]:
    """Groups of the settings, smaller than the host, whose cards no way over XPULinks of theirs joins."""
    neighbours = topology.neighbours
    if not any(neighbours.values()):
        return []
    found = []
    for group in groups:
        members = {*group}
        if len(members) < 2 or not members < {*neighbours}:
            continue
        reached, edge = {group[0]}, {group[0]}
        while edge:
            edge = {other for card in edge for other in neighbours[card] & members} - reached
            reached |= edge
        if reached != members:
            apart = ", ".join(map(str, sorted(members - reached)))
            said = (
                f"klops.cards.groups has {', '.join(map(str, group))} as cards that share fast links, but by "
                f"xpu-smi topo -m no XPULinks among them lead from card {group[0]} to card {apart}"
            )
            found.append(Finding("groups", None, DEGRADED, said, "inspect"))
    return found
