"""The releases that are there: which are whole, what their manifests say, whether files still are so."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import Any, Collection, Iterator

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import files
from klops.agent.releases.places import Places, check_name
from klops.source.manifest import LINK, Entry, Release, release

#: Python makes them where it may; they are no part of a release, and no damage.
CACHE = b"__pycache__"
#: Permission bits of what lies in a release, by those that git knows.
_READ_ONLY = 0o444
#: The same of its folders.
FOLDER_MODE = 0o555
#: When one was used last that never was the current release.
NEVER = 0
#: Too little of something to look at a file: no news of it.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def mode_of(entry: Entry) -> int:
    """Permission bits that a file of a release has."""
    return _READ_ONLY | (entry.mode & 0o111)


def whole(places: Places) -> list[str]:
    """Names of releases of which both folder and manifest are there, those last used first."""
    found = []
    try:
        names = os.listdir(places.folder)
    except FileNotFoundError:
        return []
    for name in names:
        if name.endswith(".json") and os.path.isdir(places.tree(name[: -len(".json")])):
            try:
                release_name = check_name(name[: -len(".json")])
                found.append((last_used(places, release_name), release_name))
            except (FileNotFoundError, VerbError):
                continue  # it went meanwhile; targets.json
    return [name for _, name in sorted(found, reverse=True)]


def last_used(places: Places, name: str) -> int:
    """When a release was used last, in ns since 1970 (the time of its manifest), or :data:`NEVER`.

    Raises ``OSError``.
    """
    return os.stat(places.manifest(name)).st_mtime_ns


def load(places: Places, name: str) -> Release:
    """The manifest of a release. Raises :class:`VerbError`: ``damaged``, ``newer-schema``, ``no-release``."""
    path = places.manifest(name)
    try:
        found = read(store.read_text(path).encode("utf-8", "surrogateescape"), path)
    except FileNotFoundError as error:
        raise VerbError("no-release", f"there is no release {name} on this host", "klops sync it") from error
    if found.name != name:
        raise VerbError("damaged", f"{path} is the manifest of {found.name}", "klops sync lays it down anew")
    return found


def read(data: bytes, where: str) -> Release:
    """A manifest as text. Raises :class:`VerbError`."""
    try:
        head = json.loads(data.split(b"\n", 1)[0])
        if isinstance(head.get("schema"), int) and head["schema"] > release.SCHEMA:
            raise VerbError(
                "newer-schema",
                f"{where} has schema {head['schema']}, this agent knows up to {release.SCHEMA}",
                "it was written by a newer klops: use that one",
            )
        return release.loads(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise VerbError("damaged", f"{where} is no manifest: {error}", "repeat the klops sync") from error


def summary(places: Places, name: str) -> dict[str, Any]:
    """``{name, digest, about, built, bytes}``, without a look at each entry. Raises :class:`VerbError`."""
    path = places.manifest(name)
    try:
        head, _, rest = store.read_text(path).partition("\n")
        known = json.loads(head)
        sizes = [row[3] for row in json.loads("[" + ",".join(rest.splitlines()) + "]")]
        return {
            "name": name,
            "digest": known["digest"],
            "about": known["about"],
            "built": "built_from" in known["about"],
            "bytes": sum(sizes),
        }
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise VerbError(
            "damaged", f"{path} is no manifest: {error}", "klops sync lays it down anew"
        ) from error


def base(places: Places, name: str) -> str | None:
    """The release that one was built from; None for one that wasn't, or can't be read."""
    try:
        head = store.read_text(places.manifest(name)).partition("\n")[0]
        found = json.loads(head)["about"].get("built_from")
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def damage(folder: str, expected: Release) -> list[dict[str, str]]:
    """What isn't as the manifest says: ``{path, problem}``, of ``missing``, ``changed``, ``mode``, ``extra``.

    Every file is read. A folder by itself is neither missing nor extra.
    """
    wanted = {entry.raw: entry for entry in expected.entries}
    holding = {raw[:end] for raw in wanted for end in _slashes(raw)}
    found = []
    for path, full in contents(os.fsencode(folder), holding):
        known = wanted.pop(path, None)
        if known is not None:
            problem = fault(full, known)
        else:
            problem = "" if CACHE in path.split(b"/")[:-1] else "extra"
        if problem:
            found.append({"path": path.decode("utf-8", "surrogateescape"), "problem": problem})
    return found + [{"path": entry.path, "problem": "missing"} for entry in wanted.values()]


def _slashes(raw: bytes) -> Iterator[int]:
    end = raw.find(b"/")
    while end >= 0:
        yield end
        end = raw.find(b"/", end + 1)


def contents(
    folder: bytes, holding: Collection[bytes] = (), below: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """All in a folder but other folders and what Python caches there: its path within, and the whole one.

    ``holding``: folders, by their path within, that are looked into although they are called as Python's.
    """
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            path = below + entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path, entry.path
            elif entry.name != CACHE or path in holding:
                yield from contents(entry.path, holding, path + b"/")


def fault(path: bytes, expected: Entry) -> str:
    """What is wrong with one entry at its place, as :func:`damage` says it; "" for nothing."""
    if expected.kind != LINK:
        return seen(path, expected)[0]
    try:
        return "" if hashlib.sha256(os.readlink(path)).hexdigest() == expected.sha256 else "changed"
    except OSError as error:
        return _unreadable(error)


def seen(path: bytes, expected: Entry) -> tuple[str, os.stat_result | None]:
    """The same of a file, with what it is where it could be read."""
    try:
        fd, status = files.open_file(path)
    except OSError as error:
        return _unreadable(error), None
    try:
        if status.st_size != expected.size or files.sha256_of(fd, status.st_size) != expected.sha256:
            return "changed", status
        return "" if stat.S_IMODE(status.st_mode) == mode_of(expected) else "mode", status
    finally:
        os.close(fd)


def _unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "missing"
    if error.errno in _SHORT:
        raise error
    return "changed"  # of another kind, or it can't be read
