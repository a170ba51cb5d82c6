"""What units run on: the release that the link ``current`` leads to at a start, and the packages as klops has
changed them.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

from klops.agent import store
from klops.agent.digests import packages_digest
from klops.agent.errors import VerbError

#: The release's name, for what runs on it.
VARIABLE = "KLOPS_RELEASE"
#: Bytes of the first line of a manifest, which tells of its commit; far more than any has.
HEAD = 1 << 20


def folder(root: str) -> str:
    """Where the releases are."""
    return f"{root}/releases"


def current(root: str) -> str | None:
    """Name of the release that is current; None while there is none, or only a link to nothing."""
    link = f"{folder(root)}/current"
    try:
        name = os.readlink(link)
    except OSError:
        return None
    return name if "/" not in name and name not in (".", "..") and os.path.isdir(link) else None


def told(root: str) -> dict[str, Any]:
    """``{"current", "commit"}`` for a status; None for what isn't known."""
    name = current(root)
    return {"current": name, "commit": _commit(root, name) if name else None}


def _commit(root: str, name: str) -> str | None:
    try:
        with open(f"{folder(root)}/{name}.json", "rb") as file:
            commit = json.loads(file.readline(HEAD))["about"]["commit"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # a damaged manifest is told of by those who need it whole
    return str(commit)


def chosen(root: str, spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a unit that begins now gets of the release: its ``name``, and the ``folders`` to import from.

    The folders are real paths, so that a process which imports late still has those that it began with. None
    for a unit that runs on none. Raises :class:`VerbError` when there is no release.
    """
    wanted = spec.get("source")
    if wanted is None:
        return None
    name = current(root)
    if name is None:
        raise VerbError(
            "no-release",
            f"there is no current release in {folder(root)}, and the unit is to run on one",
            "klops sync puts one there",
        )
    tree = os.path.realpath(f"{folder(root)}/{name}")
    return {"name": name, "folders": [f"{tree}/{path}" if path else tree for path in wanted["paths"]]}


def packages(root: str) -> str:
    """A digest over what klops has changed of the container's packages; "" while that is nothing.

    It is read from klops' own notes on them, so that it costs next to nothing.
    """
    try:
        stack = store.read_json(f"{root}/stack/stack.json", store.BY_HAND) or {}
        patches = patched(root)
    except VerbError:
        return "unreadable"
    original = stack.get("original", {})
    changed = {name: one for name, one in stack.get("distributions", {}).items() if one != original.get(name)}
    return packages_digest(changed, {file: one.get("patched") for file, one in patches.items()})


def patched(root: str) -> dict[str, Any]:
    """klops' notes on patched files, by file: without those of patches that went with the version that they
    were of. Raises :class:`VerbError`.

    One whose test was cut short is among them: nobody knows yet that the file is as it was.
    """
    notes: dict[str, Any] = (store.read_json(f"{root}/patches.json", store.BY_HAND) or {}).get("patches", {})
    return {file: one for file, one in notes.items() if not one.get("stale")}


def outdated(root: str, spec: Mapping[str, Any] | None, release: str, had: str) -> bool:
    """Whether a unit that was started on ``release`` and the packages ``had`` would now get others."""
    other = bool(spec and spec.get("source")) and (current(root) or release) != release
    return other or packages(root) != had
