"""A working tree as it stands, as a tree of git's: in a folder of its own, the repository is left alone.

What ``git add`` would take is taken, by the user's configuration: ignored files aren't, line endings are made
those of a commit, filters run. The one of Git LFS puts content of changed files in its store, as ``git add``
has it do.
"""

from __future__ import annotations

import os
import shutil
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from klops.commands import git as calls
from klops.errors import TaskFailed
from klops.source.git import said
from klops.source.git.command import GitFailed, environment, run
from klops.source.git.isolated import PREFIX, quoted
from klops.source.git.repository import Repository
from klops.source.parts import within

#: Names that a message lists.
_NAMED = 10
#: Status of a git that doesn't know an option.
_NO_SUCH_OPTION = 129


@dataclass(frozen=True, eq=False)
class Snapshot:
    """``repository`` has the objects of ``tree``, as long as this lives; after that they are gone."""

    repository: Repository
    tree: str


def status(work_tree: Path, below: str) -> said.Status:
    """What of the folder ``below`` differs from HEAD; settings of git that concern it wherever they are count
    too.
    """
    found = said.status(run(calls.status(str(work_tree))))

    def concerned(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in paths if within(path, below) or _concerns_all(path))

    return said.Status(concerned(found.modified), concerned(found.untracked), concerned(found.inside))


def take(repository: Repository) -> Snapshot:
    """The working tree of a repository that has one, as it stands."""
    folder = TemporaryDirectory(prefix=PREFIX)
    try:
        objects = Path(folder.name) / "objects"
        objects.mkdir()
        index = Path(folder.name) / "index"
        real = repository.git_dir / "index"
        if real.exists():
            shutil.copy2(real, index)
        env = environment() | {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(
                os.fsdecode(quoted(one)) for one in repository.objects
            ),
        }
        try:
            run(calls.add_all(repository.folder, sparse=True), env)
        except GitFailed as error:
            if error.rc != _NO_SUCH_OPTION:
                raise
            run(calls.add_all(repository.folder, sparse=False), env)
        tree = run(calls.write_tree(repository.folder), env).decode("ascii").strip()
    except BaseException:
        folder.cleanup()
        raise
    snapshot = Snapshot(replace(repository, objects=(objects, *repository.objects)), tree)
    weakref.finalize(snapshot, folder.cleanup)
    return snapshot


def refused(repository: Repository, status: said.Status) -> TaskFailed:
    """The error of a working tree that isn't what its commit says."""
    paths = [*status.modified, *status.untracked]
    named = ", ".join(map(repr, paths[:_NAMED])) + (
        f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    )
    return TaskFailed(
        f"{repository.folder} isn't as committed: {len(status.modified)} modified, "
        f"{len(status.untracked)} untracked: {named}",
        hint="commit it, or ship it as it is with --dirty",
        code="dirty-tree",
    )


def refused_inside(status: said.Status) -> TaskFailed:
    """The error of changes within repositories that the tree only has the commits of."""
    named = ", ".join(map(repr, status.inside[:_NAMED]))
    return TaskFailed(
        f"a snapshot can't hold what isn't committed within other repositories: {named}",
        hint="commit there, or have git ignore it",
        code="dirty-submodule",
    )


def _concerns_all(path: str) -> bool:
    return path.rpartition("/")[2] in (".gitattributes", ".gitmodules")
