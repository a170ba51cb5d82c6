"""Can the container open the nodes of the cards? What it is denied is its fault, not that of cards. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.own.desired import INSIDE
from klops.cards.evidence.findings import FAIL, UNKNOWN, Finding
from klops.cards.identity import CONTROL_NODE, Card, node_name

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings

#: As `klops status` and the documents call it.
LOST = "device access lost inside the container"


def findings(settings: Settings, host: HostView, present: Collection[str]) -> list[Finding]:
    """Of the cards that the settings use. ``present``: paths of nodes that are there on the host."""
    if not host.ours or not host.running:
        return []
    cards = [card for card in host.cards.cards if card.index in settings.cards.indexes]
    found = []
    if host.nodes:
        found = [
            Finding("not-inside", card.index, UNKNOWN, f"{card.node} is not in the container")
            for card in cards
            if card.node not in host.nodes
        ]
    told = (host.agent or {}).get("access")
    if not isinstance(told, list):
        said = "whether the container can open the cards' nodes was not tested: no supervisor says so"
        return [*found, Finding("not-read", None, UNKNOWN, said)]
    refused = {str(one.get("node")): one for one in told if isinstance(one, Mapping)}
    lost = False
    for card in cards:
        # where the container's devices could not be read, klops' own names are taken for theirs
        inside = host.nodes.get(card.node, "" if host.nodes else f"{INSIDE}/{node_name(card.minor)}")
        if inside in refused:
            host_ok = card.node in present and bool(host.cards_from)
            one = _refused(card, inside, refused[inside], host_ok, settings.container.name)
            found.append(one)
            lost = lost or one.kind == "access-lost"
    control = next((node for node in refused if posixpath.basename(node) == CONTROL_NODE), "")
    if control:
        said = f"{control}, which every user of any card opens, can't be opened inside: "
        said += str(refused[control].get("error"))
        found += [Finding("access-lost", card.index, UNKNOWN, f"{LOST}: {said}", "restart") for card in cards]
    if lost or control:
        said = (
            f"container {settings.container.name} has lost the access to devices that are listed in it: "
            "a fault of the container, no card is at fault; a docker restart may give it back, "
            "else klops up --recreate"
        )
        found.append(Finding("access-lost", None, UNKNOWN, said, "restart"))
    return found


def _refused(card: Card, inside: str, told: Mapping[str, Any], host_ok: bool, name: str) -> Finding:
    error = str(told.get("error"))
    if told.get("fault") != "container":
        said = f"{inside} can't be opened in the container ({error}): the driver or the card doesn't answer"
        if host_ok:
            # numbers of devices may change then, and a container gets them when it starts
            said += f"; if the driver was loaded anew, docker restart {name} gives it the new nodes"
        return Finding("driver-refuses", card.index, FAIL, said, "reset")
    state = "host ok" if host_ok else "host not known to be ok"
    said = f"{LOST}, {state}: {inside} can't be opened there: {error}"
    return Finding("access-lost", card.index, UNKNOWN, said, "restart")
