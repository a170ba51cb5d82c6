"""What a tree of git's consists of once it lies on a host: known from earlier, or found by reading it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from klops.errors import TaskFailed
from klops.source import cache as kept
from klops.source import unchanged
from klops.source.files import Found, Reader, tags
from klops.source.git import said
from klops.source.git.repository import Repository
from klops.source.manifest import FILE, LINK, Entry, Release, digest
from klops.source.manifest.paths import link_problems, problems
from klops.source.manifest.release import named, ordered
from klops.source.parts import Part, Parts, opened, within

#: Paths that a message lists.
_NAMED = 20
#: Bytes of contents that are held: what has just been read for a look needn't be read again to be sent.
HELD = 64 << 20


@dataclass(frozen=True)
class Source:
    """``tree``: id of the tree; ``commit``: of the commit, "" for a snapshot. ``below``: that folder of it
    alone.

    ``alive``: what its objects go with.
    """

    repository: Repository
    tree: str
    commit: str = ""
    below: str = ""
    alive: object = field(default=None, compare=False, repr=False)

    @property
    def treeish(self) -> str:
        """What is archived: with a commit its placeholders are filled in."""
        return self.commit or self.tree

    def full(self, path: str) -> str:
        """The path within the repository of an entry's."""
        return f"{self.below}/{path}" if self.below else path


@dataclass(frozen=True)
class Survey:
    """``entries`` in their order, and of the fields of a report those that are known from the tree alone."""

    entries: tuple[Entry, ...]
    normalised: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    substituted: tuple[str, ...] = ()
    lfs: int = 0
    submodules: int = 0

    #: contents that were read meanwhile, by path: as many as :data:`HELD` bytes
    contents: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def noted(self) -> dict[str, Any]:
        """What it has beside entries and contents, by name."""
        return {name: getattr(self, name) for name in _NOTED}


_NOTED = tuple(one.name for one in fields(Survey) if one.name not in ("entries", "contents"))


def survey(cache: kept.Cache, source: Source) -> Survey:
    """Find out, by the cache where it knows. Raises TaskFailed, see :func:`klops.source.tree.look`."""
    key = kept.key(source.tree, source.below, expanded=bool(source.commit))
    known = cache.get(key)
    if known is not None and _still(known.about["depends"], source):
        return _surveyed(known)
    place = kept.place(str(source.repository.git_dir), source.below, expanded=bool(source.commit))
    with opened(source.repository, source.treeish, source.below) as parts:
        before = cache.last(place) if unchanged.may(parts) else None
        same = unchanged.of(source, parts, before) if before is not None else unchanged.NOTHING
        found, substituting = _read(source, parts, same)
        objects = unchanged.objects(source, parts, found.entries)
    depends = _depends(source, substituting) if source.commit and found.substituted else None
    summed = digest(found.entries)
    about = {"noted": found.noted, "depends": depends, "place": place, **objects}
    cache.put(key, Release(named(source.tree, summed), summed, about, found.entries))
    return found


def _surveyed(known: Release) -> Survey:
    noted: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in known.about["noted"].items()
    }
    return Survey(known.entries, **noted)


def _read(source: Source, parts: Parts, same: unchanged.Unchanged) -> tuple[Survey, list[Repository]]:
    """All that isn't known to be the ``same``, and the repositories of the parts with placeholders."""
    reader = Reader()
    found = reader.found
    entries = list(same.entries)
    normalised = list(same.normalised)
    targets: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    substituting: list[Repository] = []
    submodules = held = 0
    strip = len(source.full(""))
    for part in parts.all:
        below = "" if part.prefix else source.below
        if not part.prefix:
            _check(part, source)
        elif part.prefix[:-1] in found.places:
            _safe(part, "")
            submodules += 1
        else:
            continue
        before = len(found.substituted)
        for file in reader.files(part, below, known=same.known):
            path = file.path[strip:]
            hashed, size, chunks = hashlib.sha256(), 0, list[bytes]()
            for chunk in file.chunks:
                hashed.update(chunk)
                size += len(chunk)
                if held + size <= HELD:
                    chunks.append(chunk)
            if held + size <= HELD:
                contents[path] = b"".join(chunks)
                held += size
            entries.append(Entry(path, file.kind, file.mode, size, hashed.hexdigest()))
            if file.normalised:
                normalised.append(path)
            if file.kind == LINK:
                targets[path] = file.target
        if len(found.substituted) > before:
            substituting.append(part.repository)
    check_whole(source, parts.missing, found)
    _raise_unsafe(link_problems(targets))
    return Survey(
        entries=tuple(ordered(entries)),
        normalised=_in_order(normalised),
        ignored=_in_order([*same.ignored, *(path[strip:] for path in found.ignored)]),
        substituted=_in_order(path[strip:] for path in found.substituted),
        lfs=found.lfs,
        submodules=submodules,
        contents=contents,
    ), substituting


