"""A tree is laid down beside the releases: what is here is shared or copied, what is lacking arrives.

Each file is hashed once, at its place or as it arrives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from typing import Any, Callable, Mapping

from klops.agent.errors import VerbError
from klops.agent.releases import files, known, sources
from klops.agent.releases.places import Places
from klops.agent.releases.sources import Origin
from klops.agent.releases.stream import Gone, Stream
from klops.source.manifest import LINK, Entry, Release, paths

#: Seconds between two lines on what has arrived.
_REPEAT = 0.5
_NAMED = 20
#: What a link or a copy fails with where there is nothing to be linked, or it can't be.
_NO_LINK = (*files.UNABLE, errno.ENOENT, errno.ENOTDIR)

#: Writes one object; False when nobody reads.
Tell = Callable[[Mapping[str, Any]], bool]


class Laying:
    """The tree of a release in a folder of its own. It may be given up at any point: the next has all of it.

    ``written``: files and folders that the disk may not have kept yet. ``linked``: how many entries share the
    file of another release.
    """

    def __init__(self, places: Places, release: Release, manifest: bytes) -> None:
        self._places = places
        self.release = release
        self.folder = places.arriving(release.name)
        self.manifest = self.folder + "/manifest"
        with open(self.manifest, "xb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(manifest)
        self.tree = os.fsencode(sources.tree_of(self.folder))
        self._links = os.fsencode(sources.links_of(self.folder))
        os.mkdir(self._links, 0o700)
        self._folders = _folders(release)
        for folder in self._folders:
            os.mkdir(self.tree + folder, 0o755)
        self.written = [os.fsencode(self.manifest)]
        self.linked = 0
        self._lacking = {entry.path: entry for entry in release.entries}
        #: what links point to
        self._targets: dict[str, bytes] = {}
        #: files that the tree has. No two of its entries share one: a change by hand is one change
        self._used: set[tuple[int, int]] = set()

    def gather(self) -> list[int]:
        """Put in what is here; the indexes of what isn't, each content once. Raises ``OSError``."""
        for origin in sources.origins(self._places, self.folder, self._contents):
            for one in origin.entries:
                # the same file as before, where there is one
                if self._lacking.get(one.path) == one and self._placed(origin, one, one):
                    del self._lacking[one.path]
            self._elsewhere(origin)
        # what had arrived of it is in this one by now
        drop(self._places, self.release.name, but=self.folder)
        seen: set[str] = set()
        found = []
        for index, entry in enumerate(self.release.entries if self._lacking else ()):
            if entry.path in self._lacking and entry.sha256 not in seen:
                seen.add(entry.sha256)
                found.append(index)
        return found

    def _contents(self) -> set[str]:
        return {entry.sha256 for entry in self._lacking.values()}

    def _elsewhere(self, origin: Origin) -> None:
        """Put in what an origin has at another path, or with another mode."""
        wanted = self._contents()
        there: dict[str, list[Entry]] = {}
        for one in origin.entries:
            if one.sha256 in wanted:
                there.setdefault(one.sha256, []).append(one)
        for entry in list(self._lacking.values()) if there else ():
            if any(self._placed(origin, one, entry) for one in there.get(entry.sha256, ())):
                del self._lacking[entry.path]

    def _placed(self, origin: Origin, one: Entry, entry: Entry) -> bool:
        """Whether what an origin has as ``one`` could be put in as ``entry``."""
        source = origin.path(one)
        if entry.kind == LINK:
            return self._pointing(entry, source, keep=bool(origin.links))
        if one.kind == LINK:
            return False
        may = origin.shared and one.mode == entry.mode
        return (may and self._share(source, entry, arrived=bool(origin.links))) or self._copy(source, entry)

    def _share(self, source: bytes, entry: Entry, *, arrived: bool) -> bool:
        """A hard link: mode and time are one for all names of a file."""
        path = self._at(entry)
        try:
            os.link(source, path, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        status = self._right(path, entry)
        if status is None:
            return False
        if arrived and status.st_nlink == 2:  # no release has it
            _date(path, self.release)
        else:
            self.linked += 1
        if arrived:
            self.written.append(path)
        return True

    def _copy(self, source: bytes, entry: Entry) -> bool:
        path = self._at(entry)
        try:
            files.copy(source, path, known.mode_of(entry))
        except OSError as error:
            # it isn't there, or is no file
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ELOOP, errno.ENXIO):
                return False
            raise
        if self._right(path, entry) is None:
            return False
        _date(path, self.release)
        self.written.append(path)
        return True

    def _right(self, path: bytes, entry: Entry) -> os.stat_result | None:
        """What was put at its place, when that is what it should be: it is hashed; else it is taken away."""
        problem, status = known.seen(path, entry)
        if not problem and status is not None and (status.st_dev, status.st_ino) not in self._used:
            self._used.add((status.st_dev, status.st_ino))
            return status
        os.unlink(path)
        return None

    def _pointing(self, entry: Entry, source: bytes, *, keep: bool) -> bool:
        """Whether what a link has to point to is there; ``keep``: it has arrived, and would have to again."""
        target = sources.target(source)
        if len(target) != entry.size or hashlib.sha256(target).hexdigest() != entry.sha256:
            return False
        self._targets[entry.path] = target
        if keep:
            with open(self._at(entry), "wb") as file:
                file.write(target)
        return True

    def _at(self, entry: Entry) -> bytes:
        """Where its content is put: a link is made at last, so that nothing is written through one."""
        if entry.kind == LINK:
            return self._links + b"/" + entry.sha256.encode("ascii")
        return self.tree + b"/" + entry.raw

    def receive(self, wanted: list[int], stream: Stream, tell: Tell) -> int:
        """Take in the contents of these entries, in order; their bytes. What is whole stays when it is cut.

        Raises :class:`VerbError`, :class:`Gone` and ``OSError``.
        """
        progress = _Progress(tell)
        first: dict[str, bytes] = {}
        for index in wanted:
            entry = self.release.entries[index]
            path = first[entry.sha256] = self._at(entry)
            self._arrive(entry, path, stream, progress)
            progress.files += 1
            if entry.kind != LINK:
                self.written.append(path)
                del self._lacking[entry.path]
        stream.end()
        for entry in self._lacking.values():
            path = first[entry.sha256]
            put = self._pointing(entry, path, keep=False) if entry.kind == LINK else self._copy(path, entry)
            if not put:
                raise _changed(entry, files.sha256(path))
        self._lacking.clear()
        return progress.got

    def _arrive(self, entry: Entry, path: bytes, stream: Stream, progress: _Progress) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            summed, left = hashlib.sha256(), entry.size
            while left:
                data = stream.take(left)
                files.write_all(fd, data)
                summed.update(data)
                left -= len(data)
                progress.more(len(data))
            sha256 = summed.hexdigest()
            os.fchmod(fd, known.mode_of(entry))
            _date(fd, self.release)
        except BaseException:
            os.unlink(path)  # half of it helps nobody
            raise
        finally:
            os.close(fd)
        if sha256 != entry.sha256:
            os.unlink(path)
            raise _changed(entry, sha256)

    def finish(self) -> None:
        """Make links, and give folders their mode and time. Raises :class:`VerbError`, ``unsafe-path``."""
        pointing = {path: to.decode("utf-8", "surrogateescape") for path, to in self._targets.items()}
        refuse(paths.link_problems(pointing))
        for path, target in self._targets.items():
            link = self.tree + b"/" + path.encode("utf-8", "surrogateescape")
            os.symlink(target, link)
            _date(link, self.release)
        for folder in reversed(self._folders):
            path_of = self.tree + folder
            os.chmod(path_of, known.FOLDER_MODE)
            _date(path_of, self.release)
            self.written.append(path_of)


