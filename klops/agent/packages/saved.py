"""Distributions kept as archives: all files that RECORD lists, as they stood, in one uncompressed tar.

An editable install has its code elsewhere: of it only the metadata is saved.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import tarfile
from typing import IO, Any, Mapping, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.packages import contents, distributions, known, linked
from klops.agent.packages.distributions import Distribution
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, below

#: The last member: what the others are, which are called by their number.
_INDEX = "index.json"
_SCHEMA = 1
#: Hex digits of a digest in an archive's name.
_NAMED = 16
#: Bytes that tar takes beside a member's content, at most.
_PER_MEMBER = 2048


class Item(NamedTuple):
    """One file. ``path`` as in RECORD; ``link``: what a symbolic link points to, else None."""

    path: str
    sha256: str
    size: int
    mode: int
    owner: tuple[int, int]
    mtime: int
    link: str | None


class Archive(NamedTuple):
    """What an archive holds; ``base``: what paths are relative to."""

    name: str
    version: str
    record: str
    base: str
    items: tuple[Item, ...]


def save(places: Places, site: Site, distribution: Distribution) -> str:
    """Save a distribution unless it is already; the archive's file name.

    A file that klops has patched is saved as it came: its patch is kept for itself. One that was changed by
    hand makes an archive of its own. Raises ``OSError`` and :class:`VerbError`.
    """
    if distribution.record is None:
        raise VerbError(
            "not-savable",
            f"{distribution.name} {distribution.version} has no RECORD ({distribution.folder}): "
            "nobody knows its files",
            "install it from a wheel by hand once, or take it out of klops.stack.packages",
        )
    found, exact = _look(places, site, distribution)
    items = [item for item, _ in found]
    file = _called(distribution, items, exact)
    notes = known.stack(places)
    if file in notes.saved and os.path.exists(places.archive(file)):
        check(places, notes, file)
        return file
    contents.room(places.stack, sum(item.size + _PER_MEMBER for item in items))
    archive = Archive(
        distribution.name, distribution.version, distribution.record, distribution.base, tuple(items)
    )
    size, digest = _write(places.archive(file), archive, [source for _, source in found])
    notes.saved[file] = {
        "name": archive.name,
        "version": archive.version,
        "record": archive.record,
        "bytes": size,
        "sha256": digest,
        "exact": exact,
    }
    known.note_stack(places, notes)
    return file


def by_hand(places: Places, noted: Mapping[str, Any]) -> list[str]:
    """In words, which archives hold files that somebody had changed by hand; ``noted``: what :func:`save`
    has saved, by name."""
    notes = known.stack(places)
    return [
        f"files of {name} were changed by hand: as they stood they are in {places.archive(one['file'])}"
        for name, one in sorted(noted.items())
        if one is not None and not notes.saved[one["file"]]["exact"]
    ]


def _look(places: Places, site: Site, distribution: Distribution) -> tuple[list[tuple[Item, str]], bool]:
    """Its files with where the content of each is, and whether all are as RECORD has them."""
    # of that file alone: another one may well have the content that this was patched to
    patched = {
        (entry["path"], content): entry["pristine"]
        for entry in known.patches(places).now.values()
        if not entry.get("stale")
        for content in (entry["patched"], entry.get("former"))
    }
    found: list[tuple[Item, str]] = []
    exact = True
    for file in distributions.files(distribution):
        path = safe_place(places, site, distribution.base, file.path)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue  # compiled files are removed by whoever likes to
        owner, mode = (status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            link = os.readlink(path)
            digest = hashlib.sha256(os.fsencode(link)).hexdigest()
            found.append((Item(file.path, digest, 0, mode, owner, status.st_mtime_ns, link), path))
            continue
        digest = contents.sha256(path)
        came = patched.get((path, digest))
        pristine = None if came is None else contents.kept(places.pristine, came)
        if came is not None and pristine is not None:
            path, digest = pristine, came
        exact = exact and file.sha256 in (None, digest)
        size = os.stat(path).st_size
        found.append((Item(file.path, digest, size, mode, owner, status.st_mtime_ns, None), path))
    return found, exact


def safe_place(places: Places, site: Site, base: str, path: str) -> str:
    """Where a file of RECORD lies. Raises :class:`VerbError` when that is no place for klops to change."""
    lies = os.path.normpath(os.path.join(base, path))
    folder = os.path.realpath(os.path.dirname(lies))
    if below(folder, os.path.realpath(places.releases)):
        raise linked.in_release(lies)
    if not any(
        below(folder, os.path.realpath(one)) for one in (site.prefix, site.purelib, site.platlib, base)
    ):
        raise VerbError(
            "not-savable", f"{lies} lies outside of {site.prefix}", "install that distribution by hand"
        )
    return lies


def _called(distribution: Distribution, items: list[Item], exact: bool) -> str:
    name = f"{distribution.name}-{distribution.version}-{str(distribution.record)[:_NAMED]}"
    if not exact:
        summed = hashlib.sha256(json.dumps([(item.path, item.sha256) for item in items]).encode("ascii"))
        name += f"-by-hand-{summed.hexdigest()[:_NAMED]}"
    return re.sub(r"[^A-Za-z0-9._+!-]", "_", name) + ".tar"


def _write(path: str, archive: Archive, sources: list[str]) -> tuple[int, str]:
    """Bytes and sha256 of the archive, which is written beside and renamed."""
    beside = contents.beside(path)
    try:
        with tarfile.open(beside, "w", format=tarfile.PAX_FORMAT) as tar:
            for number, item in enumerate(archive.items):
                if item.link is None:
                    source = sources[number]
                    with open(source, "rb") as file:
                        if _add(tar, str(number), item, file) != item.sha256:
                            raise VerbError("changed-meanwhile", f"{source} changed meanwhile", "repeat it")
            index = json.dumps({"schema": _SCHEMA, **archive._asdict()}).encode("ascii")
            head = tarfile.TarInfo(_INDEX)
            head.size = len(index)
            tar.addfile(head, io.BytesIO(index))
        os.chmod(beside, 0o600)
        size, digest = os.stat(beside).st_size, contents.sha256(beside)
        fd = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(beside, path)
    finally:
        if os.path.lexists(beside):
            os.unlink(beside)
    return size, digest


class _Hashing:
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.summed = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.summed.update(data)
        return data


def _add(tar: tarfile.TarFile, member: str, item: Item, file: IO[bytes]) -> str:
    """Add a member; the sha256 of what was added."""
    head = tarfile.TarInfo(member)
    head.size = item.size
    hashing = _Hashing(file)
    tar.addfile(head, hashing)
    return hashing.summed.hexdigest()


def check(places: Places, notes: known.Stack, file: str) -> None:
    """Raises :class:`VerbError` when an archive isn't the one that was written."""
    path = places.archive(file)
    entry = notes.saved.get(file)
    if entry is None or not os.path.exists(path):
        raise VerbError("not-saved", f"{path} is not there", "install that version by klops.stack.packages")
    if contents.sha256(path) != entry["sha256"]:
        raise VerbError(
            "not-saved",
            f"{path} was changed since it was written",
            "install that version by klops.stack.packages",
        )


