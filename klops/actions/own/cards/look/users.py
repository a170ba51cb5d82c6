"""Who uses the cards: of one that is in use nothing can be told by a test. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.own import hostreads
from klops.actions.own.cards.record.standing import busy_units
from klops.actions.own.hostview import placed, reply
from klops.actions.own.reap.findings import Names
from klops.cards.evidence.findings import UNKNOWN, Finding
from klops.cards.memory import SLACK
from klops.cards.smi.query import parse_query
from klops.commands import pidmap

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.remote.base import Replies

Held = Mapping[int, Sequence[Mapping[str, Any]]]


def findings(replies: Replies, host: HostView, held: Held | None) -> list[Finding]:
    """A finding for each card that a unit runs on, that somebody holds, or whose memory nobody accounts for.

    ``held``: by a look at the whole host; None: by the agent in the container, who sees nobody outside it.
    """
    found: list[Finding] = []
    if held is None:
        held, found = _inside(replies, host)
    busy, named = busy_units(host), _named(replies)
    for card in host.cards.cards:
        index, holders = card.index, held.get(card.index, ())
        used = card.memory_used_mib or 0
        if index in busy:
            found.append(Finding("in-use", index, UNKNOWN, f"in use by {busy[index]}"))
        elif holders:
            said = ", ".join(f"{one.get('name')} ({_pid(one)})" for one in holders)
            found.append(Finding("held", index, UNKNOWN, f"held by {said}"))
        elif named.get(card.bdf):
            said = ", ".join(map(str, named[card.bdf]))
            found.append(Finding("held", index, UNKNOWN, f"held by pid {said}, as xpu-smi -q says"))
        elif used > SLACK:
            said = f"{used} MiB of it are in use, and by nobody who could be seen"
            found.append(Finding("memory-unexplained", index, UNKNOWN, said))
    return found


def _inside(replies: Replies, host: HostView) -> tuple[Held, list[Finding]]:
    """Who in the container holds a card, by its index; and what could not be seen."""
    answer = reply(replies, hostreads.HOLDERS)
    said = answer.json() if answer.ok else None
    if not isinstance(said, dict):
        if not (host.ours and host.running):
            return {}, []
        text = "who in the container holds a card could not be asked"
        each = [
            Finding("not-read", card.index, UNKNOWN, f"not looked at: {text}") for card in host.cards.cards
        ]
        return {}, [Finding("not-read", None, UNKNOWN, text), *each]
    pids = pidmap.parse(reply(replies, hostreads.PIDS).text)
    names = Names.of(host.cards, host.nodes, pids, inside=True)
    held: dict[int, list[Mapping[str, Any]]] = {}
    for given in said.get("holders") or ():
        # the agent says paths, those of a look at the whole host are names
        cards = [str(path).rpartition("/")[2] for path in given.get("cards") or ()]
        process = names.process({**given, "cards": cards})
        for index in process["cards"]:
            held.setdefault(index, []).append(process)
    unseen = [one for one in said.get("unknown") or () if isinstance(one, Mapping)]
    listed = ", ".join(f"{one.get('name')} ({_pid(one)})" for one in unseen)
    text = f"whether these hold a card could not be seen: {listed}"
    return held, [Finding("held", None, UNKNOWN, text)] if unseen else []


def _named(replies: Replies) -> dict[str, tuple[int, ...]]:
    """Pids that ``xpu-smi -q`` names for a card, by its address. In a container its list is always empty."""
    text = placed(reply(replies, hostreads.SMI_QUERY))[1]
    return {card.bdf: card.pids for card in parse_query(text).cards}


def _pid(process: Mapping[str, Any]) -> str:
    pid = process.get("pid")
    return f"pid {pid}" if pid is not None else f"pid {process.get('cpid')} in the container"
