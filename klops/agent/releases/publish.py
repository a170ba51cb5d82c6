"""A whole tree becomes a release: its manifest is written, then its folder is renamed to its place."""

from __future__ import annotations

import os
import time

from klops.agent import store
from klops.agent.releases import files, known
from klops.agent.releases.places import Places
from klops.source.manifest import Release


def publish(places: Places, release: Release, folder: bytes, written: list[bytes]) -> None:
    """One of that name that is there already changes places with it: a sweep takes it away.

    ``written``: what the disk may not have kept yet. Raises ``OSError``.
    """
    files.flush(folder, written)
    store.write_text(places.manifest(release.name), release.dumps().decode("ascii"), mode=0o644)
    used(places, release.name)
    place = os.fsencode(places.tree(release.name))
    if not os.path.lexists(place):
        files.move_folder(folder, place)
    elif not files.exchange_folders(folder, place):
        away = os.fsencode(f"{places.trash}/{release.name}.{os.getpid()}")
        files.move_folder(place, away)
        files.move_folder(folder, place)
    files.flush_one(os.fsencode(places.folder))


def used(places: Places, name: str) -> None:
    """Note that a release is the one last used, whatever the clock says."""
    others = [os.stat(places.manifest(other)).st_mtime_ns for other in known.whole(places)]
    at = max([time.time_ns(), *(one + 1 for one in others)])
    os.utime(places.manifest(name), ns=(at, at))
