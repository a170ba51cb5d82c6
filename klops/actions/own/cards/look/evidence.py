"""What can be found out about a host's cards without putting load on them: what is read, and what it says.

For a doctor and before a diagnosis only: a run on which nothing changes doesn't ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.own import hostreads
from klops.actions.own.cards.look import access, users
from klops.actions.own.desired import container_indexes
from klops.actions.own.hostview import placed, reply
from klops.cards.evidence import driver, expected, kernellog, readings, sources, topology
from klops.cards.evidence.findings import FAIL, NOTE, UNKNOWN, Finding
from klops.cards.evidence.standings import UNIDENTIFIED
from klops.cards.evidence.topology import Topology
from klops.cards.identity import CONTROL_NODE, numbers
from klops.cards.smi.listing import parse_list
from klops.cards.smi.machine import parse_machine
from klops.cards.smi.query import parse_query
from klops.commands import cardreads, docker, listing, smi
from klops.commands.readonly import refusal
from klops.remote.base import DEFAULT_TIMEOUT
from klops.remote.bounded import BoundedRead
from klops.remote.reads import ABSENT, CommandRead, FirstRead, Read

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings
    from klops.remote.base import Replies

SMI_LIST = "smi.L"
SMI_TOPOLOGY = "smi.topo"
KERNEL_LOG = "kernel.log"
NOT_READ = "not-read"
DRIVER_CARDS = "driver.cards"
BUS = tuple(f"lspci.{vendor}" for vendor in sources.VENDORS)

#: Seconds that one of them may take: an xpu-smi that is well answers in one.
DEADLINE = 8
#: Seconds that a test of the nodes in the container counts.
_TESTED = 10.0
#: Exit statuses of an ``ls`` that ran: of a path that is not there it says so, and lists the others.
_LISTED = (0, 1, 2)
#: Kinds of findings that are about a card only if its node is known to be its own.
_BY_NODE = ("node-missing", "node-type", "not-inside", "access-lost", "driver-refuses", "numbers")


def reads(settings: Settings) -> tuple[Read, ...]:
    """All that :func:`findings` looks at: each that asks the driver has a deadline of its own."""
    asked = [read for read in hostreads.host(settings) if read.key != hostreads.STATUS]
    return (
        *asked,
        hostreads.status(settings, "--access-age", f"{_TESTED:g}"),
        hostreads.pids(settings),
        hostreads.nodes(settings),
        hostreads.device_links(settings),
        hostreads.holders(settings),
        *(_bounded(read) for read in (*hostreads.cards(settings), hostreads.driver(), *_more(settings))),
    )


def _more(settings: Settings) -> list[Read]:
    found: list[Read] = [
        FirstRead(
            KERNEL_LOG,
            tuple(
                CommandRead("clock" if clock else "seconds", cardreads.kernel_log(clock=clock))
                for clock in (True, False)
            ),
        ),
        CommandRead(DRIVER_CARDS, cardreads.driver_cards()),
        *(CommandRead(key, cardreads.pci(vendor)) for key, vendor in zip(BUS, sources.VENDORS, strict=True)),
    ]
    path = settings.cards.smi.path
    if refusal(smi.machine(path)):
        return found
    prefix, name = hostreads.docker_prefix(settings), settings.container.name
    for key, argv in ((SMI_LIST, smi.listing(path)), (SMI_TOPOLOGY, smi.topology(path))):
        places = {"host": argv, "container": docker.execute(prefix, name, *argv)}
        asked = (CommandRead(place, places[place]) for place in hostreads.smi_places(settings))
        found.append(FirstRead(key, tuple(asked)))
    return found


def _bounded(read: Read) -> Read:
    return BoundedRead(read.key, read, DEADLINE)


def deadline(reads: Iterable[Read]) -> float:
    """Seconds that such reads may take together: each that hangs takes its own, and none that of another."""
    return DEFAULT_TIMEOUT + sum(read.longest for read in reads if isinstance(read, BoundedRead))


def links(replies: Replies) -> Topology:
    """How the cards are linked; empty where that can't be read."""
    return topology.parse(placed(reply(replies, SMI_TOPOLOGY))[1])


def findings(
    replies: Replies,
    settings: Settings,
    host: HostView,
    *,
    held: Mapping[int, Sequence[Mapping[str, Any]]] | None = None,
    wanted: Mapping[int, str] = {},
    learned: Sequence[Mapping[str, Any]] = (),
) -> tuple[Finding, ...]:
    """Everything that the reads say.

    ``held``: who holds each card by a look at the whole host; None where there was none, and then only what
    is in the container is known. ``wanted`` and ``learned`` are those of
    :func:`klops.cards.evidence.expected.compare`.
    """
    found = [*_unread(replies, host), *_unidentified(host)]
    if _nodes_read(replies):
        found += _nodes(replies, settings, host)
    found += access.findings(settings, host, _present(replies))
    found += users.findings(replies, host, held)
    if host.cards_from:
        found += expected.compare(host.cards.cards, settings.cards.expected, wanted, learned)
        found += _counters(replies, host)
        found += _agreement(replies, settings, host)
    found += kernellog.findings(
        kernellog.parse(placed(reply(replies, KERNEL_LOG))[1]), host.cards.cards if host.cards_from else ()
    )
    guessed = {card.index for card in host.cards.cards if not card.minor_known}
    return tuple(
        one for one in (*found, *_numbers(host)) if one.card not in guessed or one.kind not in _BY_NODE
    )


def _unidentified(host: HostView) -> list[Finding]:
    """Cards of which it isn't known which node is theirs: a test of that may be one of another card."""
    said = "which node it has is not known, as xpu-smi -q does not tell its minor number"
    if not host.cards_from:
        said = "xpu-smi could not be read: which card this is, and how it is, is only assumed"
    return [Finding(UNIDENTIFIED, c.index, UNKNOWN, said) for c in host.cards.cards if not c.minor_known]


