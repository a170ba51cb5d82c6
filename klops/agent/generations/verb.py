"""The verbs ``generations``, which only reads, and ``generation``, which notes what stands now."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Mapping

from klops.agent.errors import VerbError
from klops.agent.generations import document, kept, standing
from klops.agent.units import released

#: Characters of an error that are kept.
_LONGEST = 2000
_KEEP = 10


def listed(root: str) -> dict[str, Any]:
    """All generations, the newest first, and what stands now.

    ``{"generations": [...], "now": {... "number", "good"}, "original": {...}, "faults": [text]}``. Of units
    there is a digest and what is needed to wait for them, no specification; ``there`` tells whether a release
    still is. ``number`` is the newest generation that stands now, ``good`` whether the newest good one does.
    """
    known, faults = kept.readable(root)
    now = standing.now(root)
    present, good = document.present(known, now), document.newest(known, document.GOOD)
    return {
        "generations": [
            {**document.shown(one), "there": _there(root, one["release"])}
            for one in sorted(known, key=lambda one: -int(one["number"]))
        ],
        "now": {
            **document.shown(now),
            "number": present["number"] if present is not None else None,
            "good": good is not None and document.same(good, now),
        },
        "original": standing.original(root),
        "faults": [*faults, *filter(None, [standing.targets(root)[1]])],
    }


def _there(root: str, release: str | None) -> bool:
    folder = released.folder(root)
    return release is None or all(map(os.path.exists, (f"{folder}/{release}", f"{folder}/{release}.json")))


def note(root: str, text: str, units: Callable[[], Mapping[str, Any]] = dict) -> dict[str, Any]:
    """:func:`noted` by a JSON text."""
    try:
        told = json.loads(text)
    except ValueError as error:
        raise VerbError("bad-request", f"standard input is not JSON: {error}") from error
    return noted(root, told, units)


def noted(root: str, told: Any, units: Callable[[], Mapping[str, Any]] = dict) -> dict[str, Any]:
    """Note what stands now as good or bad: ``{"number", "noted", "obstacle", "faults"}``.

    What was noted already is not noted again. With ``serving: {"services": bool}`` only what serves is, by
    the ``units`` of a status; ``obstacle`` tells why it doesn't, and then there is no ``number``. ``faults``:
    as for :func:`listed`.
    """
    _check(told)
    known, faults = kept.readable(root)
    now = standing.now(root)
    value = {
        "time": round(time.time(), 3),
        "author": str(told.get("author") or ""),
        "run": str(told.get("run") or ""),
        "health": told["health"],
        "error": str(told.get("error") or "")[:_LONGEST],
        "of": told.get("of"),
    }
    answer = {"number": None, "noted": False, "obstacle": "", "faults": faults}
    made = document.next_one(known, now, value)
    if made is None:
        before = document.newest(known, told["health"])
        return {**answer, "number": before["number"] if before is not None else None}
    if "serving" in told:
        obstacle = document.obstacle(now, units(), services=bool(told["serving"].get("services")))
        if obstacle:
            return {**answer, "obstacle": obstacle}
    from klops.agent.audit import Audit
    from klops.agent.trouble import Troubles

    # numbers of files that can't be read are taken, too
    made["number"] = max(int(made["number"]), 1 + max(kept.numbers(root), default=0))
    kept.write(root, made)
    audit = Audit(f"{root}/audit.jsonl", f"run {made['run']}", Troubles())
    audit.note("generation", "", number=made["number"], health=made["health"], release=made["release"])
    kept.prune(root, int(told.get("keep") or _KEEP))
    return {**answer, "number": made["number"], "noted": True}


def _check(told: Any) -> None:
    if not isinstance(told, dict) or told.get("health") not in (document.GOOD, document.BAD):
        raise VerbError("bad-request", "standard input is a JSON object with health: good or bad")
    if not isinstance(told.get("keep", _KEEP), int) or not isinstance(told.get("of", 0), (int, type(None))):
        raise VerbError("bad-request", "keep and of are numbers")
    if not isinstance(told.get("serving", {}), dict):
        raise VerbError("bad-request", "serving is a JSON object")
