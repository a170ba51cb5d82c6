"""What known lines of XCCL, the runtime and torch mean. Data from public reports; none was seen here.

A line is known by a fragment, lower case, that it holds whatever its numbers are. Two errors are the same
when they are known as the same, or read alike without what differs from rank to rank and run to run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Quote:
    """A known error: it holds any of ``fragments``; what it means; what to look at or to set by hand.

    ``setup``: it is of driver, image or settings, never of one card.
    """

    name: str
    fragments: tuple[str, ...]
    means: str
    hints: tuple[str, ...]
    setup: bool = True


#: The first that matches counts.
KNOWN = (
    Quote(
        "addr_window",
        ("addr_window not properly set", "addr_window check failed"),
        "XCCL refuses the address windows of the links between cards: a matter of driver and set-up",
        (
            (
                "others report that BKCL_CHECK_AW=0 together with BKCL_NONUNIFORM_VISIBLE_DEVICES=1 got "
                "past this check on some hosts, and made one crash or hang (baidu/vLLM-Kunlun #382, #420); "
                "klops never sets them"
            ),
            "look for 'AM out of lock' in the kernel log: links that are down were seen with this error",
            "if the container has only some of /dev/xpu*, map all: collectives failed so for others",
        ),
    ),
    Quote(
        "xpulink-inactive",
        ("xpulink not active",),
        "a link port of a card is down",
        ("see the ports with 'xpu-smi xpulink' and 'xpu-smi topo -m'; board, cable or driver are to blame",),
        setup=False,
    ),
    Quote(
        "same-oam",
        ("mapped to the same oam id",),
        "two device numbers lead to one card",
        ("look at the list of visible devices, and at the library of XRE that is loaded",),
    ),
    Quote(
        "no-xccl",
        ("doesn't have xccl built in", "doesn't have nccl built in", "no module named 'torch"),
        "this torch has no collectives for these cards",
        ("see that the container's Python is the one of the engine (klops.container.python)",),
    ),
    Quote(
        "debug-level",
        (": stoi", "stoi argument", "(stoi)"),
        "a variable that must be a number isn't one",
        ("BKCL_DEBUG takes numbers only: INFO and TRACE end the first collective with this error",),
    ),
    Quote(
        "no-context",
        ("initialize default context for dev",),
        "the runtime gets no card: none is there, there is no driver, or no permission",
        ("compare the device nodes in the container with those of the host",),
    ),
    Quote(
        "invalid-parameter",
        ("[invalid parameter]: error code",),
        "XCCL refuses to form the group; its own line above this one says why",
        ("see the log of the rank",),
    ),
    Quote(
        "device-params",
        ("init device param failed", "init_bkcl_context failed"),
        "XCCL could not set up a card",
        ("see the kernel log for the card's address",),
        setup=False,
    ),
    Quote(
        "illegal-address",
        ("status= 700", "illegal memory access"),
        "the card met an illegal address: a fault of software or of the card",
        ("see the kernel log for KL_XID lines of the card; where it is to blame, other programs fail too",),
        setup=False,
    ),
    Quote(
        "needs-reset",
        ("status= 713",),
        "the card is in error since something before",
        ("reset the card (xpu-smi -r), else reboot the host",),
        setup=False,
    ),
    Quote(
        "shared-memory",
        ("no space left on device", "unable to open shared memory", "bus error"),
        "the ranks have no shared memory left",
        ("see how much is left of /dev/shm in the container (klops.container.shm)",),
    ),
)

#: What a rank printed before its error follows it after this. It may tell which error it is, but varies.
LOG = "; log: "

#: Paths first: they hold numbers; then long hexadecimal, which no word is; then all digits.
_VARIES = (
    (re.compile(r"(?:/[\w.+@-]+)+/?"), "/"),
    (re.compile(r"\b(?:0x)?(?=[a-f]*\d)[\da-f]{6,}\b"), "#"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"#(?:[.:]#)+"), "#"),
    (re.compile(r"\s+"), " "),
)


def known(line: str) -> Quote | None:
    """What is known of an error line, None for nothing."""
    low = line.lower()
    return next((quote for quote in KNOWN if any(part in low for part in quote.fragments)), None)


def essence(line: str) -> str:
    """What two lines have in common that are the same error of two ranks.

    >>> essence("[XCCL][util.cpp:346] dev 0 addr_window not properly set")
    'addr_window'
    >>> essence("Connection closed by peer [127.0.0.1]:52144")
    'connection closed by peer [#]:#'
    """
    quote = known(line)
    if quote:
        return quote.name
    text = line.partition(LOG)[0].strip().lower()
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return text.strip()