def _unread(replies: Replies, host: HostView) -> list[Finding]:
    """What could not be read, and why: one that hangs costs its own answer only.

    No card passes without both reports of xpu-smi and the nodes. The rest is worth a line: most hosts give
    the kernel log, for one, to root alone.
    """
    found = []
    for key, what, severity in (
        (hostreads.SMI_MACHINE, "xpu-smi -m", UNKNOWN),
        (hostreads.SMI_QUERY, "xpu-smi -q", UNKNOWN),
        (hostreads.NODES, "the nodes of the cards", UNKNOWN),
        (SMI_LIST, "xpu-smi -L", NOTE),
        (SMI_TOPOLOGY, "xpu-smi topo -m", NOTE),
        (KERNEL_LOG, "the kernel log", NOTE),
        (hostreads.DRIVER, cardreads.DRIVER, NOTE),
        (BUS[0], "lspci", NOTE),
    ):
        answer = reply(replies, key)
        if answer.ok or (key == hostreads.NODES and _nodes_read(replies)):
            continue
        other = "it is not there" if answer.rc == ABSENT else f"status {answer.rc}"
        lines = answer.error_text.strip().splitlines() or [other]
        said = f"{what} could not be read: {lines[-1].strip()}"
        found.append(Finding(NOT_READ, None, UNKNOWN, said))
        found += [
            Finding(NOT_READ, card.index, severity, f"not looked at: {said}") for card in host.cards.cards
        ]
    return found


def _nodes_read(replies: Replies) -> bool:
    return reply(replies, hostreads.NODES).rc in _LISTED


def _present(replies: Replies) -> frozenset[str]:
    """Paths on the host that are character devices."""
    entries = listing.parse(reply(replies, hostreads.NODES).text)
    return frozenset(path for path, entry in entries.items() if entry.type == "char")


def _nodes(replies: Replies, settings: Settings, host: HostView) -> list[Finding]:
    """The cards' nodes on the host."""
    entries = listing.parse(reply(replies, hostreads.NODES).text)
    folder, cards = settings.cards.device_dir.rstrip("/"), host.cards.cards
    found = []
    missing = [card for card in cards if card.node not in entries]
    if missing and len(missing) == len(cards):
        said = f"no card has its node in {folder}: the driver is not loaded"
        found.append(Finding("node-missing", None, FAIL, said, "inspect"))
    # without a driver the cards are not to blame
    severity = UNKNOWN if len(missing) == len(cards) else FAIL
    for card in missing:
        said = f"its node {card.node} is not on the host"
        found.append(Finding("node-missing", card.index, severity, said, "inspect"))
    for card in cards:
        entry = entries.get(card.node)
        if entry is not None and entry.type != "char":
            said = f"{card.node} is a {entry.type} on the host, not a character device"
            found.append(Finding("node-type", card.index, FAIL, said, "inspect"))
    control = f"{folder}/{CONTROL_NODE}"
    if control not in _present(replies):
        said = f"{control}, which every user of any card opens, is not on the host"
        found.append(Finding("node-missing", None, FAIL, said, "inspect"))
    if host.cards_from:
        nodes = _present(replies) - {control}
        # a node that is taken for no card's may be that of one whose minor isn't known
        nodes = nodes if all(card.minor_known for card in cards) else frozenset()
        found += sources.nodes_without_card(cards, nodes)
    return found


def _counters(replies: Replies, host: HostView) -> list[Finding]:
    place, text = placed(reply(replies, hostreads.SMI_QUERY))
    rows = parse_machine(placed(reply(replies, hostreads.SMI_MACHINE))[1])
    report = parse_query(text)
    found = driver.findings(driver.parse(reply(replies, hostreads.DRIVER).text), report.driver, place)
    found += readings.findings(host.cards.cards, rows, report.cards)
    machine, query = {row.bdf: row for row in rows}, {one.bdf: one for one in report.cards}
    for card in host.cards.cards:
        said = readings.reading(card, machine.get(card.bdf), query.get(card.bdf))
        if said:
            found.append(Finding("reading", card.index, NOTE, said))
    if report.attached is not None:
        found += sources.counted(host.cards.cards, report.attached, '"Attached XPUs" of xpu-smi -q')
    return found


def _agreement(replies: Replies, settings: Settings, host: HostView) -> list[Finding]:
    """What the sources disagree on."""
    cards = host.cards.cards
    found = [Finding("sources", None, UNKNOWN, said, "inspect") for said in host.cards.findings]
    named = parse_list(placed(reply(replies, SMI_LIST))[1])
    if named:
        found += sources.listed(cards, named)
    table = links(replies)
    if table.cards:
        found += [*table.findings, *topology.alone(table), *sources.in_topology(cards, table.cards)]
        found += topology.grouped(table, settings.cards.groups)
    kept = sources.parse_proc(reply(replies, DRIVER_CARDS).text)
    if kept:
        found += sources.counted(cards, len(kept), cardreads.DRIVER_CARDS)
    answers = [reply(replies, key) for key in BUS]
    bus = [one for answer in answers for one in sources.parse_lspci(answer.text)]
    if bus and all(answer.ok for answer in answers):
        found += sources.on_the_bus(cards, bus)
    return found


def _numbers(host: HostView) -> list[Finding]:
    """What each card is called on the host and in the container."""
    nodes = host.nodes if host.ours else {}
    inside = container_indexes(nodes.values())
    return [
        Finding("numbers", card.index, NOTE, numbers(card, inside.get(nodes.get(card.node, ""))))
        for card in host.cards.cards
    ]
