"""What the kernel log says about cards: lines by card and kind, with their number, the first and the last.

The lines are those of one driver as others published them (5.0.21.47; some of older ones). One and the same
Xid comes of a broken card and of a broken program, so nothing here ever makes a card fail; it makes it one to
test. The log is a ring: what is old is gone from it, and its absence says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from klops.cards.evidence.findings import DEGRADED, NOTE, Finding
from klops.cards.identity import Card, normalise_bdf

#: Kind of the findings that such lines are.
KERNEL_LOG = "kernel-log"


@dataclass(frozen=True)
class Kind:
    """One kind of line. ``severity``: what such lines say of a card at most."""

    name: str
    pattern: str
    meaning: str
    severity: str
    action: str = "none"


#: The first that fits counts.
KINDS: tuple[Kind, ...] = (
    Kind(
        "KL_XID_KERNEL_EXCEPTION",
        r"\bKL_XID_KERNEL_EXCEPTION\b",
        "a kernel raised an exception, one line a process that failed; a broken program can cause it",
        DEGRADED,
        "retry",
    ),
    Kind("KL_XID64_AXI_ADDR_ERROR", r"\bKL_XID64_AXI_ADDR_ERROR\b", "an address error", DEGRADED, "retry"),
    Kind("KL_XID 299", r"\bKL_XID 299\b", "an error of a channel", DEGRADED, "retry"),
    Kind(
        "Xid",
        r"\bXid \(PCI:",
        "an error that the driver gave a number; broken hardware or a broken program",
        DEGRADED,
        "retry",
    ),
    Kind(
        "noc_idle timeout",
        r"\bkl3_wait_for_noc_idle\(\) timeout",
        "the card's network on chip doesn't become idle",
        DEGRADED,
        "retry",
    ),
    Kind(
        "task timeout",
        r"\breason\[29\] task timeout",
        "a kernel didn't end in time on one of the card's clusters",
        DEGRADED,
        "retry",
    ),
    Kind(
        "access beyond memory",
        r"\breason\[4\] load/store operation exceed memory size",
        "a kernel reached beyond its memory: most likely the program's fault",
        NOTE,
    ),
    Kind(
        "link out of lock",
        r"\bc2c port ?\d+ AM out of lock",
        "an XPULink has lost its signal; seen together with failing addr_window checks",
        DEGRADED,
        "inspect",
    ),
    Kind("link not active", r"\bport \d+ xpulink not active", "an XPULink is down", DEGRADED, "inspect"),
    Kind("session error", r"\bmark sess error\(errno= ?XPUERR_\w+\)", "a program's session has failed", NOTE),
    Kind("session tainted", r"\bvstream\[\d+\] sess\[\d+\] tainted", "a program's session has failed", NOTE),
    Kind("driver reset", r"\bm3 mode1 reset\b", "the driver has reset the card by itself", NOTE),
    Kind("XDR disabled", r"\bXDR disabled\b", "direct transfers to network cards are off", NOTE),
)
_KINDS = tuple((kind, re.compile(kind.pattern)) for kind in KINDS)

# "[ 123.456] ", or with dmesg -T "[Wed Sep 23 10:49:41 2026] "
_TIME = re.compile(r"^(?:<\d+>)?\[\s*([^\]]+?)\s*\]")
_SECONDS = re.compile(r"\d+\.\d+\Z")
_PCI = re.compile(r"\(PCI:([0-9a-fA-F:.]+)\)")
#: older drivers name the device by its number: that in the name of its node
_OLD = re.compile(r"\bkl3_dev(\d+):")


@dataclass(frozen=True)
class Lines:
    """Lines of one kind about one card, which has a PCI address, a minor number, or neither.

    ``first`` and ``last`` are times as the log gives them, "" where it gives none: the host's clock
    (``dmesg -T``), or ``N s after the boot``. ``text``: the last of them, without its time.
    """

    kind: Kind
    bdf: str
    minor: int | None
    count: int
    first: str
    last: str
    text: str

    @property
    def told(self) -> str:
        """In words."""
        when = ""
        if self.first:
            when = f" at {self.last}" if self.first == self.last else f" from {self.first} to {self.last}"
        return (
            f"kernel log: {self.kind.name}, {self.count} line{'s' if self.count > 1 else ''}{when} "
            f"({self.kind.meaning}): {self.text}"
        )


def parse(text: str) -> list[Lines]:
    """The lines of known kinds, in the order in which a card and kind came first."""
    found: dict[tuple[str, str, int | None], Lines] = {}
    for line in text.splitlines():
        kind = next((kind for kind, pattern in _KINDS if pattern.search(line)), None)
        if kind is None:
            continue
        time, said = _TIME.match(line), line
        when = ""
        if time is not None:
            said = line[time.end() :]
            when = f"{time[1]} s after the boot" if _SECONDS.match(time[1]) else time[1]
        pci, old = _PCI.search(line), _OLD.search(line)
        bdf, minor = normalise_bdf(pci[1]) if pci else "", int(old[1]) if old else None
        before = found.get((kind.name, bdf, minor))
        found[kind.name, bdf, minor] = Lines(
            kind,
            bdf,
            minor,
            count=before.count + 1 if before else 1,
            first=before.first if before else when,
            last=when,
            text=" ".join(said.split()),
        )
    return list(found.values())


def findings(lines: Iterable[Lines], cards: Sequence[Card]) -> list[Finding]:
    """A finding for each: about its card, or about the host where it names none that is known."""
    by_bdf = {card.bdf: card.index for card in cards if card.bdf}
    by_minor = {card.minor: card.index for card in cards}
    found = []
    for one in lines:
        index = by_bdf.get(one.bdf) if one.bdf else None
        if index is None and one.minor is not None:
            index = by_minor.get(one.minor)
        about = one.told
        if index is None and one.bdf:
            about += f" (xpu-smi knows no card {one.bdf})"
        # without a card it is nobody's: a number that the line may have is the runtime's own
        severity, action = (one.kind.severity, one.kind.action) if index is not None else (NOTE, "none")
        found.append(Finding(KERNEL_LOG, index, severity, about, action))
    return found
