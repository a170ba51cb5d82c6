"""A repository of the user: where its parts are, what a revision stands for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from klops.commands import git as calls
from klops.errors import TaskFailed
from klops.source.git import said
from klops.source.git.command import environment, run
from klops.source.here import looking_at

#: What a name alone may stand for. Git takes the first, with a warning.
_KINDS = ("refs/tags/", "refs/heads/")
#: Where the name ends in a revision.
_REF = re.compile(r"[~^]|@\{")


@dataclass(frozen=True)
class Repository:
    """``common_dir`` is another than ``git_dir`` in a linked work tree; ``work_tree`` None for a bare one.

    ``objects``: the folders that its objects are in. ``object_format``: sha1 or sha256.
    """

    git_dir: Path
    common_dir: Path
    work_tree: Path | None
    object_format: str
    objects: tuple[Path, ...]

    @property
    def folder(self) -> str:
        """Where git is called for it."""
        return str(self.work_tree or self.git_dir)

    def environment(self) -> dict[str, str]:
        """For a git that reads its refs and configuration, whether a work tree is there or not."""
        return environment() | {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.git_dir)}

    def asked(self, *names: str) -> list[tuple[str, str, bytes] | None]:
        """Id, type and content of objects; None for a name that stands for none."""
        stdin = said.raw("".join(f"{name}\n" for name in names))
        return list(said.objects(run(calls.objects(self.folder), stdin=stdin)))


def find(folder: Path) -> Repository:
    """The repository whose work tree has its top in ``folder`` (``~`` is the user's home), or that is it (a
    bare one).

    Raises TaskFailed: ``not-a-repository``, ``dubious-ownership``.
    """
    with looking_at(folder, "not-a-repository"):
        folder = folder.expanduser()
        there = folder.is_dir()
    if not there:
        raise TaskFailed(
            f"{folder} is no folder of this machine",
            hint="source.repo names the top folder of a clone; ~ and a path from where klops runs are fine",
            code="not-a-repository",
        )
    *lines, _ = run(calls.where(str(folder))).split(b"\n")
    if len(lines) != 6:
        hint = "move the repository"
        raise TaskFailed(f"a path of {folder} has a line break", hint=hint, code="not-a-repository")
    bare, inside = lines[0] == b"true", lines[1] == b"true"
    git_dir, common_dir = (folder / os.fsdecode(line) for line in lines[2:4])
    below = os.fsdecode(lines[5]).rstrip("/")
    if below:
        raise TaskFailed(
            f"{folder} is a folder within a repository, not its top",
            hint=f"name the repository, and the folder in the ref: HEAD:{below}",
            code="not-a-repository",
        )
    if not bare and not inside:
        hint = "name the folder that holds the work tree"
        raise TaskFailed(f"{folder} is git's own folder of a repository", hint=hint, code="not-a-repository")
    return Repository(
        git_dir=git_dir,
        common_dir=common_dir,
        work_tree=None if bare else folder,
        object_format=lines[4].decode("ascii"),
        objects=(common_dir / "objects",),
    )


def split(ref: str) -> tuple[str, str]:
    """``REV:PATH`` as (REV, PATH), PATH without slashes at its ends; a colon within braces is of REV.

    Raises TaskFailed (``no-such-ref``) for what can't be one.
    """
    if not ref or ref.startswith("-") or any(char in ref for char in "\0\n"):
        raise TaskFailed(
            f"{ref!r} is no revision", hint="such as HEAD, a branch, a tag or a commit", code="no-such-ref"
        )
    if ref.startswith(":/"):
        return ref, ""
    depth = 0
    for at, char in enumerate(ref):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == ":" and not depth:
            parts = [part for part in ref[at + 1 :].split("/") if part not in ("", ".")]
            if not at or ".." in parts:
                hint = "REV:PATH, PATH from the repository's top"
                raise TaskFailed(f"{ref!r} is no folder of a revision", hint=hint, code="no-such-ref")
            return ref[:at], "/".join(parts)
    return ref, ""


def commits(repository: Repository, rev: str) -> tuple[said.Commit, said.Commit | None]:
    """The commit that ``rev`` stands for, and that of HEAD (None where there is none yet).

    Raises TaskFailed: ``no-such-ref``, ``ambiguous-ref``.
    """
    wanted = rev if rev.startswith(":/") else f"{rev}^{{commit}}"
    names = [f"{kind}{_REF.split(rev, maxsplit=1)[0]}" for kind in _KINDS]
    asked = (wanted, "HEAD^{commit}", *(f"{name}^{{commit}}" for name in names))
    found, head, *refs = (
        said.commit(one[0], one[2]) if one is not None and one[1] == "commit" else None
        for one in repository.asked(*asked)
    )
    if all(refs) and len(set(refs)) > 1:
        listed = " and ".join(
            f"{name} ({one.oid[:12]})" for name, one in zip(names, refs, strict=True) if one
        )
        raise TaskFailed(
            f"{rev!r} is ambiguous in {repository.folder}: {listed}",
            hint=f"write the one that is meant: {' or '.join(names)}",
            code="ambiguous-ref",
        )
    if found is None:
        where = f"{repository.folder} has no commit {rev!r}"
        if rev == "HEAD":
            raise TaskFailed(where, hint="nothing is committed there yet", code="no-such-ref")
        raise TaskFailed(
            where,
            hint="git fetch, and see that the name is right; a short id has to stand for one commit",
            code="no-such-ref",
        )
    return found, head
