"""The repositories that a tree is of: its own, and those of its submodules, with what their commits list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import fsdecode
from pathlib import Path

from klops.commands import git as calls
from klops.source.git import said
from klops.source.git.command import GitFailed
from klops.source.git.isolated import Isolated, make, scratch
from klops.source.git.repository import Repository

_MODULES = ".gitmodules"


@dataclass(frozen=True)
class Part:
    """What one repository has of a tree.

    ``treeish``: id of its commit, or of a snapshot's tree. ``prefix``: path of the part within the repository
    that the tree is of, ended by a slash, or "". ``git`` is called for what the commit holds. ``folder`` is
    the part's own.
    """

    repository: Repository
    treeish: str
    prefix: str
    folder: Path
    git: Isolated
    listing: tuple[said.Listed, ...]


@dataclass(frozen=True)
class Parts:
    """``all``: first the tree's own repository, then its submodules in the order of their paths.

    ``missing``: path of each submodule that can't be had -> why.
    """

    all: tuple[Part, ...]
    missing: dict[str, str] = field(default_factory=dict)


@contextmanager
def opened(repository: Repository, treeish: str, below: str = "") -> Iterator[Parts]:
    """All parts of a tree, submodules of submodules too; ``below``: only submodules in this folder."""
    with scratch() as folder:
        found = [_part(folder / "0", repository, treeish, "")]
        missing: dict[str, str] = {}
        for part in found:  # which grows meanwhile
            modules = [listed for listed in part.listing if listed.mode == said.SUBMODULE]
            modules = [listed for listed in modules if within(part.prefix + listed.path, below)]
            names = _names(part) if modules else {}
            for listed in modules:
                path = part.prefix + listed.path
                missing[path] = "not initialised"
                for place in _places(part.repository, listed.path, names.get(listed.path, "")):
                    own = folder / f"{len(found)}-{len(missing)}-{len(list(folder.iterdir()))}"
                    try:
                        found.append(_part(own, place, listed.oid, f"{path}/"))
                    except GitFailed as error:
                        missing[path] = f"its commit {listed.oid[:12]} isn't there: {error.message}"
                    else:
                        del missing[path]
                        break
        first, *others = found
        others.sort(key=lambda part: said.raw(part.prefix))
        yield Parts((first, *others), missing)


def within(path: str, below: str) -> bool:
    """Whether a path is the folder ``below``, or in it; "" is the whole."""
    return not below or path == below or path.startswith(f"{below}/")


def _part(folder: Path, repository: Repository, treeish: str, prefix: str) -> Part:
    git = make(folder / "listed", repository)
    return Part(repository, treeish, prefix, folder, git, said.listing(git.run(calls.tree(treeish))))


def _names(part: Part) -> dict[str, str]:
    """Names of submodules by path, as the part's tree has them."""
    for listed in part.listing:
        if listed.path == _MODULES and listed.mode not in (said.LINK, said.SUBMODULE):
            return said.submodule_names(part.git.run(calls.settings_of(listed.oid)))
    return {}


def _places(above: Repository, path: str, name: str) -> Iterator[Repository]:
    """Where a submodule's repository may be: with that of the tree it is in, or in the work tree itself."""
    work_tree = above.work_tree / path if above.work_tree is not None else None
    folders = []
    if name and ".." not in name.split("/"):
        folders = [above.git_dir / "modules" / name, above.common_dir / "modules" / name]
    if work_tree is not None:
        git = work_tree / ".git"
        folders.append(work_tree / _written(git).removeprefix("gitdir: ") if git.is_file() else git)
    for git_dir in dict.fromkeys(folders):
        if not (git_dir / "HEAD").is_file():
            continue
        pointed = git_dir / "commondir"
        common = git_dir / _written(pointed) if pointed.is_file() else git_dir
        # git mixes no object formats: a submodule has that of the tree it is in
        yield Repository(git_dir, common, work_tree, above.object_format, (common / "objects",))


def _written(path: Path) -> str:
    """The one line of a file of git's."""
    return fsdecode(path.read_bytes()).rstrip("\r\n")