def _check(part: Part, source: Source) -> None:
    """That the folder which is wanted is one, and that git won't be asked to write beside the tree."""
    below = source.below
    if below and not any(within(one.path, below) for one in part.listing):
        raise TaskFailed(f"the commit has no folder {below!r}", hint="see git ls-tree -r", code="no-such-ref")
    if any(one.path == below and one.mode != said.SUBMODULE for one in part.listing):
        raise TaskFailed(
            f"{below!r} is a file, not a folder", hint="name the folder it is in", code="no-such-ref"
        )
    _safe(part, below)


def _safe(part: Part, below: str) -> None:
    listed = (one for one in part.listing if within(one.path, below))
    kinds = {said.LINK: LINK, said.SUBMODULE: FILE}
    _raise_unsafe(
        problems(Entry(part.prefix + one.path, kinds.get(one.mode, FILE), 0, 0, "") for one in listed)
    )


def _raise_unsafe(found: list[str]) -> None:
    if found:
        raise TaskFailed(
            f"{len(found)} paths can't be put on a host: {_some(found)}",
            hint="export-ignore in .gitattributes keeps files away from a host",
            code="unsafe-path",
        )


def check_whole(source: Source, missing: Mapping[str, str], found: Found) -> None:
    """That nothing is lacking. Raises TaskFailed: ``lfs-missing``, ``submodule-missing``."""
    lacking = sorted(found.lacking)
    gone = sorted(path for path in missing if path in found.places)
    said_of, hints = [], []
    if lacking:
        said_of.append(f"{len(lacking)} LFS pointers without their content: {_some(map(repr, lacking))}")
        hints.append("git lfs pull, or export-ignore in .gitattributes for what no host needs")
    if gone:
        reasons = (f"{path!r} ({missing[path]})" for path in gone)
        said_of.append(f"{len(gone)} submodules that can't be had: {_some(reasons)}")
        hints.append("git submodule update --init --recursive")
    if said_of:
        raise TaskFailed(
            f"{source.repository.folder} lacks {'; '.join(said_of)}",
            hint=f"in that folder: {'; '.join(hints)}",
            code="lfs-missing" if lacking else "submodule-missing",
        )


def _depends(source: Source, repositories: Iterable[Repository]) -> dict[str, Any]:
    """What placeholders of export-subst may name beside the tree."""
    known = {str(one.git_dir): hashlib.sha256(tags(one)).hexdigest() for one in repositories}
    return {"commit": source.commit, "tags": known}


def _still(depends: Mapping[str, Any] | None, source: Source) -> bool:
    """Whether that is what it was."""
    if depends is None:
        return True
    repositories = []
    for name in depends["tags"]:
        git_dir = Path(name)
        if not git_dir.is_dir():
            return False
        repositories.append(Repository(git_dir, git_dir, None, source.repository.object_format, ()))
    return _depends(source, repositories) == depends


def _some(paths: Iterable[str]) -> str:
    named_ = list(paths)
    return ", ".join(named_[:_NAMED]) + (f" and {len(named_) - _NAMED} more" if len(named_) > _NAMED else "")


def _in_order(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: said.raw(path)))
