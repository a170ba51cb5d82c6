"""The files of a tree as they have to lie on a host: with LFS content, by the rule for line endings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from klops.commands import git as calls
from klops.errors import TaskFailed
from klops.source import archive, endings, lfs
from klops.source.git import said
from klops.source.git.command import run
from klops.source.git.isolated import Isolated, make
from klops.source.git.repository import Repository
from klops.source.manifest.entry import EXECUTABLE, FILE, LINK, LINK_MODE, PLAIN
from klops.source.parts import Part, within

#: Characters of paths that one command line may have (Windows takes 32767 in all); above, all is archived.
_LONGEST_PATHS = 16000
_ATTRIBUTES = ".gitattributes"


@dataclass
class File:
    """A file or link of a part. ``path``: from the top of the repository that the tree is of.

    ``chunks`` is read before the next file is asked for; ``normalised`` is known after that. ``target``: of a
    link.
    """

    path: str
    kind: str
    mode: int
    chunks: Iterator[bytes]
    target: str = ""
    normalised: bool = False


@dataclass
class Found:
    """What is noted of the parts while their files are read."""

    #: files and submodules that export-ignore keeps away, files with export-subst, pointers without content
    ignored: list[str] = field(default_factory=list)
    substituted: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    lfs: int = 0
    #: submodules that are shipped: their places are
    places: set[str] = field(default_factory=set)


class Reader:
    """Reads parts, noting in ``found`` what isn't a file."""

    def __init__(self) -> None:
        self.found = Found()
        self._stores: dict[Path, tuple[Path, ...]] = {}

    def files(
        self,
        part: Part,
        below: str = "",
        wanted: Collection[str] | None = None,
        known: Collection[str] = frozenset(),
    ) -> Generator[File, None, None]:
        """The files of a part in the order of the bytes of their paths.

        ``below``: only in this folder of the part. ``wanted``: only these paths (from the tree's top), and
        nothing is noted of the others. ``known``: all but these, which are no links or submodules.
        """
        attributes = declared(part)
        substituted = [path for path, known in attributes.items() if known.get("export-subst") == "set"]
        modes = {listed.path: listed.mode for listed in part.listing}
        listed = [part.prefix + one.path for one in part.listing if within(one.path, below)]
        paths = [below] if below else []
        if wanted is not None:
            wanted = frozenset(wanted)
            paths = [path.removeprefix(part.prefix) for path in wanted]
        elif known:
            paths = [path.removeprefix(part.prefix) for path in listed if path not in known]
        seen = set()
        for member in self._members(part, paths, bool(substituted)) if paths or not known else ():
            if not within(member.path, below):
                continue
            path = part.prefix + member.path
            seen.add(path)
            if member.file is None and member.target is None:
                self.found.places.add(path)
            elif path in known or (wanted is not None and path not in wanted):
                continue
            elif member.file is not None:
                mode = EXECUTABLE if modes[member.path] & 0o100 else PLAIN
                file = File(path, FILE, mode, iter(()))
                self._fill(file, part, member, member.file, attributes.get(member.path, {}))
                yield file
            else:
                target = member.target or ""
                yield File(path, LINK, LINK_MODE, iter((said.raw(target),)), target)
        if wanted is None:
            self.found.ignored += [path for path in listed if path not in seen and path not in known]
            self.found.substituted += [
                part.prefix + path for path in substituted if part.prefix + path in seen
            ]

    def _members(self, part: Part, paths: list[str], substituted: bool) -> Iterator[archive.Member]:
        return archive.members(_archiving(part, substituted), part.treeish, _literal(paths))

    def _fill(
        self,
        file: File,
        part: Part,
        member: archive.Member,
        committed: archive.Content,
        attributes: Mapping[str, str],
    ) -> None:
        first = committed.read(archive.CHUNK)
        pointer = lfs.pointer(first)
        if pointer is not None:
            content = lfs.content(self._lfs(part), pointer)
            if content is None:
                self.found.lacking.append(file.path)
            else:
                self.found.lfs += 1
                file.chunks = _stored(content, pointer)
            return
        rest = iter(lambda: committed.read(archive.CHUNK), b"") if len(first) < member.size else iter(())
        treated = endings.treatment(member.path, attributes)
        file.chunks = _by_rule(file, treated, member.size, chain((first,), rest))

    def _lfs(self, part: Part) -> tuple[Path, ...]:
        git_dir = part.repository.git_dir
        if git_dir not in self._stores:
            self._stores[git_dir] = lfs.stores(part.repository)
        return self._stores[git_dir]


def declared(part: Part) -> dict[str, dict[str, str]]:
    """Attributes by path within the part: those of its tree, whatever else the machine has."""
    if not any(one.path.rpartition("/")[2] == _ATTRIBUTES for one in part.listing):
        return {}
    part.git.run(calls.index(part.treeish))
    paths = said.raw("".join(f"{one.path}\0" for one in part.listing))
    return said.attributes(part.git.run(calls.attributes(), paths))


def tags(repository: Repository) -> bytes:
    """All tags of a repository: what placeholders of export-subst may name beside the commit."""
    return said.packed_tags(run(calls.tags(), repository.environment()))


def _archiving(part: Part, substituted: bool) -> Isolated:
    refs = tags(part.repository) if substituted else b""
    return make(part.folder / "archived", part.repository, attributes=archive.AS_COMMITTED, packed_refs=refs)


def _literal(paths: list[str]) -> list[str]:
    """These paths as words of a command line; none when there are too many, or one can't be such."""
    plain = all(path.isprintable() for path in paths)
    return paths if plain and sum(len(path) + 3 for path in paths) < _LONGEST_PATHS else []


def _by_rule(
    file: File, treated: endings.Treatment, committed: int, chunks: Iterable[bytes]
) -> Iterator[bytes]:
    """Content of so many bytes as committed, by the rule; whether that is something else is noted."""
    size = 0
    for chunk in endings.applied(treated, committed, chunks):
        size += len(chunk)
        yield chunk
    # the rule either takes away or puts in: what has the same size is the same
    file.normalised = size != committed


def _stored(path: Path, wanted: lfs.Pointer) -> Iterator[bytes]:
    """Content from a store of LFS. Raises TaskFailed (``lfs-missing``) at its end when it isn't what it
    should be.
    """
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(archive.CHUNK):
            hashed.update(chunk)
            yield chunk
    if hashed.hexdigest() != wanted.sha256:
        hint = "git lfs fsck, then git lfs pull"
        raise TaskFailed(f"{path} of LFS is damaged", hint=hint, code="lfs-missing")
