"""A whole tree becomes a release: its manifest, then its folder are renamed to their places."""

from __future__ import annotations

import os
import time
from typing import Sequence

from klops.agent.releases import files, known
from klops.agent.releases.places import Places


def publish(places: Places, name: str, tree: bytes, manifest: str, written: Sequence[bytes]) -> None:
    """One of that name that is there already changes places with it: a sweep takes it away.

    It counts as used when that one did, and else only once it has become the current one (:func:`used`).
    ``written``: files and folders of it, and the manifest, that the disk may not have kept yet. That they are
    in their places it may have to be told (:func:`files.flush_one` of the folder). Raises ``OSError``.
    """
    at = known.last_used(places, name) if name in known.whole(places) else known.NEVER
    os.utime(manifest, ns=(at, at))
    files.flush(tree, written)
    os.replace(manifest, places.manifest(name))
    place = os.fsencode(places.tree(name))
    if not os.path.lexists(place):
        files.move_folder(tree, place)
    elif not files.exchange_folders(tree, place):
        away = os.fsencode(f"{places.trash}/{name}.{os.getpid()}")
        files.move_folder(place, away)
        files.move_folder(tree, place)


def used(places: Places, name: str) -> None:
    """Note that a release is the one last used, whatever the clock says."""
    others = [known.last_used(places, other) for other in known.whole(places)]
    at = max([time.time_ns(), *(one + 1 for one in others)])
    os.utime(places.manifest(name), ns=(at, at))
