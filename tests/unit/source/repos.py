"""Real repositories to look at, and what a look finds in them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from klops.errors import TaskFailed
from klops.source.tree import Request, Tree, look

WHEN = "2026-01-02T03:04:05+08:00"


def git(folder: Path, *argv: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """Git in a folder; an error shows what it said."""
    done = subprocess.run(
        ["git", "-C", folder, *argv],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, (argv, done.stderr.decode("utf-8", "replace"))
    return done.stdout


@dataclass
class Repo:
    """A repository with a work tree."""

    folder: Path

    def git(self, *argv: str | bytes, stdin: bytes = b"") -> bytes:
        """As :func:`git`, here."""
        return git(self.folder, *argv, stdin=stdin)

    def write(self, files: Mapping[str | bytes, bytes]) -> None:
        """Into the work tree."""
        for name, content in files.items():
            path = self.folder / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def commit(self, files: Mapping[str | bytes, bytes] | None = None) -> str:
        """Write the files and commit all, converting nothing. Gives the commit's id."""
        self.write(files or {})
        self.git("-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a change")
        return self.git("rev-parse", "HEAD").decode().strip()

    def commit_blobs(self, files: Mapping[bytes, tuple[str, bytes]]) -> str:
        """A commit of exactly these (mode, content), whatever git would make of files."""
        lines = []
        for path, (mode, content) in files.items():
            oid = (
                content
                if mode == "160000"
                else self.git("hash-object", "-w", "--stdin", stdin=content).strip()
            )
            lines.append(mode.encode() + b" " + oid + b"\t" + path + b"\0")
        self.git("read-tree", "--empty")
        self.git("update-index", "-z", "--index-info", stdin=b"".join(lines))
        tree = self.git("write-tree").decode().strip()
        return self.commit_tree(tree)

    def commit_tree(self, tree: str) -> str:
        """A commit of a tree, which becomes that of HEAD; the work tree is left as it is."""
        oid = self.git("commit-tree", tree, "-m", "made").decode().strip()
        self.git("update-ref", "HEAD", oid)
        return oid

    def checkout(self) -> None:
        """The work tree anew, by the configuration."""
        self.git("rm", "-q", "-r", "--cached", "--ignore-unmatch", ".")
        self.git("reset", "-q", "--hard")

    def bare(self) -> Path:
        """A new bare clone: there is no work tree that could differ."""
        bare = self.folder.with_name(f"{self.folder.name}.git")
        git(self.folder, "clone", "-q", "--bare", str(self.folder), str(bare))
        return bare

    def look(self, ref: str = "HEAD", *, dirty: bool = False) -> Tree:
        """What a host would get."""
        return look(Request(self.folder, ref, dirty))


def init(folder: Path, *options: str) -> Repo:
    """A new repository."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    return Repo(folder)


def shipped(tree: Tree) -> dict[str, bytes]:
    """All contents, each what its entry says, whether they are held or have to be read again."""
    read = _shipped(replace(tree, held={}))
    assert _shipped(tree) == read
    return read


def _shipped(tree: Tree) -> dict[str, bytes]:
    found = {}
    for entry, chunks in tree.contents([entry.path for entry in tree.release.entries]):
        content = b"".join(chunks)
        assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.size, entry.sha256)
        found[entry.path] = content
    assert list(found) == [entry.path for entry in tree.release.entries]
    return found


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file below a folder: to see that nothing was changed there."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


@contextmanager
def fails(code: str) -> Iterator[pytest.ExceptionInfo[TaskFailed]]:
    """The block fails with this code, and says what to do."""
    with pytest.raises(TaskFailed) as failed:
        yield failed
    assert failed.value.code == code, failed.value
    assert failed.value.hint


def pointer(content: bytes) -> bytes:
    """What Git LFS has in place of a content."""
    oid = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n".encode()


def store(folder: Path, content: bytes) -> Path:
    """Put a content into a store of Git LFS (``folder``: its ``objects``)."""
    oid = hashlib.sha256(content).hexdigest()
    path = folder / oid[:2] / oid[2:4] / oid
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
