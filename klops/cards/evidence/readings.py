"""What the counters of cards say: memory errors, links to the host, versions, temperature. Pure.

A card can be broken and every one of these in order: a published broken card had no memory error, no process
and an idle clock. So they make a card one to look at, and their silence makes none healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from klops.cards.evidence.findings import DEGRADED, NOTE, Finding
from klops.cards.identity import Card
from klops.cards.smi.machine import MachineRow
from klops.cards.smi.query import QueryCard

#: Degrees Celsius above which a card's temperature is told. Idle cards were seen at 35 to 49; what the maker
#: allows is not published, so this is no limit of his.
WARM = 85


def findings(
    cards: Sequence[Card], rows: Sequence[MachineRow], queried: Sequence[QueryCard]
) -> list[Finding]:
    """Of every card in either form."""
    machine, query = {row.bdf: row for row in rows}, {one.bdf: one for one in queried}
    found: list[Finding] = []
    for card in cards:
        row, one = machine.get(card.bdf), query.get(card.bdf, QueryCard(card.bdf))
        found += _errors(card.index, one) + _pcie(card.index, one)
        temperature = one.temperature if one.temperature is not None else row.temperature if row else None
        if temperature is not None and temperature >= WARM:
            said = f"{temperature} C is warm (told from {WARM} C; the maker's limit is not known)"
            found.append(Finding("temperature", card.index, NOTE, said))
    indexes = {card.bdf: card.index for card in cards}
    for what, values in (
        ("firmware", {bdf: _firmware(one) for bdf, one in query.items()}),
        # in other words, so never held against those of -q
        ("firmware in xpu-smi -m", {row.bdf: row.firmware for row in rows}),
        ("part number", {bdf: one.part for bdf, one in query.items()}),
        ("product", {bdf: one.product for bdf, one in query.items()}),
    ):
        found += _unlike(
            what, {indexes[bdf]: said for bdf, said in values.items() if bdf in indexes and said}
        )
    return found


def reading(card: Card, row: MachineRow | None, one: QueryCard | None) -> str:
    """What its counters show now, in one line; "" when nothing does."""
    parts = []
    temperature = one.temperature if one and one.temperature is not None else row.temperature if row else None
    power = one.power if one and one.power is not None else row.power if row else None
    if temperature is not None:
        parts.append(f"{temperature} C")
    if power is not None:
        parts.append(f"{power} W" + (f" of {one.power_limit} W" if one and one.power_limit else ""))
    if card.memory_used_mib is not None:
        parts.append(f"{card.memory_used_mib} of {card.memory_total_mib} MiB in use")
    if card.utilisation is not None:
        parts.append(f"{card.utilisation} % busy")
    firmware = (_firmware(one) if one else "") or (row.firmware if row else "")
    if firmware:
        parts.append(f"firmware {firmware}")
    return ", ".join(parts)


def _firmware(one: QueryCard) -> str:
    return dict(one.firmware).get("ALL") or " ".join(f"{part} {version}" for part, version in one.firmware)


def _errors(index: int, one: QueryCard) -> list[Finding]:
    found = []
    for name, errors, severity, action in (
        ("uncorrectable", one.uncorrectable, DEGRADED, "reset"),
        ("correctable", one.correctable, NOTE, "none"),
    ):
        now, ever = errors.volatile or 0, errors.aggregate or 0
        if now or ever:
            said = f"{now} {name} memory errors since the driver was loaded, {ever} ever"
            found.append(Finding("ecc", index, severity, said, action))
    if one.ecc_mode == "Disabled":
        said = "memory errors are not watched for: ECC is off"
        found.append(Finding("ecc", index, NOTE, said))
    return found


def _pcie(index: int, one: QueryCard) -> list[Finding]:
    found = []
    if one.width.below:
        said = f"its PCIe link has {one.width.now} of {one.width.best} lanes"
        found.append(Finding("pcie", index, DEGRADED, said, "inspect"))
    if one.generation.below:
        # idle links go down by themselves elsewhere; whether these do isn't known, and a sample shows 3 of 4
        said = f"its PCIe link is of generation {one.generation.now}, and could be of {one.generation.best}"
        found.append(Finding("pcie", index, NOTE, said))
    return found


def _unlike(what: str, values: Mapping[int, str]) -> list[Finding]:
    """Cards that differ from most of the others; all of them, where there is no majority."""
    counts = Counter(values.values())
    if len(counts) < 2:
        return []
    (most, many), (_, next_many) = counts.most_common(2)
    if many == next_many:
        listed = "; ".join(f"card {index}: {value}" for index, value in sorted(values.items()))
        return [Finding("firmware", None, NOTE, f"{what} differs between the cards: {listed}")]
    return [
        Finding("firmware", index, NOTE, f"{what} {value}, and {most} on {many} other cards")
        for index, value in sorted(values.items())
        if value != most
    ]
