"""Archives of distributions that nobody can go back to any more."""

from __future__ import annotations

import os
from typing import Any

from klops.agent import store
from klops.agent.generations import kept
from klops.agent.packages import journal, known
from klops.agent.packages.places import Places

_ARCHIVE = ".tar"


def prune(places: Places) -> list[str]:
    """Remove archives that no generation refers to, and that aren't of what stood before klops came.

    What somebody had changed by hand stays: there is no other copy. So does everything while it can't be told
    what is needed, or a change or a recreation is under way. Gives the names of their files. Raises
    :class:`VerbError` and ``OSError``.
    """
    if not _superfluous(places):
        return []
    with places.locked():
        notes, gone = known.stack(places), _superfluous(places)
        saved = {file: entry for file, entry in notes.saved.items() if file not in gone}
        known.note_stack(places, notes._replace(saved=saved))
        for file in os.listdir(places.stack):
            if file.endswith(_ARCHIVE) and file not in saved:
                os.unlink(places.archive(file))
    return gone


def _superfluous(places: Places) -> list[str]:
    if not os.path.exists(places.known):
        return []
    notes = known.stack(places)
    generations, faults = kept.readable(places.root)
    if faults or journal.under_way(places) or os.path.exists(store.Paths(places.root).kept):
        return []
    stacks: list[dict[str, Any]] = [one["stack"] for one in generations]
    needed = {
        (name, one["version"], one["record"])
        for stack in (*stacks, notes.original)
        for name, one in stack.items()
        if one is not None
    }
    return sorted(
        file
        for file, entry in notes.saved.items()
        if entry["exact"] and (entry["name"], entry["version"], entry["record"]) not in needed
    )
