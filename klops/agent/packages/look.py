"""The verb ``packages``: what is installed, saved and patched. Reads only."""

from __future__ import annotations

import os
import sys
from typing import Any, Sequence

from klops.agent.packages import contents, distributions, journal, known, names, sites, uv
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site


def packages(places: Places, wanted: Sequence[str], files: Sequence[str]) -> dict[str, Any]:
    """What the control side plans from. ``wanted``: names of distributions, ``files``: of patches.

    ``patches`` has these files and all that klops has a note on; ``interrupted``: a change was cut short, and
    the next one puts that back first. Raises :class:`VerbError` and ``OSError``.
    """
    site = sites.ask()
    found = distributions.installed(site, wanted)
    notes = known.patches(places)
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "site": site.purelib,
        "uv": uv.find(site.python),
        "installed": {name: _installed(found.get(names.normal(name))) for name in wanted},
        "saved": [
            {"file": file, **{key: entry[key] for key in ("name", "version", "record", "bytes")}}
            for file, entry in sorted(known.stack(places).saved.items())
        ],
        "patches": [_patch(site, notes, file) for file in dict.fromkeys([*files, *sorted(notes.now)])],
        "interrupted": journal.under_way(places),
    }


def _installed(one: distributions.Distribution | None) -> dict[str, Any] | None:
    return None if one is None else {**one.identity(), "editable": one.editable}


def _patch(site: Site, notes: known.Patches, file: str) -> dict[str, Any]:
    relative = sites.relative(site, file)
    path = sites.absolute(site, relative)
    owner = distributions.owner(site, path)
    note = notes.now.get(relative)
    return {
        "file": file,
        "sha256": contents.sha256(path) if os.path.isfile(path) else None,
        "record_sha256": owner[1] if owner else None,
        "known": None
        if note is None
        else {
            **{key: note[key] for key in ("pristine", "patched", "patch")},
            "pending": bool(note.get("pending")),
            "stale": bool(note.get("stale")),
        },
    }
