"""The verb ``send``: only what is lacking of a tree arrives, and it becomes a release, or the current one."""

from __future__ import annotations

import errno
import os
from typing import Any, Callable, Mapping

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import activate, files, known, laying, prune, room
from klops.agent.releases.laying import Laying, Tell
from klops.agent.releases.places import Places, check_name
from klops.agent.releases.publish import publish
from klops.agent.releases.sources import LONGEST_LINK
from klops.agent.releases.stream import Gone, Read, Stream, exactly
from klops.source.manifest import LINK, Release, paths, release


def send(
    places: Places, request: Mapping[str, Any], read: Read, tell: Tell, gone: Callable[[float], bool]
) -> dict[str, Any]:
    """``{name, whole, files, bytes, linked, notes, activated, generation}``, once the release is there.

    ``request``: ``manifest``, how many bytes of what is read are that; ``activate``, what
    :func:`~klops.agent.releases.activate.activate` is asked for, or nothing; ``note``, as what stands then is
    to be noted where no unit runs on it, or nothing: ``generation`` is its number. After the manifest
    ``{lacking: [index of entry...], bytes}`` is told, which names each content once; these contents are then
    read as one gzip stream, if there are any. ``whole``: it was all here and undamaged.

    Raises :class:`VerbError`, :class:`Gone` and ``OSError``; what has arrived then stays for the next run,
    but not on a full disk. What runs is as it was.
    """
    data = exactly(read, _size(request))
    offered = known.read(data, "what was sent")
    _check(offered)
    wanted = activate.read(request["activate"]) if request.get("activate") is not None else None
    if wanted is not None and wanted.name != offered.name:
        raise VerbError("usage", f"{offered.name} is sent, and {wanted.name} is to be activated")
    with places.alone("send"):
        try:
            done = _laid(places, offered, data, read, tell)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            laying.drop(places, offered.name)
            raise room.disk_full(places, "it became full while the release arrived") from error
        except VerbError as failure:
            if failure.code in ("disk-full", "unsafe-path"):
                laying.drop(places, offered.name)
            raise
        done["notes"] = prune.sweep(places)
        if wanted is None:
            files.flush_one(os.fsencode(places.folder))
            return {**done, "activated": None, "generation": None}
        # who isn't there any more may have lost the host's lock
        if not tell({"laid": done["name"]}) or gone(0.0):
            raise Gone
        activated = activate.switch(places, wanted, offered)
        return {**done, "activated": activated, "generation": _noted(places.root, request.get("note"))}


def _noted(root: str, told: Mapping[str, Any] | None) -> int | None:
    """The number of a generation that was noted anew; None where units have to prove it first, where saved
    packages are to be looked through with that, or where it fails.

    Whoever wanted it asks for it then by itself, and is told why.
    """
    if told is None or store.Paths(root).names() or os.path.isdir(f"{root}/stack"):
        return None
    from klops.agent.generations import verb

    try:
        said = verb.noted(root, told)
    except (VerbError, OSError):
        return None
    return said["number"] if said["noted"] else None


def _size(request: Mapping[str, Any]) -> int:
    size = request.get("manifest")
    if type(size) is not int or size < 0:
        raise VerbError("usage", f"manifest is {size!r}, not a number of bytes")
    return size


def _check(offered: Release) -> None:
    """Raises :class:`VerbError` for a name that isn't of the content, and for paths that lead elsewhere."""
    check_name(offered.name)
    if not offered.name.endswith("-" + offered.digest[: release.NAMED]):
        raise VerbError("damaged", f"{offered.name} is not the name of what has the digest {offered.digest}")
    problems = paths.problems(offered.entries)
    problems += [
        f"{entry.path!r} links farther than Linux takes"
        for entry in offered.entries
        if entry.kind == LINK and entry.size > LONGEST_LINK
    ]
    laying.refuse(problems)


def _laid(places: Places, offered: Release, data: bytes, read: Read, tell: Tell) -> dict[str, Any]:
    done = {"name": offered.name, "whole": True, "files": 0, "bytes": 0, "linked": 0}
    if offered.name in known.whole(places) and not _damaged(places, offered):
        _tell_lacking(tell, offered, [])
        return done
    laid = Laying(places, offered, data)
    lacking = laid.gather()
    room.insist(places, [offered.entries[index] for index in lacking])
    _tell_lacking(tell, offered, lacking)
    arrived = laid.receive(lacking, Stream(read), tell) if lacking else 0
    laid.finish()
    publish(places, offered.name, laid.tree, laid.manifest, laid.written)
    return {**done, "whole": False, "files": len(lacking), "bytes": arrived, "linked": laid.linked}


def _tell_lacking(tell: Tell, offered: Release, lacking: list[int]) -> None:
    size = sum(offered.entries[index].size for index in lacking)
    if not tell({"lacking": lacking, "bytes": size}):
        raise Gone


def _damaged(places: Places, offered: Release) -> bool:
    try:
        same = known.load(places, offered.name).digest == offered.digest
    except VerbError as failure:
        if failure.code == "newer-schema":
            raise
        return True
    return not same or bool(known.damage(places.tree(offered.name), offered))
