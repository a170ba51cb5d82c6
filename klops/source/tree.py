"""The tree that a ref of a local repository stands for: :func:`look`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from klops.errors import TaskFailed
from klops.source import cache as kept
from klops.source import snapshot
from klops.source.files import File, Reader
from klops.source.git import said
from klops.source.git.repository import Repository, commits, find, split
from klops.source.manifest import Entry, Release, digest
from klops.source.manifest.release import named
from klops.source.parts import opened
from klops.source.survey import Source, Survey, check_whole, survey


@dataclass(frozen=True)
class Request:
    """What is wanted: equal requests get equal trees within one run.

    ``repo``: folder of a work tree's top, or a bare repository. ``ref``: ``REV`` or ``REV:PATH`` (that folder
    alone, with the attributes of the whole). ``dirty``: ship the working tree as it is when it differs from
    REV.
    """

    repo: Path
    ref: str = "HEAD"
    dirty: bool = False


@dataclass(frozen=True)
class Report:
    """What was done to a tree; paths as in its entries, in their order.

    ``normalised``: files whose line endings are other than the commit's. ``ignored``: files and submodules
    that export-ignore keeps away. ``substituted``: files with export-subst (filled in, but in a snapshot).
    ``lfs``: how many pointers were replaced by content. ``submodules``: how many were taken in. ``modified``
    and ``untracked``: how many paths of the working tree that is shipped differ from the commit.
    ``endings_only``: how many differ from it in nothing that a host would see: then it is the commit that is
    shipped.
    """

    normalised: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    substituted: tuple[str, ...] = ()
    lfs: int = 0
    submodules: int = 0
    endings_only: int = 0
    modified: int = 0
    untracked: int = 0


@dataclass(frozen=True)
class Tree:
    """A tree as it has to lie on a host: ``release.entries``, ordered by the bytes of their paths."""

    request: Request
    release: Release
    report: Report
    source: Source = field(compare=False, repr=False)
    #: contents that are known from the look, by path
    held: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    def contents(self, paths: Collection[str]) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        """The bytes of these entries, in the order of ``release.entries``, in chunks; of a link what it
        points to.

        Each is read before the next is asked for. They are hashed while read: TaskFailed (``source-changed``)
        when they aren't those of the entry, and as :func:`look` when they can't be had any more. KeyError for
        a path that no entry has.
        """
        asked = frozenset(paths)
        wanted = [entry for entry in self.release.entries if entry.path in asked]
        unknown = asked - {entry.path for entry in wanted}
        if unknown:
            raise KeyError(min(unknown))
        return self._contents(wanted)

    def _contents(self, wanted: list[Entry]) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        with closing(self._read([entry for entry in wanted if entry.path not in self.held])) as others:
            for entry in wanted:
                if entry.path in self.held:
                    yield entry, iter((self.held[entry.path],))
                else:
                    yield next(others)

    def _read(self, wanted: list[Entry]) -> Generator[tuple[Entry, Iterator[bytes]], None, None]:
        source, reader = self.source, Reader()
        with ExitStack() as stack:
            opened_ = stack.enter_context(opened(source.repository, source.treeish, source.below))
            parts, missing = opened_.all, opened_.missing
            owners: dict[str, list[str]] = {}
            for entry in wanted:
                full = source.full(entry.path)
                # they may be gone since the tree was looked at
                reader.found.places |= {path for path in missing if full.startswith(f"{path}/")}
                owner = max((part.prefix for part in parts if full.startswith(part.prefix)), key=len)
                owners.setdefault(owner, []).append(full)
            check_whole(source, missing, reader.found)
            streams = {
                part.prefix: stack.enter_context(closing(reader.files(part, wanted=owners[part.prefix])))
                for part in parts
                if part.prefix in owners
            }
            whose = {path: streams[owner] for owner, paths in owners.items() for path in paths}
            for entry in wanted:
                path = source.full(entry.path)
                file = next(whose[path], None)
                check_whole(source, missing, reader.found)
                chunks = _checked(entry, path, file)
                yield entry, chunks
                for _ in chunks:
                    pass


def look(request: Request) -> Tree:
    """Find out what a host has to get. Reads only: the repository and its configuration stay as they are.

    Raises TaskFailed with the codes ``git-missing``, ``git-failed``, ``not-a-repository``,
    ``dubious-ownership``, ``no-such-ref``, ``ambiguous-ref``, ``dirty-tree``, ``dirty-submodule``,
    ``not-head``, ``object-missing``, ``lfs-missing``, ``submodule-missing``, ``unsafe-path``, ``empty-tree``.
    """
    repository = find(request.repo)
    rev, below = split(request.ref)
    commit, head = commits(repository, rev)
    status = said.Status()
    if repository.work_tree is not None and head == commit:
        status = snapshot.status(repository.work_tree, below)
    elif request.dirty:
        raise TaskFailed(
            f"{request.ref} isn't what the working tree of {repository.folder} stands at",
            hint="--dirty ships the working tree: check that revision out, or leave --dirty",
            code="not-head",
        )
    if (status.untracked or status.inside) and not request.dirty:
        raise snapshot.refused(repository, status)
    cache = kept.of_user()
    source = Source(repository, commit.tree, commit.oid, below)
    changed = _changed(cache, source, status, request) if status else None
    if changed is None:
        found = survey(cache, source)
        report = Report(**found.noted, endings_only=len(status.modified))
    else:
        source, found = changed
        report = Report(**found.noted, modified=len(status.modified), untracked=len(status.untracked))
    if not found.entries:
        raise TaskFailed("the tree holds no file", hint="see ref, and export-ignore", code="empty-tree")
    release = _release(request, repository, commit, source, found)
    return Tree(request, release, report, source, found.contents)


def _changed(
    cache: kept.Cache, committed: Source, status: said.Status, request: Request
) -> tuple[Source, Survey] | None:
    """A snapshot of the working tree; None when a host would get the same as from the commit.

    Raises TaskFailed (``dirty-tree``) when it isn't asked for.
    """
    if status.inside:
        raise snapshot.refused_inside(status)
    try:
        taken = snapshot.take(committed.repository)
        source = Source(taken.repository, taken.tree, "", committed.below, alive=taken)
        found = survey(cache, source)
    except TaskFailed as error:
        if request.dirty:
            raise
        # why a changed tree can't be shipped is no matter where it isn't to be
        raise snapshot.refused(committed.repository, status) from error
    if _as_committed(cache, committed, found):
        return None
    if not request.dirty:
        raise snapshot.refused(committed.repository, status)
    return source, found


def _as_committed(cache: kept.Cache, committed: Source, found: Survey) -> bool:
    """Whether a snapshot's files are those of the commit."""
    try:
        same = survey(cache, committed)
        if same.substituted:
            # no placeholder is filled in in a snapshot: it is compared with a commit in which none is, either
            same = survey(cache, replace(committed, commit=""))
    except TaskFailed:
        # it can't be shipped, and the snapshot can: they are not the same
        return False
    return found.entries == same.entries


def _release(
    request: Request, repository: Repository, commit: said.Commit, source: Source, found: Survey
) -> Release:
    dirty = not source.commit
    summed = digest(found.entries)
    about = {
        "commit": commit.oid,
        "ref": request.ref,
        "author": commit.author,
        "committed": commit.committed,
        "subject": commit.subject,
        "dirty": dirty,
        "normalised": len(found.normalised),
        # without the folders above it: anybody on the host may read it
        "repo": Path(repository.folder).name,
    }
    return Release(named(commit.oid, summed, dirty), summed, about, found.entries)


def _checked(entry: Entry, path: str, file: File | None) -> Iterator[bytes]:
    hashed = hashlib.sha256()
    if file is not None and file.path == path:
        for chunk in file.chunks:
            hashed.update(chunk)
            yield chunk
    if hashed.hexdigest() != entry.sha256 or file is None:
        raise TaskFailed(
            f"{entry.path!r} is no longer what it was when the tree was looked at",
            hint="run it again",
            code="source-changed",
        )
