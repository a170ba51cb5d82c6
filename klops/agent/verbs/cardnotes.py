"""The verb ``note``: what was found about the cards is written down, with the notes on those kept out."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.trouble import Troubles
from klops.agent.units import quarantine
from klops.cards.record.quarantine import recognisable, same_card

_KEYS = {"schema": int, "verdict": dict, "baseline": dict, "add": list, "lift": list}


def note(root: str, text: str) -> dict[str, Any]:
    """``{verdict, baseline, add, lift}``, each of which may be missing; ``{notes}`` are those then in force.

    A verdict or baseline replaces ``ROOT/verdict.json`` or ``ROOT/baseline.json``. What is to be lifted is
    taken away before what is to be added is there. Who may lift which kinds is for who asks to know: here
    only what is named is taken away. Raises :class:`VerbError` and ``OSError``; nothing is changed then
    where it is one of another klops, or the notes there are don't tell what they say.
    """
    asked = _checked(text)
    paths = store.Paths(root)
    paths.make()
    quarantine.in_force(root)  # asked first: of half of it nobody would know that it was done
    for name in ("verdict", "baseline"):
        if name in asked:
            _ours(f"{root}/{name}.json")
    lift, now = asked.get("lift", []), round(time.time(), 3)
    # one without a time was written down by nobody before
    add = [{**one, "at": now if one.get("at") is None else one["at"]} for one in asked.get("add", [])]

    def lifted(one: Mapping[str, Any]) -> bool:
        return any(same_card(one["card"], each["card"]) and one.get("kind") in each["kinds"] for each in lift)

    gone = quarantine.change(root, lifted, add) if lift or add else []
    for name in ("verdict", "baseline"):
        if name in asked:
            store.write_json(f"{root}/{name}.json", asked[name])
            # it is read from the host too, by whoever asks there, and holds no secret
            os.chmod(f"{root}/{name}.json", 0o644)
    audit = Audit(paths.audit, f"note {os.getpid()}", Troubles())
    for one in add:
        audit.note("card-noted", "", card=one["card"], kind=one["kind"], reason=one["reason"])
    for one in gone:
        audit.note("card-back", "", card=one["card"], kind=one.get("kind"))
    return {"notes": quarantine.in_force(root)}


def _ours(path: str) -> None:
    """Raises :class:`VerbError` for a file that a newer klops wrote; a damaged one may be replaced."""
    try:
        store.read_json(path)
    except VerbError as failure:
        if failure.code != "damaged":
            raise


def _checked(text: str) -> dict[str, Any]:
    try:
        asked = json.loads(text)
        wrong = [name for name in asked if not isinstance(asked[name], _KEYS[name])]
        for one in asked.get("add", []):
            wrong += [key for key in ("kind", "reason", "by", "boot_id") if not isinstance(one[key], str)]
            wrong += [] if isinstance(one["card"], dict) and recognisable(one["card"]) else ["card"]
        for one in asked.get("lift", []):
            wrong += [] if isinstance(one["card"], dict) and isinstance(one["kinds"], list) else ["lift"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _usage(f"{type(error).__name__}: {error}") from error
    if wrong:
        raise _usage(f"{', '.join(wrong)} is not what it should be")
    if asked.get("schema", store.SCHEMA) != store.SCHEMA:
        raise _usage(f"schema {asked['schema']} is not known here")
    return dict(asked)


def _usage(what: str) -> VerbError:
    return VerbError("usage", f"not notes on cards: {what}", "it is one JSON object")
