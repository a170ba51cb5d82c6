"""Whether there is room for what is to come."""

from __future__ import annotations

import os
from typing import Sequence

from klops.agent.errors import VerbError
from klops.agent.releases.places import Places
from klops.source.manifest import Entry

#: Bytes that a file takes beside its content, at least.
_OVERHEAD = 4096


def insist(places: Places, coming: Sequence[Entry]) -> None:
    """Raises :class:`VerbError`, code ``disk-full``, when there is none for these entries."""
    need = sum(entry.size for entry in coming) + _OVERHEAD * len(coming)
    room = os.statvfs(places.folder)
    if need > room.f_bavail * room.f_frsize:
        raise disk_full(places, f"{need >> 20} MiB are needed there")
    if room.f_files and len(coming) > room.f_favail:
        raise disk_full(places, f"{len(coming)} files are to come, for {room.f_favail} there is room")


def disk_full(places: Places, what: str) -> VerbError:
    """What is said when there is no room."""
    room = os.statvfs(places.folder)
    return VerbError(
        "disk-full",
        f"{places.folder} has {room.f_bavail * room.f_frsize >> 20} MiB left: {what}",
        "make room on the host (df -h, df -i); the release that runs is as it was",
    )
