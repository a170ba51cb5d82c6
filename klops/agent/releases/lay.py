"""A tree is laid down from what has arrived and what other releases have, each entry hashed at its place."""

from __future__ import annotations

import errno
import os
import stat
from typing import Container, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.agent.releases import files, known, sources
from klops.agent.releases.offer import refuse
from klops.agent.releases.places import Places
from klops.agent.releases.sources import Source
from klops.source.manifest import LINK, Entry, Release, paths

FOLDER_MODE = 0o555


class Laid(NamedTuple):
    """What was done."""

    #: entries that share the file of another release
    linked: int
    #: files with content of their own
    written: list[bytes]


def lay(places: Places, release: Release, folder: bytes) -> Laid:
    """Make ``folder`` the tree of a release; it is one's own and may be there half-made.

    Raises :class:`VerbError` (``unsafe-path``, ``stale-offer``) and ``OSError``.
    """
    files.remove(folder)
    found = sources.find(places, release.name, release.entries)
    targets = _targets(release, found)
    for above in _folders(release):
        os.makedirs(folder + b"/" + above, exist_ok=True)
    linked, written = 0, []
    used: set[tuple[int, int]] = set()
    for entry in release.entries:
        if entry.kind == LINK:
            continue
        path = folder + b"/" + entry.raw
        source = _placed(found[entry.sha256], entry, path, used)
        if source is None:
            raise _stale(entry)
        if not source.arrived and os.path.samefile(source.path, path):
            linked += 1
        else:
            _date(path, release)
            written.append(path)
    # at last, so that nothing was written through one of them
    for entry in release.entries:
        if entry.kind == LINK:
            path = folder + b"/" + entry.raw
            os.symlink(targets[entry.path], path)
            _date(path, release)
    finish(release, folder)
    return Laid(linked, written)


def finish(release: Release, folder: bytes) -> None:
    """Folders of a whole tree get their mode and time."""
    for path in files.folders(folder):
        os.chmod(path, FOLDER_MODE)
        _date(path, release)


def _folders(release: Release) -> list[bytes]:
    return sorted({b""} | {os.path.dirname(entry.raw) for entry in release.entries})


def _targets(release: Release, found: dict[str, list[Source]]) -> dict[str, bytes]:
    """What links point to. Raises :class:`VerbError` when one leads out of the tree."""
    targets = {}
    for entry in release.entries:
        if entry.kind == LINK:
            source = next((one for one in found[entry.sha256] if sources.right(one, entry)), None)
            if source is None:
                raise _stale(entry)
            targets[entry.path] = sources.target(source)
    refuse(paths.link_problems({path: to.decode("utf-8", "surrogateescape") for path, to in targets.items()}))
    return targets


def _placed(
    candidates: Sequence[Source], entry: Entry, path: bytes, used: set[tuple[int, int]]
) -> Source | None:
    """Where the file at its place comes from, None when there is nothing: it is hashed where it is.

    ``used``: files that the tree has by now. No two of its entries share one: a change by hand is one change.
    """
    mode = known.mode_of(entry)
    # the same file as before, where there is one
    for source in sorted(candidates, key=lambda one: not one.path.endswith(b"/" + entry.raw)):
        if _share(source, mode, path, used):
            if not known.fault(path, entry):
                status = os.lstat(path)
                used.add((status.st_dev, status.st_ino))
                return source
            os.unlink(path)
    for source in candidates:
        if _copy(source, mode, path):
            if not known.fault(path, entry):
                return source
            os.unlink(path)
    return None


def _share(source: Source, mode: int, path: bytes, used: Container[tuple[int, int]]) -> bool:
    """A hard link, where the file has the right mode: that is one for all of its names."""
    try:
        status = os.lstat(source.path)
        if not (source.shared and stat.S_ISREG(status.st_mode)) or (status.st_dev, status.st_ino) in used:
            return False
        if stat.S_IMODE(status.st_mode) != mode:
            if not (source.arrived and status.st_nlink == 1):
                return False
            os.chmod(source.path, mode)  # nobody has it yet
        os.link(source.path, path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (*files.UNABLE, errno.ENOENT):
            return False
        raise
    return True


def _copy(source: Source, mode: int, path: bytes) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(source.path).st_mode):
            return False
        files.copy(source.path, path, mode)
    except FileNotFoundError:
        return False
    return True


def _date(path: bytes, release: Release) -> None:
    """The time of the commit: the same tree is the same everywhere."""
    at = release.about.get("committed")
    if isinstance(at, (int, float)):
        os.utime(path, (at, at), follow_symlinks=False)


def _stale(entry: Entry) -> VerbError:
    return VerbError(
        "stale-offer",
        f"{entry.path} was here when the release was offered, and isn't as it was any more",
        "repeat it: what is lacking now is sent",
    )
