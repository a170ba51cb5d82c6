"""What a build begins with: a copy of a release to be written to, and files of the installed package."""

from __future__ import annotations

import fnmatch
import os
import stat
from typing import Any, Mapping

from klops.agent.errors import VerbError
from klops.agent.releases import files, known
from klops.agent.releases.activate import installed
from klops.agent.releases.places import Places
from klops.agent.releases.standin import StandIn
from klops.source.manifest import LINK, Entry, Release


def copy(places: Places, source: Release, tree: bytes) -> None:
    """All that the manifest names, to be written to; Python's caches stay behind."""
    folder = os.fsencode(places.tree(source.name))
    os.makedirs(tree, 0o755)
    for above in sorted({os.path.dirname(entry.raw) for entry in source.entries}):
        os.makedirs(tree + b"/" + above, exist_ok=True)
    for entry in source.entries:
        path, here = folder + b"/" + entry.raw, tree + b"/" + entry.raw
        try:
            if entry.kind == LINK:
                os.symlink(os.readlink(path), here)
                continue
            files.copy(path, here, entry.mode)
            status = os.stat(path)
        except FileNotFoundError as error:
            raise _damaged(source, entry) from error
        os.utime(here, ns=(status.st_atime_ns, status.st_mtime_ns))
        if files.sha256(here) != entry.sha256:
            raise _damaged(source, entry)


def _damaged(source: Release, entry: Entry) -> VerbError:
    return VerbError(
        "damaged-release",
        f"{entry.path} of {source.name} is not as it was laid down",
        "klops sync lays it down anew",
    )


def carry(places: Places, one: Mapping[str, Any], tree: bytes) -> str:
    """Take over files of an installed package; what was done in words."""
    place = installed(one["package"])
    spot = StandIn(place, f"{places.current}/{one['path']}", places.current)
    folder = os.fsencode(spot.kept if spot.mine else place)
    if not os.path.isdir(folder):
        raise VerbError(
            "nothing-to-carry",
            f"{one['package']} is not installed in this container, so that no file of it can be carried over",
            "see carry in klops.source.targets",
        )
    count = 0
    for path, full in known.contents(folder):
        name, here = os.fsdecode(path), tree + b"/" + os.fsencode(one["path"]) + b"/" + path
        wanted = any(
            fnmatch.fnmatchcase(text, glob_)
            for glob_ in one["globs"]
            for text in (name, os.path.basename(name))
        )
        if wanted and os.path.isfile(full) and not os.path.lexists(here):
            os.makedirs(os.path.dirname(here), exist_ok=True)
            files.copy(os.path.realpath(full), here, stat.S_IMODE(os.stat(full).st_mode) | 0o600)
            count += 1
    return f"{count} files of the installed {one['package']} are carried over ({', '.join(one['globs'])})"
