"""The verb ``releases``: what is there. It only reads."""

from __future__ import annotations

import os
from typing import Any, Sequence

from klops.agent.errors import VerbError
from klops.agent.releases import activate, imports, known
from klops.agent.releases.places import Places
from klops.agent.releases.targets import Target


def look(
    places: Places,
    *,
    verify: bool,
    wanted: Sequence[Target] | None,
    paths: Sequence[str] = (),
    entries: bool = False,
) -> dict[str, Any]:
    """``{current, releases, incoming, damage, targets, imports}``, and ``entries`` of the current release.

    ``verify``: ``damage`` of the current release is looked for in every file; else it is None. ``wanted``:
    whether these targets are in place, and what Python imports; None: ``targets`` and ``imports`` are None.
    Raises :class:`VerbError` and ``OSError``.
    """
    now, releases, broken = places.now(), [], []
    for name in known.whole(places):
        try:
            releases.append(known.summary(places, name))
        except FileNotFoundError:
            continue  # it went meanwhile: nobody waits for whoever removes old ones
        except VerbError:
            broken.append(name)
    found: dict[str, Any] = {
        "current": now,
        "releases": releases,
        # their manifests can't be read; the next sync of one lays it down anew
        "broken": broken,
        "incoming": _names(places.incoming_folder),
        "damage": None,
        "targets": None,
        "imports": None,
    }
    if now is None:
        return {**found, **({"damage": []} if verify else {})}
    try:
        release = known.load(places, now)
    except VerbError as failure:
        if failure.code == "newer-schema":
            raise
        return {**found, "damage": [{"path": now + ".json", "problem": "changed"}]}
    if entries:
        found["entries"] = [entry.as_json() for entry in release.entries]
    if verify:
        found["damage"] = known.damage(places.tree(now), release)
    if wanted is not None:
        goal = activate.spots(places, wanted)
        asked = {spot.place for _, spot in goal}
        noted = activate.noted(places)
        put = activate.spots(places, noted.targets)
        found["targets"] = [
            *({**target.as_json(), "at": spot.place, "ok": spot.stands} for target, spot in goal),
            # it was put there, and isn't asked for any more
            *(
                {**old.as_json(), "at": spot.place, "ok": False}
                for old, spot in put
                if spot.place not in asked
            ),
            *([{"at": places.targets, "ok": False}] if noted.damage else []),
        ]
        found["imports"] = [one.as_json() for one in imports.look(places, release, wanted, paths)]
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
