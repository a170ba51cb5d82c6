"""Where the content of an entry can be had on this host: from what has arrived, or from another release."""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.releases import files, known
from klops.agent.releases.places import Places
from klops.source.manifest import FILE, LINK, Entry

#: Bytes that a link may point with.
_LONGEST_LINK = 4096


class Source(NamedTuple):
    """A file or link that has, or had when its manifest was written, a certain content."""

    path: bytes
    kind: str
    #: whether a release may share it: it is one's own, or that of a release which no build has written to
    shared: bool
    #: it was sent, and is no release's yet
    arrived: bool = False


def objects(places: Places, name: str) -> str:
    """The folder of what has arrived of a release: files that are called as their sha256."""
    return places.incoming(name) + "/objects"


def find(places: Places, name: str, wanted: Iterable[Entry]) -> dict[str, list[Source]]:
    """By sha256, best first. None of them is sure to be what it is called: :func:`right` tells."""
    found: dict[str, list[Source]] = {entry.sha256: [] for entry in wanted}
    for other in sorted(_incoming(places), key=lambda one: one != name):
        folder = os.fsencode(objects(places, other))
        for sha256 in _names(folder):
            if sha256.decode("ascii", "replace") in found:
                source = Source(folder + b"/" + sha256, FILE, shared=True, arrived=True)
                found[sha256.decode("ascii")].append(source)
    for other in known.whole(places):
        try:
            release = known.load(places, other)
        except VerbError:
            continue  # it can't be told what is in there
        folder = os.fsencode(places.tree(other))
        shared = "built_from" not in release.about
        for entry in release.entries:
            if entry.sha256 in found:
                found[entry.sha256].append(Source(folder + b"/" + entry.raw, entry.kind, shared))
    return found


def _incoming(places: Places) -> list[str]:
    try:
        return os.listdir(places.incoming_folder)
    except FileNotFoundError:
        return []


def _names(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def right(source: Source, entry: Entry) -> bool:
    """Whether it has the content of an entry at this moment: it is read."""
    if entry.kind == FILE and source.kind == LINK:
        return False
    if entry.kind == LINK:
        import hashlib

        return hashlib.sha256(target(source)).hexdigest() == entry.sha256
    try:
        fd = files.open_file(source.path)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        return size == entry.size and files.sha256_of(fd, size) == entry.sha256
    finally:
        os.close(fd)


def target(source: Source) -> bytes:
    """What a link points to; b"" when it can't be read."""
    try:
        if source.kind == LINK:
            return os.readlink(source.path)
        fd = files.open_file(source.path)
    except OSError:
        return b""
    try:
        return os.read(fd, _LONGEST_LINK)
    finally:
        os.close(fd)
