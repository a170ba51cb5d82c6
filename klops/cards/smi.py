"""Readers of what xpu-smi prints, and the join of its two forms into cards.

``-m`` is one line a card of 32 fields, one of them quoted (field meanings: the tool's own help). ``-q`` is an
indented report. Both are read leniently: a driver's warning line before them, a line cut short or a value of
``N/A`` costs that value and nothing else.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from klops.cards.identity import Card, node_name, normalise_bdf

# fields of -m
_BDF, _INDEX, _SERIAL = 0, 1, 3
_MEMORY_USED, _MEMORY_TOTAL, _UTILISATION, _MODEL = 17, 18, 19, 21
#: Fields of a whole line.
MACHINE_FIELDS = 32

# "XPU 00000000:01:00.0", and not "XPU UUID", "XPU Part Number", "XPU Link Info", "XPU-RT Version" ...
_HEADER = re.compile(r"^XPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)\s*$")
_NUMBER = re.compile(r"^\s*(\d+)(?:\.\d+)?\b")
_INDENT = 4


@dataclass(frozen=True)
class MachineRow:
    """One line of ``-m``; None and "" where it was cut short. Memory in MB: the numbers of ``-q`` in MiB."""

    bdf: str
    index: int
    serial: str = ""
    memory_used: int | None = None
    memory_total: int | None = None
    utilisation: int | None = None
    model: str = ""
    whole: bool = True


@dataclass(frozen=True)
class QueryCard:
    """One card of ``-q``; ``pids`` are those of its process list, as far as the tool can see them."""

    bdf: str
    minor: int | None = None
    uuid: str = ""
    serial: str = ""
    product: str = ""
    memory_used: int | None = None
    memory_total: int | None = None
    utilisation: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class QueryReport:
    """All of ``-q``: versions as printed; ``attached`` counts all cards, also when one was asked for."""

    driver: str = ""
    runtime: str = ""
    attached: int | None = None
    cards: tuple[QueryCard, ...] = ()


def _number(text: str) -> int | None:
    match = _NUMBER.match(text)
    return int(match.group(1)) if match else None


def parse_machine(text: str) -> list[MachineRow]:
    """Rows of ``xpu-smi -m``. Lines that don't start with a PCI address are noise and left out."""
    rows = []
    for line in text.splitlines():
        try:
            fields = shlex.split(line)
        except ValueError:  # an unbalanced quote: a line cut in the middle of the model's name
            fields = line.replace('"', " ").split()
        if len(fields) <= _INDEX:
            continue
        bdf, index = normalise_bdf(fields[_BDF]), _number(fields[_INDEX])
        if not bdf or index is None:
            continue
        padded = fields + [""] * (MACHINE_FIELDS - len(fields))
        rows.append(
            MachineRow(
                bdf=bdf,
                index=index,
                serial=padded[_SERIAL],
                memory_used=_number(padded[_MEMORY_USED]),
                memory_total=_number(padded[_MEMORY_TOTAL]),
                utilisation=_number(padded[_UTILISATION]),
                model=padded[_MODEL],
                whole=len(fields) == MACHINE_FIELDS,
            )
        )
    return rows


@dataclass
class _Block:
    bdf: str
    values: dict[str, str] = field(default_factory=dict)
    pids: list[int] = field(default_factory=list)


def _value(block: _Block, *names: str) -> str:
    """The first of these values that says something: N/A and "Invalid Argument" don't."""
    for name in names:
        value = block.values.get(name, "")
        if value and value not in ("N/A", "Invalid Argument", "None"):
            return value
    return ""


def parse_query(text: str) -> QueryReport:
    """The report of ``xpu-smi -q``, for all cards or for one."""
    head = _Block("")
    blocks: list[_Block] = []
    section: list[str] = []
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            blocks.append(_Block(normalise_bdf(header.group(1))))
            section = []
            continue
        if not line.strip():
            continue
        block = blocks[-1] if blocks else head
        depth = (len(line) - len(line.lstrip())) // _INDENT
        # on the first colon only: times and PCI addresses hold more of them
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        section = section[: max(depth - 1, 0)]
        if not colon:
            section.append(name)
            continue
        if name == "Process ID":
            pid = _number(value)
            if pid is not None:
                block.pids.append(pid)
            continue
        block.values.setdefault("/".join((*section, name)), value)
    return QueryReport(
        driver=_value(head, "Driver Version"),
        runtime=_value(head, "XPU-RT Version"),
        attached=_number(_value(head, "Attached XPUs")),
        cards=tuple(
            QueryCard(
                bdf=block.bdf,
                minor=_number(_value(block, "Minor Number")),
                uuid=_value(block, "XPU UUID"),
                serial=_value(block, "Serial Number"),
                product=_value(block, "Product Name"),
                memory_used=_number(_value(block, "Memory Usage/Used")),
                memory_total=_number(_value(block, "Memory Usage/Total")),
                utilisation=_number(_value(block, "Utilization/Xpu")),
                pids=tuple(block.pids),
            )
            for block in blocks
        ),
    )


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


def join(rows: list[MachineRow], report: QueryReport, device_dir: str = "/dev") -> Cards:
    """Join ``-m`` and ``-q`` on the PCI address.

    The index is that of ``-m``; without ``-m`` it is the place in ``-q``. The minor is that of ``-q``;
    without it the index is taken for it, which is wrong on some hosts, so that is a finding.
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
    for place, bdf in enumerate(by_bdf or queried):
        row, query = by_bdf.get(bdf), queried.get(bdf, QueryCard(bdf))
        index = row.index if row else place
        minor = query.minor
        if minor is None:
            assumed.append(index)
            minor = index
        serial = query.serial or (row.serial if row else "")
        if row and row.serial and query.serial and row.serial != query.serial:
            findings.append(f"card {bdf} has serial {row.serial} in xpu-smi -m and {query.serial} in -q")
        cards.append(
            Card(
                index=index,
                minor=minor,
                node=f"{device_dir.rstrip('/')}/{node_name(minor)}",
                bdf=bdf,
                uuid=query.uuid,
                serial=serial,
                memory_used_mib=_first(row.memory_used if row else None, query.memory_used),
                memory_total_mib=_first(row.memory_total if row else None, query.memory_total),
                utilisation=_first(row.utilisation if row else None, query.utilisation),
            )
        )
    if assumed:
        listed = ", ".join(str(i) for i in sorted(assumed))
        findings.append(f"no minor number for card {listed}: its index was taken for it")
    for what, values in (
        ("index", [str(card.index) for card in cards]),
        ("minor number", [str(card.minor) for card in cards]),
        ("UUID", [card.uuid for card in cards if card.uuid]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        findings.extend(f"two cards have {what} {value}" for value in twice)
    return Cards(tuple(sorted(cards, key=lambda card: card.index)), tuple(findings))


def read_cards(machine: str, query: str, device_dir: str = "/dev") -> Cards:
    """Cards from the texts of ``xpu-smi -m`` and ``xpu-smi -q``, either of which may be empty."""
    return join(parse_machine(machine), parse_query(query), device_dir)


def assumed_cards(count: int, device_dir: str = "/dev") -> Cards:
    """Cards ``0 .. count-1`` if index and minor are equal."""
    folder = device_dir.rstrip("/")
    return Cards(tuple(Card(i, i, f"{folder}/{node_name(i)}") for i in range(count)))
