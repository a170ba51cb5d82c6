"""Reader of ``xpu-smi -q``: an indented report, read by its sections.

Read leniently: noise before it costs nothing, a value of ``N/A`` or ``Invalid Argument`` that value alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from klops.cards.identity import normalise_bdf
from klops.cards.smi.values import number, said

# "XPU 00000000:01:00.0", and not "XPU UUID", "XPU Part Number", "XPU Link Info", "XPU-RT Version" ...
_HEADER = re.compile(r"^XPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)\s*$")
_INDENT = 4
_FIRMWARE = "Firmware Version/"
_LINK = "PCI/XPU Link Info/"


@dataclass(frozen=True)
class Limit:
    """What a PCIe link has now and what it can have; None where that isn't said."""

    now: int | None = None
    best: int | None = None

    @property
    def below(self) -> bool:
        """Whether it is known to be less than it can be."""
        return self.now is not None and self.best is not None and self.now < self.best


@dataclass(frozen=True)
class Errors:
    """ECC errors of the memory: ``volatile`` since the driver was loaded, ``aggregate`` of all the time."""

    volatile: int | None = None
    aggregate: int | None = None


@dataclass(frozen=True)
class QueryCard:
    """One card of ``-q``; ``pids`` are those of its process list, as far as the tool can see them.

    Memory in MiB, temperature in degrees Celsius, power in watts. Its "PCIe Id" is left out: it looks like
    the OAM id, but no source says that it is.
    """

    bdf: str
    minor: int | None = None
    uuid: str = ""
    serial: str = ""
    product: str = ""
    part: str = ""
    #: versions by the names of their parts: "PBL", "SBL", "CPLD", ... and "ALL"
    firmware: tuple[tuple[str, str], ...] = ()
    memory_used: int | None = None
    memory_total: int | None = None
    utilisation: int | None = None
    #: PCIe generation, and lanes
    generation: Limit = Limit()
    width: Limit = Limit()
    ecc_mode: str = ""
    correctable: Errors = Errors()
    uncorrectable: Errors = Errors()
    temperature: int | None = None
    power: int | None = None
    power_limit: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class QueryReport:
    """All of ``-q``: versions as printed; ``attached`` counts all cards, also when one was asked for."""

    driver: str = ""
    runtime: str = ""
    attached: int | None = None
    cards: tuple[QueryCard, ...] = ()


@dataclass
class _Block:
    bdf: str
    values: dict[str, str] = field(default_factory=dict)
    pids: list[int] = field(default_factory=list)

    def text(self, name: str) -> str:
        """A value, "" where there is none."""
        return said(self.values.get(name, ""))

    def number(self, name: str) -> int | None:
        return number(self.text(name))

    def limit(self, name: str) -> Limit:
        return Limit(self.number(f"{_LINK}{name}/Current"), self.number(f"{_LINK}{name}/Max"))

    def errors(self, name: str) -> Errors:
        return Errors(*(self.number(f"ECC Errors/{kind}/DRAM {name}") for kind in ("Volatile", "Aggregate")))

    def card(self) -> QueryCard:
        versions = [name for name in self.values if name.startswith(_FIRMWARE) and self.text(name)]
        return QueryCard(
            bdf=self.bdf,
            minor=self.number("Minor Number"),
            uuid=self.text("XPU UUID"),
            serial=self.text("Serial Number"),
            product=self.text("Product Name"),
            part=self.text("XPU Part Number"),
            firmware=tuple(
                (name[len(_FIRMWARE) :].replace(" Version", ""), self.text(name)) for name in versions
            ),
            memory_used=self.number("Memory Usage/Used"),
            memory_total=self.number("Memory Usage/Total"),
            utilisation=self.number("Utilization/Xpu"),
            generation=self.limit("PCIe Generation"),
            width=self.limit("Link Width"),
            ecc_mode=self.text("Ecc Mode/Current"),
            correctable=self.errors("Correctable"),
            uncorrectable=self.errors("Uncorrectable"),
            temperature=self.number("Temperature/XPU Current Temp"),
            power=self.number("Power Readings/Power Draw"),
            power_limit=self.number("Power Readings/Enforced Power Limit"),
            pids=tuple(self.pids),
        )


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
            pid = number(value)
            if pid is not None:
                block.pids.append(pid)
            continue
        block.values.setdefault("/".join((*section, name)), value)
    return QueryReport(
        driver=head.text("Driver Version"),
        runtime=head.text("XPU-RT Version"),
        attached=head.number("Attached XPUs"),
        cards=tuple(block.card() for block in blocks),
    )
