"""What klops knows of packages by its own notes: ``stack/stack.json`` and ``patches.json``."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from klops.agent import store
from klops.agent.packages import contents
from klops.agent.packages.places import Places

#: How many earlier patches are remembered: a generation may go back to one.
_REMEMBERED = 200


class Stack(NamedTuple):
    """``saved``: archives by file name: ``{"name", "version", "record", "bytes", "sha256", "exact"}``.

    ``distributions``: what klops has changed, as it stands now: ``{"version", "record"}`` by name, None for
    one that is not installed. ``original``: the same as it stood before klops changed it for the first time.
    """

    saved: dict[str, dict[str, Any]]
    distributions: dict[str, Any]
    original: dict[str, Any]


def stack(places: Places) -> Stack:
    """Raises :class:`VerbError` when the notes can't be read."""
    notes = store.read_json(places.known, store.BY_HAND) or {}
    return Stack(*(dict(notes.get(field, {})) for field in Stack._fields))


def note_stack(places: Places, notes: Stack) -> None:
    store.write_json(places.known, notes._asdict())


class Patches(NamedTuple):
    """``now``: of each file that is patched, by its path relative to site-packages: ``{"pristine", "patched",
    "patch" (digests), "kind", "distribution", "version", "assumed", "path", "run"}``; while it is being
    patched also ``former`` (what it had before) and ``pending``. ``path`` is where it lies. ``stale``: that
    another distribution came in its place (see :func:`klops.agent.packages.pristine.stale`). ``before``:
    notes that hold no more, the oldest first, each with ``file``.
    """

    now: dict[str, dict[str, Any]]
    before: list[dict[str, Any]]


def patches(places: Places) -> Patches:
    """Raises :class:`VerbError` when the notes can't be read."""
    notes = store.read_json(places.patches, store.BY_HAND) or {}
    return Patches(dict(notes.get("patches", {})), list(notes.get("before", [])))


def note_patch(places: Places, file: str, entry: dict[str, Any] | None) -> None:
    """What is known of a file from now on; what was known is set aside."""
    notes = patches(places)
    old = notes.now.pop(file, None)
    # of a stale one it was set aside what it was before
    if old is not None and not (old.get("pending") or old.get("stale")):
        plain = {"file": file, **old}
        rest = [one for one in notes.before if one != plain]
        notes = notes._replace(before=[*rest, plain][-_REMEMBERED:])
    if entry is not None:
        notes.now[file] = entry
    store.write_json(places.patches, {"patches": notes.now, "before": notes.before})


def standing(places: Places) -> dict[str, Any]:
    """``{"stack": {name: {"version", "record"} | None}, "patches": {file: entry}}``: what klops has changed
    and how it stands: of patches those whose file has its patched content, tested. Raises :class:`VerbError`
    and ``OSError``."""
    return {
        "stack": stack(places).distributions,
        "patches": {
            file: entry
            for file, entry in patches(places).now.items()
            if not (entry.get("pending") or entry.get("stale"))
            and os.path.isfile(entry["path"])
            and contents.sha256(entry["path"]) == entry["patched"]
        },
    }


def patch_of(notes: Patches, file: str, patched: str) -> dict[str, Any] | None:
    """What is or was known of a file when it had this content, patched."""
    current = notes.now.get(file)
    holds = current is not None and not (current.get("pending") or current.get("stale"))
    if current is not None and holds and current["patched"] == patched:
        return current
    for entry in reversed(notes.before):
        if entry["file"] == file and entry["patched"] == patched:
            return {key: value for key, value in entry.items() if key != "file"}
    return None
