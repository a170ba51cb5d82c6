"""Of a tree that is nearly the one before only what changed is read, and that makes no difference."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.source import archive
from klops.source.cache import VARIABLE
from klops.source.tree import Request, Tree, look
from tests.unit.source.repos import Repo, init, pointer, shipped, store

FILES: dict[str | bytes, bytes] = {
    "a.py": b"a = 1\r\n",
    "b.bin": b"\0\r\n",
    "d/c.txt": b"c\r\n",
    "d/same.txt": b"c\r\n",
    "d/kept away": b"x",
    ".gitattributes": b"d/kept* export-ignore\nsubst.txt export-subst\n",
    "subst.txt": b"$Format:%H$\n",
}


def anew(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """The same look by somebody who has seen nothing."""
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "off")
        return look(tree.request)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The paths of each archive from now on."""
    paths: list[tuple[str, ...]] = []
    members = archive.members

    def noting(git: Any, treeish: str, wanted: Any = ()) -> Any:
        paths.append(tuple(wanted))
        return members(git, treeish, wanted)

    monkeypatch.setattr(archive, "members", noting)
    return paths


def test_only_what_changed_is_read(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(FILES)
    first = repo.look()
    paths = asked(monkeypatch)
    repo.write({"a.py": b"a = 2\r\n", "d/new.txt": b"new\r\n", "d/kept here": b"y"})
    (repo.folder / "d/same.txt").unlink()
    (repo.folder / "b.bin").chmod(0o755)
    (repo.folder / "link").symlink_to("a.py")
    repo.commit()
    tree = repo.look()
    # placeholders are of the commit, and links are looked at anew
    assert [sorted(one) for one in paths] == [["a.py", "d/kept here", "d/new.txt", "link", "subst.txt"]]
    assert sorted(tree.held) == ["a.py", "d/new.txt", "link", "subst.txt"]
    again = anew(tree, monkeypatch)
    assert (tree, tree.report) == (again, again.report)
    assert (tree.report.normalised, tree.report.ignored) == (
        ("a.py", "d/c.txt", "d/new.txt"),
        ("d/kept away", "d/kept here"),
    )
    assert {one.path for one in tree.release.entries} ^ {one.path for one in first.release.entries} == {
        "d/new.txt",
        "d/same.txt",
        "link",
    }
    assert shipped(tree) == shipped(again)


def test_where_only_something_is_gone_nothing_is_read(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit({"a.py": b"a\r\n", "b.py": b"b"})
    repo.look()
    (repo.folder / "b.py").unlink()
    repo.commit()
    paths = asked(monkeypatch)
    tree = repo.look()
    assert (paths, tree.report.normalised) == ([], ("a.py",))
    assert tree == anew(tree, monkeypatch)


@pytest.mark.parametrize(
    "change",
    [
        {".gitattributes": b"a.py -text\n"},
        {"d/.gitattributes": b"*.txt -text\n"},
        {"d/.gitattributes": b"* export-ignore\n"},
        {"w.bin": pointer(b"w" * 99)},
    ],
    ids=str,
)
def test_other_attributes_are_another_tree(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, change: Mapping[str | bytes, bytes]
) -> None:
    store(repo.folder / ".git/lfs/objects", b"w" * 99)
    repo.commit(FILES)
    repo.look()
    commits: list[Mapping[str | bytes, bytes]] = [change, {"more": b"1\r\n"}, {"more": b"2\r\n"}]
    for files in commits:
        repo.commit(files)
        tree = repo.look()
        again = anew(tree, monkeypatch)
        assert (tree, tree.report) == (again, again.report)
        assert shipped(tree) == shipped(again)


def test_another_repository_is_not_taken_for_it(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(FILES)
    repo.look()
    other = init(tmp_path / "other")
    other.commit({"a.py": b"another\r\n"})
    other.look()
    repo.commit({"a.py": b"a = 3\n"})
    paths = asked(monkeypatch)
    assert shipped(replace(repo.look(), held={}))["a.py"] == b"a = 3\n"
    assert len(paths[0]) == 2
    # neither is a folder of it
    tree = look(Request(repo.folder, "HEAD:d"))
    assert tree == anew(tree, monkeypatch)
    repo.commit({"d/c.txt": b"d\r\n"})
    tree = look(Request(repo.folder, "HEAD:d"))
    assert paths[-1] == ("d/c.txt",)
    assert tree == anew(tree, monkeypatch)


_PATHS = st.sampled_from(
    ["a", "b.py", "d/a", "d/b.bat", "e/f/g", "x y", "模", "d/.gitattributes", ".gitattributes"]
)
_ATTRIBUTES = st.lists(
    st.sampled_from(
        [
            "* text=auto",
            "*.py -text",
            "d export-ignore",
            "a export-subst",
            "*.bat eol=crlf",
            "e/** binary",
            "",
        ]
    ),
    max_size=3,
).map(lambda lines: "\n".join([*lines, ""]).encode())
_CONTENTS = st.sampled_from([b"", b"1\r\n", b"2\n", b"\0\r\n", b"$Format:%H$\r\n", b"-> link"])


@settings(max_examples=15, deadline=None)
@given(
    commits=st.lists(
        st.tuples(st.dictionaries(_PATHS, _CONTENTS, max_size=5), _ATTRIBUTES, st.booleans()), max_size=4
    )
)
def test_no_commit_shows_what_was_there_before(
    commits: list[tuple[dict[str, bytes], bytes, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    repo = init(folder / "repo")
    files: dict[str, bytes] = {"always": b"here\r\n"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder / "kept"))
        for changed, attributes, executable in commits:
            files |= {
                path: attributes if path.endswith("attributes") else one for path, one in changed.items()
            }
            blobs = {
                os.fsencode(path): _mode(path, content, executable and path in changed)
                for path, content in files.items()
            }
            repo.commit_blobs(blobs)
            tree = look(Request(repo.bare()))
            again = anew(tree, patch)
            assert (tree.release, tree.report) == (again.release, again.report)
            assert shipped(tree) == shipped(again)
            # the next one stands at the same place
            shutil.rmtree(tree.request.repo)


def _mode(path: str, content: bytes, executable: bool) -> tuple[str, bytes]:
    if content == b"-> link":
        return ("120000", b"always")
    return ("100755" if executable else "100644", content)
