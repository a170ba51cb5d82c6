"""What an earlier look at a repository found of files that are still the same: these aren't read again.

A file lies on a host as its path, its object, its mode and the attributes of the tree say. Links, files with
placeholders, and trees with submodules or LFS are looked at anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from klops.source.git import said
from klops.source.manifest import FILE, Entry, Release
from klops.source.manifest.entry import EXECUTABLE, PLAIN
from klops.source.parts import Part, Parts

if TYPE_CHECKING:
    from klops.source.survey import Source

_ATTRIBUTES = ".gitattributes"


class Unchanged(NamedTuple):
    """``known``: paths from the repository's top that nothing has to be read of; the others as in a tree."""

    entries: Sequence[Entry] = ()
    normalised: Sequence[str] = ()
    ignored: Sequence[str] = ()
    known: frozenset[str] = frozenset()


NOTHING = Unchanged()


def may(parts: Parts) -> bool:
    """Whether a tree is of that kind."""
    return len(parts.all) == 1 and not parts.missing


def objects(source: Source, parts: Parts, entries: Sequence[Entry]) -> dict[str, Any]:
    """What has to be kept beside ``entries`` for :func:`of`."""
    if not may(parts):
        return {}
    oids = {listed.path: listed.oid for listed in parts.all[0].listing}
    return {
        "objects": [oids[source.full(one.path)] for one in entries],
        "attributes": _attributes(parts.all[0]),
    }


def of(source: Source, parts: Parts, before: Release) -> Unchanged:
    """What is the same as :func:`objects` was kept of ``before``."""
    (part,), about = parts.all, before.about
    if about.get("attributes") != _attributes(part) or about["noted"]["lfs"]:
        return NOTHING
    noted = {name: frozenset(about["noted"][name]) for name in ("normalised", "ignored", "substituted")}
    was = {one.path: (one, oid) for one, oid in zip(before.entries, about["objects"], strict=True)}
    strip = len(source.full(""))
    entries, ignored, known = list[Entry](), list[str](), set[str]()
    for listed in part.listing:
        path = listed.path[strip:]
        if source.full(path) != listed.path:
            continue
        entry, oid = was.get(path, (None, ""))
        if path in noted["ignored"]:
            ignored.append(path)
        elif (
            entry is not None
            and oid == listed.oid
            and entry.kind == FILE
            and listed.mode != said.LINK
            and path not in noted["substituted"]
        ):
            entries.append(entry._replace(mode=EXECUTABLE if listed.mode & 0o100 else PLAIN))
        else:
            continue
        known.add(listed.path)
    normalised = [one.path for one in entries if one.path in noted["normalised"]]
    return Unchanged(entries, normalised, ignored, frozenset(known))


def _attributes(part: Part) -> str:
    """Of all files of the tree that give attributes."""
    given = [[one.path, one.oid] for one in part.listing if one.path.rpartition("/")[2] == _ATTRIBUTES]
    return hashlib.sha256(repr(given).encode("utf-8", "surrogateescape")).hexdigest()
