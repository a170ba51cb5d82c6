"""Repositories of all forms, and what can be wrong with one."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from klops.source.git.isolated import ABANDONED, make, quoted
from klops.source.git.repository import find, split
from klops.source.git.said import commit, objects, status, submodule_names
from klops.source.tree import Request, look
from tests.unit.source.repos import Repo, everything, fails, git, init, shipped

FILES: dict[str | bytes, bytes] = {"a.py": b"a\r\n", "sub/b": b"b\n"}


@pytest.mark.parametrize("form", ["bare", "worktree", "shared", "shallow", "odd name", "separate"])
def test_every_form_gives_the_same(repo: Repo, tmp_path: Path, form: str) -> None:
    repo.commit(FILES)
    repo.commit({"c": b""})
    source, to = str(repo.folder), tmp_path / ('"odd: # 名' if form == "odd name" else "to")
    if form == "worktree":
        repo.git("worktree", "add", "-q", str(to))
    else:
        option = {
            "bare": ["--bare"],
            "shared": ["--shared"],
            "shallow": ["--depth=1"],
            "separate": [f"--separate-git-dir={tmp_path / 'elsewhere'}"],
        }.get(form, [])
        git(tmp_path, "clone", "-q", *option, f"file://{source}" if form == "shallow" else source, str(to))
    before = everything(to)
    tree = look(Request(to))
    assert everything(to) == before
    assert tree.release.digest == repo.look().release.digest
    assert shipped(tree)["a.py"] == b"a\n"
    if form != "bare":
        (to / "new").write_bytes(b"new")
        assert shipped(look(Request(to, dirty=True)))["new"] == b"new"


def test_the_other_object_format(tmp_path: Path, repo: Repo) -> None:
    long = init(tmp_path / "long", "--object-format=sha256")
    long.commit(FILES)
    repo.commit(FILES)
    tree = long.look()
    assert len(tree.release.about["commit"]) == 64
    assert tree.release.digest == repo.look().release.digest
    long.write({"new": b"new"})
    assert shipped(long.look(dirty=True))["new"] == b"new"


def test_placeholders_where_the_history_is_cut(repo: Repo, tmp_path: Path) -> None:
    for number in range(4):
        repo.commit(
            {".gitattributes": b"v export-subst\n", "v": b"$Format:%(describe)|%h$", "n": b"%d" % number}
        )
    repo.git("tag", "-a", "v1", "-m", "one", "HEAD~1")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{repo.folder}", str(clone))
    assert shipped(look(Request(clone)))["v"] == shipped(repo.look())["v"]


def test_a_partial_clone_says_what_it_lacks(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit(FILES)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{repo.folder}", str(clone))
    repo.folder.rename(tmp_path / "away")
    with fails("object-missing") as failed:
        look(Request(clone))
    assert "git fetch" in failed.value.hint


def test_no_repository(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(FILES)
    with fails("not-a-repository") as failed:
        look(Request(tmp_path / "nope"))
    assert "is no folder" in failed.value.message
    with fails("not-a-repository"):
        look(Request(tmp_path))
    with fails("not-a-repository") as failed:
        look(Request(repo.folder / "sub"))
    assert failed.value.hint.endswith("HEAD:sub")
    with fails("not-a-repository"):
        look(Request(repo.folder / ".git"))
    monkeypatch.chdir(repo.folder)
    assert "a.py" in shipped(look(Request(Path())))
    line_break = init(tmp_path / "a\nb")
    line_break.commit(FILES)
    with fails("not-a-repository") as failed:
        line_break.look()
    assert "line break" in failed.value.message
    monkeypatch.setenv("PATH", str(tmp_path))
    with fails("git-missing"):
        repo.look()


def test_the_home_is_expanded(repo: Repo, home: Path) -> None:
    repo.commit(FILES)
    shutil.move(repo.folder, home / "clone")
    assert "a.py" in shipped(look(Request(Path("~/clone"))))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user(repo: Repo) -> None:
    repo.commit(FILES)
    for path in (repo.folder, repo.folder / ".git"):
        os.chown(path, 12345, 12345)
    with fails("dubious-ownership") as failed:
        repo.look()
    assert failed.value.hint.endswith(f"git config --global --add safe.directory {repo.folder}")
    repo.git("config", "--global", "--add", "safe.directory", str(repo.folder))
    assert "a.py" in shipped(repo.look())


def test_a_bare_one_where_git_takes_none_that_is_not_named(repo: Repo, home: Path) -> None:
    repo.commit(FILES)
    bare = repo.bare()
    (home / ".gitconfig").write_text("[safe]\nbareRepository = explicit\n")
    assert shipped(look(Request(bare)))["a.py"] == b"a\n"


def test_replaced_objects_and_filters_have_no_say(repo: Repo, home: Path) -> None:
    first = repo.commit({".gitattributes": b"* filter=up\n", "a": b"a\n"})
    second = repo.commit({"a": b"b\n"})
    repo.git("replace", second, first)
    bare = repo.bare()
    (home / ".gitconfig").write_text('[filter "up"]\nsmudge = tr a-z A-Z\nrequired = true\n')
    assert shipped(look(Request(bare)))["a"] == b"b\n"
    assert shipped(look(Request(repo.folder, first)))["a"] == b"a\n"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("HEAD", ("HEAD", "")),
        ("HEAD:", ("HEAD", "")),
        ("HEAD:a/b/", ("HEAD", "a/b")),
        ("HEAD:a:b", ("HEAD", "a:b")),
        ("v1^{/fix: it}", ("v1^{/fix: it}", "")),
        ("v1^{/fix: it}:a", ("v1^{/fix: it}", "a")),
        (":/fix: it", (":/fix: it", "")),
        ("@{2026-01-01 10:00}:a", ("@{2026-01-01 10:00}", "a")),
    ],
)
def test_revision_and_path(ref: str, expected: tuple[str, str]) -> None:
    assert split(ref) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a b/名", "/a b/名".encode()),
        ("/a:b", b'"/a:b"'),
        ("/a\nb", b'"/a\\nb"'),
        ('/a"b:\\', b'"/a\\"b:\\\\"'),
    ],
)
def test_a_folder_in_a_list_of_gits(path: str, expected: bytes) -> None:
    assert quoted(Path(path)) == expected


@pytest.mark.parametrize("suffix", ["", "^{commit}", "~0", "@{0}", ":sub"])
def test_a_tag_and_a_branch_of_one_name_are_not_chosen_between(repo: Repo, suffix: str) -> None:
    tagged = repo.commit({"sub/a": b"1"})
    repo.git("tag", "v1")
    repo.git("branch", "v1")
    assert shipped(repo.look(f"v1{suffix}")), "as long as they are the same"
    newer = repo.commit({"sub/a": b"2"})
    repo.git("branch", "-f", "v1")
    with fails("ambiguous-ref") as failed:
        repo.look(f"v1{suffix}")
    told = f"refs/tags/v1 ({tagged[:12]}) and refs/heads/v1 ({newer[:12]})"
    assert told in failed.value.message
    assert "refs/tags/v1 or refs/heads/v1" in failed.value.hint
    assert repo.look("refs/tags/v1").release.about["commit"] == tagged
    assert repo.look("heads/v1").release.about["commit"] == newer
    assert repo.look().release.about["commit"] == newer


def test_nothing_is_left_of_what_is_isolated(repo: Repo, temporary: Path) -> None:
    repo.commit(FILES)
    shipped(repo.look())
    with fails("no-such-ref"):
        repo.look("HEAD:nope")
    assert list(temporary.iterdir()) == []
    isolated = make(temporary / "x", find(repo.folder))
    assert (
        isolated.run(["git", "config", "--list", "--name-only"])
        == b"core.bare\ncore.repositoryformatversion\n"
    )


def test_a_commit_in_another_encoding(repo: Repo) -> None:
    repo.git("config", "i18n.commitEncoding", "gbk")
    repo.write({"a": b""})
    repo.git("add", "a")
    repo.git("-c", "user.name=x", "commit", "-q", "-F", "-", stdin="修复\n两行\n\n正文".encode("gbk"))
    assert repo.look().release.about["subject"] == "修复 两行"


def test_a_commit_that_is_signed_and_has_an_odd_author() -> None:
    raw = (
        b"tree " + b"a" * 40 + b"\nparent " + b"b" * 40 + b"\nauthor A > B <a@b> 1 +0000\n"
        b"committer C <c@d> 7 -0100\nencoding nope\ngpgsig x\n y\n\nsubject\nmore\n\nbody\n"
    )
    found = commit("c" * 40, raw)
    assert (found.author, found.committed, found.subject) == ("A > B <a@b>", 7, "subject more")


@pytest.mark.parametrize(
    ("line", "author", "committed"),
    [
        (b"C <c@d> 7 -0100", "C <c@d>", 7),
        (b"C c@d 7 +0100", "C c@d", 7),
        (b"C <c@d> 7", "C <c@d>", 7),
        (b"C 2 <c@d> -7  +0000 ", "C 2 <c@d>", -7),
        (b"7 +0000", "", 7),
    ],
)
def test_a_commit_that_another_program_has_made(line: bytes, author: str, committed: int) -> None:
    found = commit("c" * 40, b"tree x\nauthor " + line + b"\ncommitter " + line + b"\n\nsubject\n")
    assert (found.author, found.committed) == (author, committed)


@pytest.mark.parametrize(
    "raw", [b"", b"tree x\n\n", b"tree x\ncommitter C <c@d>\n\n", b"committer C <c@d> 7 +0000\n\n"]
)
def test_a_commit_that_is_damaged(raw: bytes) -> None:
    with fails("object-missing") as failed:
        commit("c" * 40, raw)
    assert "commit cccccccccccc is damaged" in failed.value.message


def test_a_commit_without_an_address_is_shipped(repo: Repo) -> None:
    repo.commit({"a": b""})
    raw = repo.git("cat-file", "commit", "HEAD").replace(b"<lilei@example.com>", b"lilei@example.com")
    oid = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw).strip().decode()
    about = repo.look(oid).release.about
    assert (about["author"], about["commit"]) == ("Li Lei lilei@example.com", oid)


def test_what_git_says_of_objects() -> None:
    out = b"a b missing\n" + b"c" * 40 + b" commit 3\nx\ny\n" + b"abc ambiguous\n"
    assert list(objects(out)) == [None, ("c" * 40, "commit", b"x\ny"), None]


def test_what_git_says_of_a_status() -> None:
    ids = "1" * 40
    lines = [
        "# branch.oid (initial)",
        "# stash 1",
        f"1 .M N... 100644 100644 100644 {ids} {ids} a b",
        f"1 .M SCM. 160000 160000 160000 {ids} {ids} m",
        f"1 .M S..U 160000 160000 160000 {ids} {ids} n",
        f"1 .M SC.. 160000 160000 160000 {ids} {ids} o",
        f"u UU N... 100644 100644 100644 100644 {ids} {ids} {ids} c d",
        "? new file",
        "? inner/",
    ]
    found = status("".join(f"{line}\0" for line in lines).encode())
    assert found.modified == ("a b", "m", "n", "o", "c d")
    assert found.untracked == ("new file", "inner/")
    assert found.inside == ("m", "n", "inner")


def test_names_of_submodules(repo: Repo) -> None:
    modules = b'[submodule "a.b c"]\npath = "d e/"\nurl = x\n[submodule "up"]\npath = y\n[other]\npath = z\n'
    repo.write({"modules": modules})
    out = repo.git("config", "-f", "modules", "-z", "--list")
    assert submodule_names(out) == {"d e": "a.b c", "y": "up"}


def test_a_name_of_a_submodule_that_leads_elsewhere(repo: Repo, tmp_path: Path) -> None:
    """It is looked for where the tree is checked out, not where the name would have it."""
    inner = init(tmp_path / "inner")
    inner.commit({"x": b"secret"})
    inner.folder.joinpath(".git").rename(tmp_path / "evil")
    oid = git(tmp_path, f"--git-dir={tmp_path / 'evil'}", "rev-parse", "HEAD").strip()
    modules = b'[submodule "../../../evil"]\n\tpath = m\n\turl = x\n'
    repo.commit_blobs({b".gitmodules": ("100644", modules), b"m": ("160000", oid)})
    with fails("submodule-missing"):
        look(Request(repo.bare()))


def test_what_a_killed_klops_left_goes_after_days(repo: Repo, temporary: Path) -> None:
    repo.commit(FILES)
    for name, age in (
        ("klops-source-old", ABANDONED + 60),
        ("klops-source-new", 60.0),
        ("other", ABANDONED * 2),
    ):
        (temporary / name / "in it").mkdir(parents=True)
        at = time.time() - age
        os.utime(temporary / name, (at, at))
    repo.look()
    assert {path.name for path in temporary.iterdir()} == {"klops-source-new", "other"}