def find(notes: known.Stack, name: str, wanted: Mapping[str, Any]) -> str | None:
    """The archive of a distribution by version and RECORD: one as RECORD has it before others."""
    fitting = [
        file
        for file, entry in notes.saved.items()
        if (entry["name"], entry["version"], entry["record"]) == (name, wanted["version"], wanted["record"])
    ]
    return min(fitting, key=lambda file: not notes.saved[file]["exact"], default=None)


class Reading:
    """An archive opened for its contents."""

    def __init__(self, places: Places, file: str) -> None:
        """Raises :class:`VerbError`, also when a newer klops wrote it."""
        self._tar = tarfile.open(places.archive(file), "r:")
        index = json.loads(self._member(_INDEX).read())
        if index["schema"] > _SCHEMA:
            raise VerbError("newer-schema", f"{file} was written by a newer klops", "use that one")
        items = tuple(
            Item(path, sha256, size, mode, (owner[0], owner[1]), mtime, link)
            for path, sha256, size, mode, owner, mtime, link in index["items"]
        )
        self.archive = Archive(index["name"], index["version"], index["record"], index["base"], items)

    def _member(self, name: str) -> IO[bytes]:
        found = self._tar.extractfile(name)
        if found is None:
            raise VerbError("damaged", f"{self._tar.name!r} has no {name}", "install that version anew")
        return found

    def content(self, number: int) -> IO[bytes]:
        """Of the item of that number."""
        return self._member(str(number))

    def close(self) -> None:
        self._tar.close()
