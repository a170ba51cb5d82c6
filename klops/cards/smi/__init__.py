"""Readers of what xpu-smi prints, and the join of its two main forms into cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from klops.cards.identity import Card, node_name
from klops.cards.smi.machine import MachineRow, parse_machine
from klops.cards.smi.query import QueryCard, QueryReport, parse_query


@dataclass(frozen=True)
class Cards:
    """Cards in the order of their index, and what the sources disagreed on or left open."""

    cards: tuple[Card, ...] = ()
    findings: tuple[str, ...] = ()

    def by_index(self) -> dict[int, Card]:
        """The cards by smi index."""
        return {card.index: card for card in self.cards}


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def noted_minors(documents: Iterable[Mapping[str, Any] | None], boot_id: str) -> dict[str, int]:
    """Minors by PCI address as klops wrote them down since the host was booted; {} where it has not.

    ``documents`` are ``verdict.json`` and ``baseline.json``. What is of an earlier boot is left out, as
    numbers may change with BIOS and operating system, and what they disagree on.
    """
    found: dict[str, set[int]] = {}
    for document in documents:
        cards = (document or {}).get("cards")
        if (
            not boot_id
            or document is None
            or document.get("boot_id") != boot_id
            or not isinstance(cards, list)
        ):
            continue
        for card in cards:
            if isinstance(card, Mapping) and card.get("bdf") and isinstance(card.get("minor"), int):
                found.setdefault(str(card["bdf"]), set()).add(card["minor"])
    return {bdf: minor for bdf, (minor, *others) in found.items() if not others}


def join(
    rows: list[MachineRow],
    report: QueryReport,
    device_dir: str = "/dev",
    noted: Mapping[str, int] = {},
) -> Cards:
    """Join ``-m`` and ``-q`` on the PCI address.

    The index is that of ``-m``; without ``-m`` it is the place in ``-q``. The minor is that of ``-q``, or
    the one ``noted`` for the address; without both the index is taken for it, which is wrong on some hosts,
    so that is a finding, and the card says that its minor isn't known. A UUID or serial that two cards share
    is a finding too, and no card has it: it would make one card of them.
    """
    findings: list[str] = []
    by_bdf = {row.bdf: row for row in rows}
    queried = {card.bdf: card for card in report.cards}
    if len(by_bdf) != len(rows):
        findings.append("xpu-smi -m names one PCI address twice")
    if rows and report.cards and set(by_bdf) != set(queried):
        findings.extend(
            f"card {bdf} is in xpu-smi {'-m' if bdf in by_bdf else '-q'} only"
            for bdf in sorted(set(by_bdf) ^ set(queried))
        )
    cards: list[Card] = []
    assumed: list[int] = []
    recalled: list[int] = []
    for place, bdf in enumerate(by_bdf or queried):
        row, query = by_bdf.get(bdf), queried.get(bdf, QueryCard(bdf))
        index = row.index if row else place
        minor = _first(query.minor, noted.get(bdf))
        if minor is None:
            assumed.append(index)
        elif query.minor is None:
            recalled.append(index)
        number = index if minor is None else minor
        serial = query.serial or (row.serial if row else "")
        if row and row.serial and query.serial and row.serial != query.serial:
            findings.append(f"card {bdf} has serial {row.serial} in xpu-smi -m and {query.serial} in -q")
        if row and row.device is not None and row.device != row.index:
            findings.append(
                f"card {bdf} is {row.index} as a board and {row.device} as a device in xpu-smi -m: "
                f"{row.index} was taken for its index"
            )
        cards.append(
            Card(
                index=index,
                minor=number,
                node=f"{device_dir.rstrip('/')}/{node_name(number)}",
                bdf=bdf,
                uuid=query.uuid,
                serial=serial,
                memory_used_mib=_first(row.memory_used if row else None, query.memory_used),
                memory_total_mib=_first(row.memory_total if row else None, query.memory_total),
                utilisation=_first(row.utilisation if row else None, query.utilisation),
                minor_known=minor is not None,
            )
        )
    for indexes, taken in ((assumed, "its index"), (recalled, "what was noted since the host was booted")):
        if indexes:
            listed = ", ".join(str(i) for i in sorted(indexes))
            findings.append(f"no minor number for card {listed}: {taken} was taken for it")
    for what, values in (
        ("index", [str(card.index) for card in cards]),
        ("minor number", [str(card.minor) for card in cards]),
        ("UUID", [card.uuid for card in cards if card.uuid]),
        ("serial", [card.serial for card in cards if card.serial]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        findings.extend(f"two cards have {what} {value}" for value in twice)
    told = [card.minor for card in cards if card.minor_known]
    uuids, serials = [card.uuid for card in cards], [card.serial for card in cards]
    sure = [
        replace(
            card,
            # of two cards with one number at least one has another
            minor_known=card.minor_known and told.count(card.minor) == 1,
            # and what two cards share tells neither from the other
            uuid=card.uuid if uuids.count(card.uuid) == 1 else "",
            serial=card.serial if serials.count(card.serial) == 1 else "",
        )
        for card in cards
    ]
    return Cards(tuple(sorted(sure, key=lambda card: card.index)), tuple(findings))


def read_cards(machine: str, query: str, device_dir: str = "/dev", noted: Mapping[str, int] = {}) -> Cards:
    """Cards from the texts of ``xpu-smi -m`` and ``xpu-smi -q``, either of which may be empty.

    ``noted``: minors by PCI address, for cards of which ``-q`` says none.
    """
    return join(parse_machine(machine), parse_query(query), device_dir, noted)


def assumed_cards(count: int, device_dir: str = "/dev") -> Cards:
    """Cards ``0 .. count-1`` if index and minor are equal."""
    folder = device_dir.rstrip("/")
    return Cards(tuple(Card(i, i, f"{folder}/{node_name(i)}", minor_known=False) for i in range(count)))