class _Progress:
    """Tells from time to time what has arrived. Raises :class:`Gone` when nobody reads."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._shown = tell, time.monotonic()
        self.got = self.files = 0

    def more(self, size: int) -> None:
        """So many bytes more."""
        self.got += size
        now = time.monotonic()
        if now - self._shown >= _REPEAT:
            self._shown = now
            if not self._tell({"got": self.got, "files": self.files}):
                raise Gone


def refuse(problems: list[str]) -> None:
    """Raises :class:`VerbError`, code ``unsafe-path``, when there are any."""
    if problems:
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise VerbError(
            "unsafe-path",
            f"the release is refused: {'; '.join(problems[:_NAMED])}{more}",
            "nothing was written; take these out of the tree",
        )


def drop(places: Places, name: str, but: str = "") -> None:
    """Give back the room that what has arrived of a release takes, ``but`` in that folder."""
    for other in os.listdir(places.incoming_folder):
        folder = f"{places.incoming_folder}/{other}"
        if other.startswith(name + ".") and folder != but:
            files.remove(os.fsencode(folder))


def _folders(release: Release) -> list[bytes]:
    """All folders of a tree as what follows its own path, each after the one it is in."""
    found = {""}
    for entry in release.entries:
        above = entry.path.rpartition("/")[0]
        while above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return sorted(b"/" + path.encode("utf-8", "surrogateescape") if path else b"" for path in found)


def _date(path: bytes | int, release: Release) -> None:
    """The time of the commit: the same tree is the same everywhere."""
    at = release.about.get("committed")
    if isinstance(at, (int, float)):
        os.utime(path, (at, at), follow_symlinks=isinstance(path, int))


def _changed(entry: Entry, sha256: str) -> VerbError:
    return VerbError(
        "content-changed",
        f"{entry.path} is not what its manifest says: it has the sha256 {sha256}",
        "repeat it; was the file changed while it was sent?",
    )
