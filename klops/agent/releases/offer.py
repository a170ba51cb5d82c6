"""The verb ``offer``: what of a release is lacking here, and whether there is room for it."""

from __future__ import annotations

import os
from typing import Any

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import files, known, sources
from klops.agent.releases.places import Places, check_name
from klops.source.manifest import Entry, Release, paths, release

#: Bytes that a file or folder takes beside its content, at least.
_OVERHEAD = 4096
_NAMED = 20


def offer(places: Places, data: bytes) -> dict[str, Any]:
    """``{lacking: [index of entry...], bytes, free, whole}`` for a manifest.

    ``lacking`` names each content once. ``whole``: it is all here and undamaged, and there is nothing to
    receive. Raises :class:`VerbError` (``damaged``, ``unsafe-path``, ``disk-full``) and ``OSError``.
    """
    offered = known.read(data, "what was sent")
    check(offered)
    with places.alone("offer"):
        if offered.name in known.whole(places) and not _damaged(places, offered):
            drop(places, offered.name)  # a run that was killed just before its end may have left it
            return {"lacking": [], "bytes": 0, "free": free(places), "whole": True}
        found = sources.find(places, offered.name, offered.entries)
        lacking, copied = _lacking(offered.entries, found)
        size = sum(offered.entries[index].size for index in lacking)
        _check_room(places, offered, size + copied)
        os.makedirs(sources.objects(places, offered.name), mode=0o700, exist_ok=True)
        write(places, offered, lacking)
        return {"lacking": lacking, "bytes": size, "free": free(places), "whole": False}


def check(offered: Release) -> None:
    """Raises :class:`VerbError` for a name that isn't of the content, and for paths that lead elsewhere."""
    check_name(offered.name)
    if not offered.name.endswith("-" + offered.digest[: release.NAMED]):
        raise VerbError("damaged", f"{offered.name} is not the name of what has the digest {offered.digest}")
    refuse(paths.problems(offered.entries))


def refuse(problems: list[str]) -> None:
    """Raises :class:`VerbError`, code ``unsafe-path``, when there are any."""
    if problems:
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise VerbError(
            "unsafe-path",
            f"the release is refused: {'; '.join(problems[:_NAMED])}{more}",
            "nothing was written; take these out of the tree",
        )


def write(places: Places, offered: Release, lacking: list[int]) -> None:
    """Put down what was agreed on: ``receive`` goes by that."""
    folder = places.incoming(offered.name)
    store.write_text(folder + "/manifest", offered.dumps().decode("ascii"))
    store.write_json(folder + "/lacking.json", {"lacking": lacking})


def agreed(places: Places, name: str) -> tuple[Release, list[int]] | None:
    """What :func:`write` put down; None when nothing was offered. Raises :class:`VerbError`."""
    folder = places.incoming(name)
    noted = store.read_json(folder + "/lacking.json")
    if noted is None:
        return None
    offered = known.read(store.read_text(folder + "/manifest").encode("utf-8"), folder + "/manifest")
    return offered, [int(index) for index in noted["lacking"]]


def free(places: Places) -> int:
    """Bytes that are free for who isn't root."""
    room = os.statvfs(places.folder)
    return room.f_bavail * room.f_frsize


def _damaged(places: Places, offered: Release) -> bool:
    try:
        same = known.load(places, offered.name).digest == offered.digest
    except VerbError as failure:
        if failure.code == "newer-schema":
            raise
        return True
    return not same or bool(known.damage(places.tree(offered.name), offered))


def _lacking(entries: tuple[Entry, ...], found: dict[str, list[sources.Source]]) -> tuple[list[int], int]:
    """Indexes of what has to be sent; bytes that have to be copied here, as they can't be shared."""
    lacking: list[int] = []
    sent: set[str] = set()
    copied = 0
    had: dict[tuple[str, str], sources.Source] = {}
    for index, entry in enumerate(entries):
        if entry.sha256 in sent:
            continue
        key = (entry.kind, entry.sha256)
        if key not in had:
            source = next((one for one in found[entry.sha256] if sources.right(one, entry)), None)
            if source is None:
                lacking.append(index)
                sent.add(entry.sha256)
                continue
            had[key] = source
        copied += 0 if had[key].shared else entry.size
    return lacking, copied


def _check_room(places: Places, offered: Release, size: int) -> None:
    above = {os.path.dirname(entry.raw) for entry in offered.entries}
    need = size + _OVERHEAD * (len(offered.entries) + len(above))
    room = os.statvfs(places.folder)
    if need > room.f_bavail * room.f_frsize:
        raise disk_full(places, f"{need >> 20} MiB are needed there")
    if room.f_files and len(offered.entries) + len(above) > room.f_favail:
        raise disk_full(
            places, f"{len(offered.entries)} files are to come, for {room.f_favail} there is room"
        )


def disk_full(places: Places, what: str) -> VerbError:
    """What is said when there is no room."""
    return VerbError(
        "disk-full",
        f"{places.folder} has {free(places) >> 20} MiB left: {what}",
        "make room on the host (df -h, df -i); the release that runs is as it was",
    )


def drop(places: Places, name: str) -> None:
    """Give back the room that what has arrived takes."""
    files.remove(os.fsencode(places.incoming(name)))
