"""Cards that are kept out of service: the notes of ``ROOT/cards.json`` that are in force. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klops.actions.own import hostreads, hostview
from klops.cards.record import quarantine
from klops.remote.base import Replies
from klops.remote.reads import ABSENT
from klops.remote.rootreads import plain

#: Stands for the note of every card where the notes can't be read.
UNTOLD: Mapping[str, Any] = {"kind": "unknown", "reason": "the notes on cards can't be read"}


def notes(host: hostview.HostView, replies: Replies) -> list[Mapping[str, Any]] | None:
    """The notes in force, None when that can't be told.

    The agent knows which processes live. Where it can't be asked the file tells, as long as the host was not
    booted anew; whether a note has expired isn't judged then, for want of the host's clock.
    """
    said = (host.agent or {}).get("quarantine", [])
    if host.agent is not None:
        return [one for one in said if isinstance(one, Mapping)] if isinstance(said, list) else None
    answer = plain(hostview.reply(replies, hostreads.QUARANTINE))
    if answer.rc == ABSENT:
        return []
    known = answer.json() if answer.ok else None
    boot = hostview.reply(replies, hostreads.BOOT_ID)
    if not isinstance(known, dict) or not isinstance(known.get("notes"), list) or not boot.ok:
        return None
    return [*quarantine.in_force(known["notes"], boot.text.strip(), 0.0, lambda process: None)]
