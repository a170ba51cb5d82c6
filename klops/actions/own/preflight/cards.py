"""Preflight: the cards and their nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.actions.own import hostreads
from klops.actions.own.cards import choosing
from klops.actions.own.cards.size import Size
from klops.actions.own.findings import Finding
from klops.actions.own.hostview import HostView, reply
from klops.cards.choice.selection import NoChoiceError, choices, choose
from klops.cards.identity import CONTROL_NODE
from klops.commands import listing, smi
from klops.commands.readonly import refusal
from klops.remote.base import Replies

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

_DRIVER = "is the driver loaded? lsmod | grep kunlun; dmesg | grep -i -e kunlun -e xpu"


def card_findings(settings: Settings, host: HostView, replies: Replies, tp: Size) -> list[Finding]:
    """Nodes of the cards in use and the control node, and the number of cards against what is expected."""
    found: list[Finding] = []
    if refusal(smi.machine(settings.cards.smi.path)):
        found.append(
            Finding(
                "smi-path",
                f"klops.cards.smi.path is {settings.cards.smi.path}, which is not known to be xpu-smi",
                "the program must be called xpu-smi, in any folder",
            )
        )
    entries = listing.parse(reply(replies, hostreads.NODES).text)
    folder = settings.cards.device_dir.rstrip("/")
    by_index = host.cards.by_index()
    missing: list[str] = []
    used = [by_index[index] for index in settings.cards.indexes if index in by_index]
    nodeless = frozenset(card.index for card in used if card.node not in entries)
    # the others may do; klops.cards keeps those that are gone out of service
    certain = bool(host.cards_from) and not host.missing.doubt
    spare = certain and _others_do(settings, host, replies, nodeless, tp)
    for index in host.missing.indexes:
        known = host.missing.known.get(index, {})
        who = ", ".join(filter(None, (str(known.get(key) or "") for key in ("bdf", "uuid", "serial"))))
        found.append(
            Finding(
                "card-missing",
                f"the settings use card {index}{f' ({who})' if who else ''}, but xpu-smi on the "
                f"{host.cards_from} knows only {', '.join(map(str, sorted(by_index)))}"
                + (f"; {host.missing.doubt}" if host.missing.doubt else ""),
                "correct klops.cards.use and expected, or look why the card is gone: xpu-smi -m, dmesg",
                warning=spare,
            )
        )
    for card in used:
        found += _node(f"card {card.index}", card.node, entries, missing)
    if missing:
        text = f"no such device node: {', '.join(missing)}"
        found.append(Finding("card-missing", text, _DRIVER, warning=spare))
    control: list[str] = []
    found += _node("the control node", f"{folder}/{CONTROL_NODE}", entries, control)
    if control:
        found.append(Finding("card-missing", f"no such device node: {control[0]}", _DRIVER))
    found += _counts(settings, host, entries, bool(missing or control), spare and bool(host.missing.indexes))
    if not host.cards_from:
        found.append(
            Finding(
                "cards-count",
                f"xpu-smi could not be read ({' or '.join(hostreads.smi_places(settings))}): a card's index "
                "and the number in its node's name are assumed to be equal, which is not so on every host",
                "set klops.cards.smi.where and path",
                warning=True,
            )
        )
    found += [Finding("cards-count", finding, warning=True) for finding in host.cards.findings]
    return found


def _others_do(
    settings: Settings, host: HostView, replies: Replies, nodeless: frozenset[int], tp: Size
) -> bool:
    """Whether all services can be had on the cards that are there."""
    wanted, _ = choosing.wants(settings, host, replies, tp)
    cards, gone = settings.cards, {*host.missing.indexes, *nodeless}
    if not gone or gone >= {*cards.indexes}:
        return False
    return next(choices(wanted, cards.indexes, cards.groups, cards.min_tp, bad=gone), None) is not None


def choice_findings(settings: Settings, host: HostView, replies: Replies, tp: Size) -> list[Finding]:
    """Services that can't all have the cards they ask for, on a host without a fault."""
    wanted, _ = choosing.wants(settings, host, replies, tp)
    try:
        choose(wanted, settings.cards.indexes, settings.cards.groups, settings.cards.min_tp)
    except NoChoiceError as error:
        return [
            Finding(
                "cards-unavailable",
                str(error),
                "change tp or cards of the services, or klops.cards.use, groups or min_tp",
            )
        ]
    return []


def _node(what: str, path: str, entries: dict[str, listing.Entry], missing: list[str]) -> list[Finding]:
    entry = entries.get(path)
    if entry is None:
        missing.append(f"{path} ({what})" if what.startswith("card") else path)
        return []
    if entry.type == "char":
        return []
    return [
        Finding(
            "card-not-device",
            f"{path} ({what}) is a {entry.type}, not a character device",
            f"remove it and load the driver again: something wrote to {path} while the device was gone",
        )
    ]


def _counts(
    settings: Settings, host: HostView, entries: dict[str, listing.Entry], missing: bool, spare: bool
) -> list[Finding]:
    expected = settings.cards.expected
    found: list[Finding] = []
    hint = "if that is meant, set klops.cards.expected; indexes may have moved, so check klops.cards.use"
    present = sum(
        1 for path, entry in entries.items() if entry.type == "char" and not path.endswith("/" + CONTROL_NODE)
    )
    counts = []
    if not missing:  # a missing node is already told by its name
        counts.append((present, f"card nodes in {settings.cards.device_dir}"))
    if host.cards_from:
        counts.append((len(host.cards.cards), f"cards in xpu-smi on the {host.cards_from}"))
    for count, what in counts:
        if count != expected:
            found.append(
                Finding(
                    "cards-count",
                    f"{expected} cards expected, {count} {what}",
                    hint,
                    # fewer by those that are told already, and that the others can do without
                    warning=count > expected or spare,
                )
            )
    return found
