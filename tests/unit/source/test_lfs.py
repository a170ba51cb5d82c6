"""Pointers of Git LFS, and where their content is."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.source import lfs
from klops.source.git.repository import find
from tests.unit.source.repos import Repo, fails, git, pointer, shipped, store

CONTENT = b"weights" * 50
POINTER = pointer(CONTENT)
OID = POINTER.split(b"sha256:")[1][:64]


@pytest.mark.parametrize(
    "text",
    [
        POINTER,
        POINTER.rstrip(b"\n"),
        POINTER.replace(b"\n", b"\r\n"),
        POINTER.replace(b"git-lfs.github", b"hawser.github"),
        POINTER.replace(b"oid", b"ext-0-case-inverter sha256:" + b"a" * 64 + b"\noid"),
    ],
)
def test_a_pointer(text: bytes) -> None:
    assert lfs.pointer(text) == lfs.Pointer(OID.decode(), len(CONTENT))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"# a pointer:\n" + POINTER,
        POINTER + b"more\n",
        POINTER * 2,
        POINTER.replace(b"v1", b"v9"),
        POINTER.replace(b"sha256", b"md5"),
        POINTER.replace(OID, OID[:-1]),
        POINTER.replace(OID, OID.upper() if OID.upper() != OID else OID[:-1]),
        POINTER.replace(b"size ", b"size -"),
        POINTER.replace(b"\noid", b"\n\noid"),
        POINTER + b" " * 1024,
    ],
)
def test_no_pointer(text: bytes) -> None:
    assert lfs.pointer(text) is None


@pytest.mark.parametrize("where", ["default", "absolute", "relative", "borrowed"])
def test_where_the_content_is(repo: Repo, tmp_path: Path, where: str) -> None:
    repo.commit({"w.bin": POINTER})
    folder = repo.folder
    if where == "default":
        store(folder / ".git/lfs/objects", CONTENT)
    elif where == "absolute":
        repo.git("config", "--global", "lfs.storage", str(tmp_path / "shared"))
        store(tmp_path / "shared/objects", CONTENT)
    elif where == "relative":
        repo.git("config", "lfs.storage", "other")
        store(folder / ".git/other/objects", CONTENT)
    else:
        store(folder / ".git/lfs/objects", CONTENT)
        clone = tmp_path / "clone"
        git(tmp_path, "clone", "-q", "--shared", str(folder), str(clone))
        repo = Repo(clone)
    tree = repo.look()
    assert shipped(tree) == {"w.bin": CONTENT}
    assert tree.report.lfs == 1


def test_content_is_never_changed(repo: Repo) -> None:
    content = b"text\r\n" * 9
    repo.commit({"w.py": pointer(content)})
    store(repo.folder / ".git/lfs/objects", content)
    assert shipped(repo.look()) == {"w.py": content}


def test_content_that_is_gone_since_the_look(repo: Repo) -> None:
    repo.commit({"a": b"1", "w.bin": POINTER})
    path = store(repo.folder / ".git/lfs/objects", CONTENT)
    tree = repo.look()
    path.unlink()
    again = repo.look()  # from what was kept
    assert again == tree
    assert [entry.path for entry, _ in again.contents(["a"])] == ["a"]
    with fails("lfs-missing") as failed:
        shipped(again)
    assert "'w.bin'" in failed.value.message


def test_no_store_at_all(repo: Repo) -> None:
    repo.commit({"a": b""})
    assert lfs.content(lfs.stores(find(repo.folder)), lfs.Pointer("0" * 64, 1)) is None
