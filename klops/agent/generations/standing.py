"""What stands now, in the shape of a generation; by klops' own notes, so that it costs next to nothing."""

from __future__ import annotations

import json
from typing import Any

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.units import released


def now(root: str) -> dict[str, Any]:
    """Release, packages, patches and units that are wanted. Raises :class:`VerbError`."""
    name = released.current(root)
    about = _about(root, name) if name else {}
    stack = store.read_json(f"{root}/stack/stack.json", store.BY_HAND) or {}
    return {
        "release": name,
        "commit": about.get("commit"),
        "ref": about.get("ref"),
        "targets": targets(root)[0] if name else [],
        # what was put back as it came is not changed
        "stack": {
            name: one
            for name, one in stack.get("distributions", {}).items()
            if one != stack.get("original", {}).get(name)
        },
        "patches": {
            file: {key: one[key] for key in ("pristine", "patched", "patch")}
            for file, one in released.patched(root).items()
        },
        "units": _units(store.Paths(root)),
    }


def targets(root: str) -> tuple[list[Any], str]:
    """Targets of releases that were put somewhere, and what is wrong with the notes on them: the next switch
    to a release writes these anew. Raises :class:`VerbError` for those of a newer klops."""
    try:
        noted = store.read_json(f"{released.folder(root)}/targets.json") or {}
    except VerbError as failure:
        if failure.code != "damaged":
            raise
        return [], failure.message
    found = noted.get("targets", [])
    return (
        (found, "") if isinstance(found, list) else ([], f"{released.folder(root)}/targets.json has no list")
    )


def original(root: str) -> dict[str, Any]:
    """Distributions as they stood before klops changed them for the first time, by name."""
    return dict((store.read_json(f"{root}/stack/stack.json", store.BY_HAND) or {}).get("original", {}))


def _about(root: str, name: str) -> dict[str, Any]:
    try:
        with open(f"{released.folder(root)}/{name}.json", "rb") as file:
            found = json.loads(file.readline(released.HEAD))["about"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _units(paths: store.Paths) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = paths.names()
    if not names:
        return found
    from klops.agent.units import ondisk, unit

    for name in names:
        spec, _ = ondisk.attempt(ondisk.spec, paths, name)
        record, _ = ondisk.attempt(ondisk.record, paths, name)
        if spec is not None and record is not None and record.desired == unit.RUNNING:
            found[name] = {"digest": spec.get("digest"), "spec": spec}
    return found
