"""Cards of orphans that KILL doesn't end are kept out of service: a note each, as the supervisor's are."""

from __future__ import annotations

import os
import time
from typing import Any, Iterable, Mapping

from klops.agent import store
from klops.agent.processes import devices, identity
from klops.agent.reaping.act import UNKILLABLE, Outcome
from klops.agent.reaping.sight import Seen, Sight
from klops.agent.units import ondisk, quarantine
from klops.cards.record import quarantine as notes_on_cards


def keep_out(paths: store.Paths, outcomes: Iterable[Outcome], by: str) -> None:
    """Write the notes. Raises ``OSError``."""
    new = [
        note for one in outcomes if one.outcome == UNKILLABLE for note in _notes(paths, one, by, time.time())
    ]
    if new:
        quarantine.add(paths.root, new)


def let_back(paths: store.Paths, sight: Sight, *, check: bool) -> list[dict[str, Any]]:
    """From the host: take away the notes for processes that are gone, unless it is a ``check``; returns them.

    From inside the container nobody can tell that of one in an earlier life of it. Only when everybody is in
    sight. Raises ``OSError``, and :class:`VerbError` for a file of notes that can't be read.
    """
    if not sight.whole:
        return []
    present = {
        (seen.ns, seen.inner.pid, seen.inner.start) for seen in sight.processes.values() if seen.process.alive
    }

    def over(who: Mapping[str, Any]) -> bool:
        return (who.get("ns"), who.get("pid"), who.get("start")) not in present

    return quarantine.outlived(paths.root, over) if check else quarantine.lift(paths.root, over)


def _notes(paths: store.Paths, one: Outcome, by: str, at: float) -> list[dict[str, Any]]:
    seen, unit = one.finding.seen, one.finding.unit
    spec, _ = ondisk.attempt(ondisk.spec, paths, unit) if unit else (None, None)
    inner = seen.inner
    who = {"pid": inner.pid, "start": inner.start, "ns": seen.ns, "name": inner.name, "state": inner.state}
    return [
        notes_on_cards.note(card, one.note, by=by, at=round(at, 3), boot_id=identity.here()[0], process=who)
        for card in _cards(seen, spec or {})
    ]


def _cards(seen: Seen, spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cards that one holds; all of its unit's, as a supervisor has it, where that can't be told.

    One that was killed may have given back all it had open, and still wait in the driver that takes it back.
    """
    if not seen.cards and devices.opened(seen.process.pid) is None:
        return list(spec.get("cards", ()))
    return [_card(name, spec, outside=seen.inner != seen.process) for name in seen.cards]


def _card(name: str, spec: Mapping[str, Any], *, outside: bool) -> Mapping[str, Any]:
    """The unit's card by the name of its node, which is the host's for who looks from ``outside``."""
    for card in spec.get("cards", ()):
        known = f"xpu{card['minor']}" if outside else os.path.basename(str(card["node"]))
        if known == name:
            found: Mapping[str, Any] = card
            return found
    return {"node": f"/dev/{name}"}
