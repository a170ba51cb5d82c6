"""Where contents can be had on this host: in another release, or in what has arrived of one."""

from __future__ import annotations

import os
import re
from typing import Callable, Iterator, List, NamedTuple, Set

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import files, known
from klops.agent.releases.places import Places
from klops.source.manifest import LINK, Entry

#: Bytes that a link may point with.
LONGEST_LINK = 4095
_SHA256 = re.compile(r'"([0-9a-f]{64})"')


class Origin(NamedTuple):
    """A tree that has, or had when its manifest was written, these entries. None is sure to be as it was."""

    folder: bytes
    entries: List[Entry]
    #: whether a release may share its files: no build has written to them
    shared: bool
    #: where the contents of links are, of what is no release yet; b"": in the tree
    links: bytes = b""

    def path(self, entry: Entry) -> bytes:
        """Where the content of an entry of it is."""
        if self.links and entry.kind == LINK:
            return self.links + b"/" + entry.sha256.encode("ascii")
        return self.folder + b"/" + entry.raw


def origins(places: Places, own: str, lacking: Callable[[], Set[str]]) -> Iterator[Origin]:
    """All that have any of the contents that are ``lacking`` by now (sha256), the best first.

    ``own``: where another arrives now. Manifests that can't be read tell nothing.
    """
    name = os.path.basename(own).rpartition(".")[0]
    for other in sorted(_incoming(places), key=lambda one: not one.startswith(name + ".")):
        folder = f"{places.incoming_folder}/{other}"
        if folder != own:
            yield from _read(
                folder + "/manifest", lacking(), os.fsencode(tree_of(folder)), os.fsencode(links_of(folder))
            )
    copied = []
    for other in known.whole(places):
        for origin in _read(places.manifest(other), lacking(), os.fsencode(places.tree(other))):
            if origin.shared:
                yield origin
            else:
                copied.append(origin)
    # what a build has written to costs room for each file: what it was made from comes before it
    yield from copied


def tree_of(folder: str) -> str:
    """The tree of what arrives in a folder."""
    return folder + "/tree"


def links_of(folder: str) -> str:
    """What its links point to, in files that are called as their sha256."""
    return folder + "/links"


def _incoming(places: Places) -> list[str]:
    try:
        return os.listdir(places.incoming_folder)
    except FileNotFoundError:
        return []


def _read(manifest: str, lacking: Set[str], folder: bytes, links: bytes = b"") -> Iterator[Origin]:
    try:
        text = store.read_text(manifest)
        if lacking.isdisjoint(_SHA256.findall(text)):
            return
        release = known.read(text.encode("utf-8"), manifest)
    except (OSError, ValueError, VerbError):
        return
    yield Origin(folder, list(release.entries), "built_from" not in release.about, links)


def target(path: bytes) -> bytes:
    """What a link points to, or the content of a file of that length; b"" when it can't be read."""
    try:
        if os.path.islink(path):
            return os.readlink(path)
        fd, _ = files.open_file(path)
    except OSError:
        return b""
    try:
        return os.read(fd, LONGEST_LINK + 1)
    finally:
        os.close(fd)
