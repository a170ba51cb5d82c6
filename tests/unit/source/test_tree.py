"""What a look finds in a repository, and what it gives of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klops.source.cache import VARIABLE
from klops.source.endings import apply, treatment
from klops.source.manifest import FILE, LINK
from klops.source.tree import Report, Request, look
from tests.unit.source.repos import Repo, fails, init, shipped


def test_a_commit_as_a_release(repo: Repo) -> None:
    repo.write({"a/x.py": b"x = 1\r\n", "b": b""})
    (repo.folder / "run").write_bytes(b"#!/bin/sh\n")
    (repo.folder / "run").chmod(0o755)
    (repo.folder / "a/link").symlink_to("../run")
    commit = repo.commit()
    tree = repo.look()
    assert tree.release.name == f"{commit[:12]}-{tree.release.digest[:12]}"
    assert tree.release.about == {
        "commit": commit,
        "ref": "HEAD",
        "author": "Li Lei <lilei@example.com>",
        "committed": 1767294245,
        "subject": "a change",
        "dirty": False,
        "normalised": 1,
        "repo": repo.folder.name,
    }
    assert [(one.path, one.kind, one.mode, one.size) for one in tree.release.entries] == [
        ("a/link", LINK, 0o777, 6),
        ("a/x.py", FILE, 0o644, 6),
        ("b", FILE, 0o644, 0),
        ("run", FILE, 0o755, 10),
    ]
    assert shipped(tree) == {"a/link": b"../run", "a/x.py": b"x = 1\n", "b": b"", "run": b"#!/bin/sh\n"}
    assert tree.report == Report(normalised=("a/x.py",))


@pytest.mark.parametrize(
    "ref", ["main", "v1", "annotated", "HEAD~0", "HEAD^{/change}", ":/change", "COMMIT", "SHORT"]
)
def test_any_name_of_a_commit(repo: Repo, ref: str) -> None:
    commit = repo.commit({"a": b"1"})
    repo.git("tag", "v1")
    repo.git("tag", "-a", "-m", "a tag", "annotated")
    assert (
        repo.look(ref.replace("COMMIT", commit).replace("SHORT", commit[:8])).release.about["commit"]
        == commit
    )


def test_an_older_commit_whatever_the_work_tree_is(repo: Repo) -> None:
    old = repo.commit({"a": b"1"})
    repo.commit({"a": b"2"})
    repo.write({"a": b"3"})
    assert shipped(repo.look(old)) == {"a": b"1"}
    with fails("not-head"):
        repo.look(old, dirty=True)


@pytest.mark.parametrize(
    "ref", ["nope", "", "-x", "HEAD\nHEAD", "HEAD:nope", "HEAD:../a", ":a", "HEAD^{tree}", "v1^{blob}"]
)
def test_what_is_no_commit(repo: Repo, ref: str) -> None:
    repo.commit({"a": b"1"})
    with fails("no-such-ref") as failed:
        repo.look(ref)
    assert failed.value.exit_status == 1


def test_nothing_is_committed_yet(repo: Repo) -> None:
    repo.write({"a": b""})
    with fails("no-such-ref") as failed:
        repo.look()
    assert "nothing is committed" in failed.value.hint


def test_a_folder_of_a_commit(repo: Repo) -> None:
    files = {
        b".gitattributes": b"sub/away export-ignore\n*.txt -text\n",
        b"sub/.gitattributes": b"b.txt text\n",
        b"sub/a.txt": b"a\r\n",
        b"sub/b.txt": b"b\r\n",
        b"sub/away/x": b"",
        b"sub/deep/[*]": b"",
        b"subway": b"",
        b"sub.py": b"",
    }
    repo.commit_blobs({name: ("100644", content) for name, content in files.items()})
    repo = Repo(repo.bare())
    for ref in ("HEAD:sub", "HEAD:sub/", "HEAD:./sub", "main:sub//"):
        tree = repo.look(ref)
        assert shipped(tree) == {
            ".gitattributes": b"b.txt text\n",
            "a.txt": b"a\r\n",
            "b.txt": b"b\n",
            "deep/[*]": b"",
        }
        assert tree.report == Report(normalised=("b.txt",), ignored=("away/x",))
    assert shipped(repo.look("HEAD:sub/deep")) == {"[*]": b""}
    assert repo.look("HEAD:").release.digest == repo.look().release.digest
    with fails("no-such-ref") as failed:
        repo.look("HEAD:sub.py")
    assert "is a file" in failed.value.message


def test_the_order_is_that_of_bytes_with_submodules_between(repo: Repo, tmp_path: Path) -> None:
    inner = init(tmp_path / "inner")
    inner.commit({"x": b"x", "y/z": b"z"})
    repo.commit({"m!": b"1", "m-": b"2", "m.a": b"3", "m0": b"4", "n/q": b"5"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.folder), "m")
    repo.commit()
    tree = repo.look()
    paths = [entry.path for entry in tree.release.entries]
    assert paths == [".gitmodules", "m!", "m-", "m.a", "m/x", "m/y/z", "m0", "n/q"]
    assert list(shipped(tree)) == paths
    some = ["n/q", "m/y/z", "m.a"]
    assert [(entry.path, b"".join(chunks)) for entry, chunks in tree.contents(some)] == [
        ("m.a", b"3"),
        ("m/y/z", b"z"),
        ("n/q", b"5"),
    ]
    # who doesn't read one to its end gets the next all the same
    assert [entry.path for entry, _ in tree.contents(some)] == ["m.a", "m/y/z", "n/q"]
    assert list(tree.contents([])) == []
    with pytest.raises(KeyError, match="nope"):
        tree.contents(["m.a", "nope"])


def test_submodules_of_submodules_and_one_that_is_not_shipped(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow = ("-c", "protocol.file.allow=always")
    innermost = init(tmp_path / "innermost")
    innermost.commit({"deep.txt": b"deep\r\n"})
    inner = init(tmp_path / "inner")
    inner.git(*allow, "submodule", "-q", "add", "--name", "other name", str(innermost.folder), "in ner")
    inner.commit({".gitattributes": b"* text\n"})
    repo.git(*allow, "submodule", "-q", "add", str(inner.folder), "mods/one")
    repo.git(*allow, "submodule", "-q", "add", str(inner.folder), "mods/two")
    repo.commit({".gitattributes": b"mods/two export-ignore\ndeep.txt -text\n"})
    repo.git(*allow, "submodule", "-q", "update", "--init", "--recursive", "mods/one")
    tree = repo.look()
    assert (
        shipped(tree)["mods/one/in ner/deep.txt"] == b"deep\n"
    )  # by its own attributes, of which it has none
    assert tree.report.submodules == 2
    assert tree.report.ignored == ("mods/two",)
    assert not any(entry.path.startswith("mods/two") for entry in tree.release.entries)

    # in a linked work tree the folders are elsewhere
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", str(linked))
    assert look(Request(linked)).release.digest == tree.release.digest

    # and a bare repository has none: its tree is known from before, but can't be shipped
    again = look(Request(repo.bare()))
    assert again.release.digest == tree.release.digest
    with fails("submodule-missing"):
        shipped(again)
    assert next(again.contents([".gitmodules"]))[0].path == ".gitmodules"
    monkeypatch.setenv(VARIABLE, "off")
    with fails("submodule-missing") as failed:
        look(again.request)
    assert "'mods/one'" in failed.value.message
    assert "mods/two" not in failed.value.message


def test_a_submodule_whose_commit_is_not_there(repo: Repo, tmp_path: Path) -> None:
    inner = init(tmp_path / "inner")
    inner.commit({"x": b"x"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.folder), "m")
    repo.git("update-index", "--cacheinfo", f"160000,{'12' * 20},m")
    repo.git("commit", "-qm", "gone")
    repo.git("commit", "-qm", "later", "--allow-empty")
    with fails("submodule-missing") as failed:
        repo.look("HEAD~1")
    assert "121212121212" in failed.value.message


def test_placeholders_are_filled_in_and_tags_count(repo: Repo) -> None:
    text = b"$Format:%H %d %(describe)$\n"
    commit = repo.commit({".gitattributes": b"v.txt export-subst\n", "v.txt": text, "w.txt": text})
    tree = repo.look()
    assert shipped(tree)["v.txt"].startswith(commit.encode() + b"  ")
    assert shipped(tree)["w.txt"] == text
    assert tree.report.substituted == ("v.txt",)
    # names that differ from machine to machine have no say, tags do
    repo.git("branch", "another")
    repo.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert repo.look().release == tree.release
    repo.git("tag", "-a", "-m", "one", "v1")
    tagged = repo.look()
    assert shipped(tagged)["v.txt"] == f"{commit}  (tag: v1) v1\n".encode()
    # the same tree in another commit
    repo.git("commit", "-q", "--allow-empty", "-m", "another")
    other = repo.look()
    assert other.release.about["commit"] != commit
    assert shipped(other)["v.txt"].startswith(other.release.about["commit"].encode())


def test_other_attributes_that_an_archive_follows(repo: Repo) -> None:
    repo.commit(
        {
            ".gitattributes": b"i.txt ident\nu.txt working-tree-encoding=UTF-16LE\n",
            "i.txt": b"$Id$\r\n",
            "u.txt": "a\r\nb\r\n".encode("utf-16-le"),
        }
    )
    content = shipped(repo.look())
    assert content["i.txt"].startswith(b"$Id: ")
    assert content["i.txt"].endswith(b"$\n")
    assert content["u.txt"] == "a\r\nb\r\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({b"out": ("120000", b"../x")}, "out of the tree"),
        ({b"d/out": ("120000", b"a/../../../x")}, "out of the tree"),
        ({b"abs": ("120000", b"/etc/passwd")}, "absolute"),
        ({b"d/e": ("120000", b".."), b"x": ("120000", b"d/e/../..")}, "'x' links to"),
    ],
)
def test_links_out_of_the_tree(repo: Repo, files: dict[bytes, tuple[str, bytes]], named: str) -> None:
    repo.commit_blobs({b"fine": ("100644", b""), **files})
    with fails("unsafe-path") as failed:
        look(Request(repo.bare()))
    assert named in failed.value.message


@pytest.mark.parametrize("name", [b"..", b"."])
def test_entries_that_git_itself_would_not_make(repo: Repo, name: bytes) -> None:
    repo.commit({"a": b""})
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"evil").decode().strip()
    inner = repo.git(
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--stdin",
        "--literally",
        stdin=b"100644 evil\0" + bytes.fromhex(blob),
    )
    raw = b"40000 " + name + b"\0" + bytes.fromhex(inner.decode().strip())
    tree = repo.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=raw).decode().strip()
    repo.commit_tree(tree)
    bare = repo.bare()
    with fails("unsafe-path"):
        look(Request(bare))


def test_a_tree_without_files(repo: Repo) -> None:
    repo.commit()
    with fails("empty-tree"):
        repo.look()
    repo.commit({".gitattributes": b"* export-ignore\n", "a": b""})
    with fails("empty-tree"):
        repo.look()


def test_large_contents_come_in_chunks(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klops.source.archive.CHUNK", 1000)
    content = b"line\r\n" * 5000
    repo.commit({"long.py": content, "long.bin": content, "small": b"x\r\n"})
    tree = repo.look()
    assert shipped(tree) == {
        "long.py": content.replace(b"\r\n", b"\n"),
        "long.bin": content,
        "small": b"x\n",
    }
    for entry, chunks in replace(tree, held={}).contents(["long.py", "long.bin"]):
        assert max(map(len, chunks)) <= 1002, entry


def test_contents_that_are_no_longer_there(repo: Repo) -> None:
    repo.commit({"a": b"1" * 99, "b": b"2"})
    tree = repo.look()
    oid = repo.git("rev-parse", "HEAD:a").decode().strip()
    (repo.folder / ".git/objects" / oid[:2] / oid[2:]).unlink()
    # what was just read is held, and isn't read again
    assert b"".join(next(tree.contents(["a"]))[1]) == b"1" * 99
    with fails("object-missing"):
        shipped(tree)


def test_no_more_is_held_than_is_said(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klops.source.survey.HELD", 100)
    repo.commit({"a": b"a" * 60, "b": b"b" * 60, "c": b"c" * 40, "d": b"d", "e": b""})
    tree = repo.look()
    assert {path: len(content) for path, content in tree.held.items()} == {"a": 60, "c": 40, "e": 0}
    assert {path: content[:1] for path, content in shipped(tree).items()} == {
        **{path: path.encode() for path in "abcd"},
        "e": b"",
    }


def test_contents_that_are_other_ones(repo: Repo) -> None:
    repo.commit({"a": b"1"})
    tree = repo.look()
    entry = tree.release.entries[0]._replace(sha256="0" * 64)
    release = tree.release._replace(entries=(entry,))
    changed = type(tree)(tree.request, release, tree.report, tree.source)
    with fails("source-changed") as failed:
        for _, chunks in changed.contents(["a"]):
            assert b"".join(chunks) == b"1"
    assert "'a'" in failed.value.message


def test_reading_can_be_given_up(repo: Repo, temporary: Path) -> None:
    repo.commit({f"{number}": os.urandom(70_000) for number in range(20)})
    reading = replace(repo.look(), held={}).contents([f"{number}" for number in range(20)])
    next(reading)
    (left,) = temporary.iterdir()
    assert left.name.startswith("klops-source-")
    reading.close()  # type: ignore[attr-defined]
    assert list(temporary.iterdir()) == []


def test_a_look_runs_few_programs_and_again_even_fewer(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit({"a": b"1"})
    run: list[str] = []
    popen = subprocess.Popen

    def noting(argv: Any, *args: Any, **more: Any) -> Any:
        run.append(" ".join(argv))
        return popen(argv, *args, **more)

    monkeypatch.setattr(subprocess, "Popen", noting)
    first = repo.look()
    assert len(run) == 5, run
    run.clear()
    assert repo.look() == first
    assert len(run) == 3, run


#: Names of files and folders; no file is called as a folder is.
names = st.lists(st.sampled_from(["f", "é", "a b", "-x", "d.e"]), max_size=2).flatmap(
    lambda folders: st.sampled_from(["x.py", "x.sh", "x.bat", "x.model", "x", "x.sln", "x.md"]).map(
        lambda name: "/".join([*folders, name])
    )
)
contents = st.lists(st.sampled_from([b"\r\n", b"\n", b"\r", b"a", b"\0", b"bcd"]), max_size=12).map(b"".join)
lines = st.sampled_from(
    [
        "* text=auto",
        "* text=auto eol=crlf",
        "*.model text",
        "x -text",
        "*.py eol=crlf",
        "f/** binary",
        "*.sln eol=crlf",
    ]
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(names, contents, min_size=1, max_size=8), st.lists(lines, max_size=3))
def test_a_random_tree_is_the_rule_applied_to_the_commit(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], attributes: list[str]
) -> None:
    repo = init(tmp_path_factory.mktemp("random"))
    declared = "".join(f"{line}\n" for line in attributes).encode()
    wanted = {**tree, ".gitattributes": declared}
    repo.commit_blobs({name.encode(): ("100644", content) for name, content in wanted.items()})

    found = look(Request(repo.bare()))

    expected = {}
    (repo.folder / ".gitattributes").write_bytes(declared)
    for name, content in wanted.items():
        said = repo.git("check-attr", "-z", "text", "eol", "--", name).decode().split("\0")
        known = {
            key: value for key, value in zip(said[1::3], said[2::3], strict=False) if value != "unspecified"
        }
        expected[name] = apply(treatment(name, known), content)
    assert shipped(found) == expected
    assert set(found.report.normalised) == {name for name in wanted if expected[name] != wanted[name]}

    # shipping what was shipped changes nothing
    again = init(tmp_path_factory.mktemp("again"))
    again.commit_blobs({name.encode(): ("100644", content) for name, content in expected.items()})
    second = look(Request(again.bare()))
    assert second.release.digest == found.release.digest
    assert second.report.normalised == ()
