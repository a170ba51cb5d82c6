"""A working tree that isn't what its commit says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klops.source.git.command import GitFailed
from tests.unit.source.repos import Repo, everything, fails, init, shipped
from tests.waiting import until


@pytest.fixture
def dirty(repo: Repo) -> Repo:
    """One file modified and staged, one modified, one deleted, one new, one ignored."""
    repo.commit(
        {"a.py": b"a = 1\n", "b.py": b"b = 1\n", "gone.py": b"", ".gitignore": b"*.log\n", "sub/c": b""}
    )
    repo.write({"a.py": b"a = 2\n"})
    repo.git("add", "a.py")
    repo.write({"b.py": b"b = 2\r\n", "new/d.py": b"d = 1\n", "x.log": b"x"})
    (repo.folder / "gone.py").unlink()
    return repo


def test_it_is_refused_with_numbers_and_names(dirty: Repo, temporary: Path) -> None:
    with fails("dirty-tree") as failed:
        dirty.look()
    assert "3 modified, 1 untracked: 'a.py', 'b.py', 'gone.py', 'new/d.py'" in failed.value.message
    assert "--dirty" in failed.value.hint
    dirty.write({f"new/{number}": b"" for number in range(9)})
    with fails("dirty-tree") as failed:
        dirty.look()
    assert failed.value.message.endswith(" and 3 more")
    assert list(temporary.iterdir()) == []


def test_it_is_shipped_exactly_and_the_repository_left_alone(dirty: Repo, temporary: Path) -> None:
    clean = dirty.look("HEAD~0:sub")  # nothing changed below that
    assert clean.release.about["dirty"] is False
    before = everything(dirty.folder)

    tree = dirty.look(dirty=True)

    assert shipped(tree) == {
        ".gitignore": b"*.log\n",
        "a.py": b"a = 2\n",
        "b.py": b"b = 2\n",
        "new/d.py": b"d = 1\n",
        "sub/c": b"",
    }
    commit = dirty.git("rev-parse", "HEAD").decode().strip()
    assert tree.release.name == f"{commit[:12]}.dirty-{tree.release.digest[:12]}"
    assert tree.release.about["dirty"] is True
    assert tree.release.about["commit"] == commit
    assert (tree.report.modified, tree.report.untracked) == (3, 1)
    # what is changed later is not of it, and it goes with whoever has it
    dirty.write({"a.py": b"a = 3\n"})
    assert shipped(tree)["a.py"] == b"a = 2\n"
    dirty.write({"a.py": b"a = 2\n"})
    assert everything(dirty.folder) == before
    assert len(list(temporary.iterdir())) == 1
    del tree
    assert list(temporary.iterdir()) == []


def test_a_snapshot_that_fails_leaves_nothing(dirty: Repo, home: Path, temporary: Path) -> None:
    (home / ".gitconfig").write_text('[filter "x"]\nclean = false\nrequired = true\n')
    dirty.write({".gitattributes": b"b.py filter=x\n"})
    with pytest.raises(GitFailed, match="filter"):
        dirty.look(dirty=True)
    assert list(temporary.iterdir()) == []


def test_filters_of_the_user_run(repo: Repo, home: Path) -> None:
    (home / ".gitconfig").write_text('[filter "up"]\nclean = tr a-z A-Z\n')
    repo.commit({".gitattributes": b"*.up filter=up\n", "x.up": b"text\n"})
    repo.write({"x.up": b"other\n"})
    assert shipped(repo.look(dirty=True))["x.up"] == b"OTHER\n"


def test_only_line_endings_differ(repo: Repo, temporary: Path) -> None:
    repo.commit({"a.py": b"a\nb\n", "b": b"plain\n", "w.model": b"kept\r\n", "c.py": b"c\n"})
    clean = repo.look()
    repo.write({"a.py": b"a\r\nb\r\n", "b": b"plain\r\n"})
    for dirty in (False, True):
        tree = repo.look(dirty=dirty)
        assert tree.release == clean.release
        assert (tree.report.endings_only, tree.report.modified) == (2, 0)
        assert shipped(tree) == shipped(clean)
    assert list(temporary.iterdir()) == []
    # but those of a file that is no text are its content
    repo.write({"w.model": b"kept\n"})
    with fails("dirty-tree"):
        repo.look()


def test_only_line_endings_differ_where_placeholders_are(repo: Repo) -> None:
    repo.commit({".gitattributes": b"v export-subst\n", "v": b"$Format:%H$\n", "a": b"a\n"})
    clean = repo.look()
    repo.write({"a": b"a\r\n"})
    assert repo.look().release == clean.release
    repo.write({"a": b"b\n"})
    tree = repo.look(dirty=True)
    assert shipped(tree)["v"] == b"$Format:%H$\n"
    assert tree.report.substituted == ("v",)


def test_changes_elsewhere_do_not_concern_a_folder(repo: Repo) -> None:
    repo.commit({"sub/a.txt": b"a\r\n", "b": b"1"})
    repo.write({"b": b"2", "new": b""})
    assert shipped(repo.look("HEAD:sub")) == {"a.txt": b"a\n"}
    # but attributes do, wherever they are
    repo.write({".gitattributes": b"*.txt -text\n"})
    with fails("dirty-tree"):
        repo.look("HEAD:sub")
    assert shipped(repo.look("HEAD:sub", dirty=True)) == {"a.txt": b"a\r\n"}


def test_modes_and_links(repo: Repo) -> None:
    repo.commit({"run": b"x\n", "a": b"a\n"})
    (repo.folder / "run").chmod(0o755)
    with fails("dirty-tree"):
        repo.look()
    (repo.folder / "a").unlink()
    (repo.folder / "a").symlink_to("run")
    tree = repo.look(dirty=True)
    assert [(entry.path, entry.kind, entry.mode) for entry in tree.release.entries] == [
        ("a", "link", 0o777),
        ("run", "file", 0o755),
    ]
    (repo.folder / "a").unlink()
    (repo.folder / "a").symlink_to("/etc/passwd")
    with fails("unsafe-path"):
        repo.look(dirty=True)
    with fails("dirty-tree"):
        repo.look()


def test_nothing_is_left_of_the_tree(repo: Repo) -> None:
    repo.commit({"a": b"1"})
    (repo.folder / "a").unlink()
    with fails("dirty-tree"):
        repo.look()
    with fails("empty-tree"):
        repo.look(dirty=True)


def test_submodules(repo: Repo, tmp_path: Path) -> None:
    inner = init(tmp_path / "inner")
    inner.commit({"x": b"1"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.folder), "m")
    repo.git("config", "-f", ".gitmodules", "submodule.m.ignore", "all")
    repo.commit({"a": b"1"})
    own = Repo(repo.folder / "m")
    # what isn't committed in it can't be shipped, whatever the settings would have git leave out
    own.write({"x": b"2"})
    with fails("dirty-tree") as failed:
        repo.look()
    assert "'m'" in failed.value.message
    with fails("dirty-submodule") as failed:
        repo.look(dirty=True)
    assert "'m'" in failed.value.message
    # what is can
    own.commit()
    with fails("dirty-tree"):
        repo.look()
    assert shipped(repo.look(dirty=True))["m/x"] == b"2"


def test_a_repository_within_that_is_no_submodule(repo: Repo) -> None:
    repo.commit({"a": b"1"})
    init(repo.folder / "other").commit({"x": b""})
    with fails("dirty-tree"):
        repo.look()
    with fails("dirty-submodule") as failed:
        repo.look(dirty=True)
    assert "'other'" in failed.value.message


def test_settings_that_a_snapshot_is_not_to_stumble_over(dirty: Repo, home: Path, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").write_text(f"#!/bin/sh\ntouch '{tmp_path}/a hook ran'\n")
    (hooks / "post-index-change").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nautocrlf = input\nsafecrlf = true\nhooksPath = {hooks}\nsplitIndex = true\n"
        "[status]\nshowUntrackedFiles = no\nrenames = copies\n[diff]\nignoreSubmodules = all\n"
    )
    dirty.git("update-index", "--split-index")
    (tmp_path / "a hook ran").unlink()
    before = everything(dirty.folder)
    assert shipped(dirty.look(dirty=True))["b.py"] == b"b = 2\n"
    assert everything(dirty.folder) == before
    assert not (tmp_path / "a hook ran").exists()


def test_variables_about_another_repository_have_no_say(
    dirty: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = init(tmp_path / "other")
    other.commit({"other": b""})
    before = everything(other.folder)
    for name, path in (("GIT_DIR", ".git"), ("GIT_WORK_TREE", "."), ("GIT_INDEX_FILE", ".git/index")):
        monkeypatch.setenv(name, os.fspath(other.folder / path))
    monkeypatch.setenv("GIT_ATTR_SOURCE", "HEAD")
    assert "a.py" in shipped(dirty.look(dirty=True))
    assert everything(other.folder) == before


LOOKING = """
import sys, tempfile
from pathlib import Path
from klops.source.tree import Request, look
tempfile.tempdir = sys.argv[2]
try:
    look(Request(Path(sys.argv[1]), dirty=True))
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_an_interrupted_look_leaves_nothing(repo: Repo, home: Path, tmp_path: Path, temporary: Path) -> None:
    fifo, marker = tmp_path / "fifo", tmp_path / "it filters"
    os.mkfifo(fifo)
    (home / ".gitconfig").write_text(f"[filter \"x\"]\nclean = \"touch '{marker}'; cat '{fifo}'\"\n")
    repo.commit({"a": b"1"})
    repo.write({".gitattributes": b"x filter=x\n", "x": b"waits\n"})
    process = subprocess.Popen([sys.executable, "-c", LOOKING, repo.folder, temporary])
    try:
        until(marker.exists, what="the filter runs")
        assert list(temporary.iterdir())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 7
    finally:
        # both ends, so that neither blocks: the filter ends, too
        os.close(os.open(fifo, os.O_RDWR))
        process.kill()
        process.wait()
    assert list(temporary.iterdir()) == []


def test_what_a_sparse_checkout_leaves_out_is_shipped_all_the_same(repo: Repo) -> None:
    repo.commit({"in/a": b"1", "out/b": b"1", "top": b"1"})
    repo.git("sparse-checkout", "set", "in")
    assert not (repo.folder / "out").exists()
    assert set(shipped(repo.look())) == {"in/a", "out/b", "top"}
    repo.write({"in/a": b"2"})
    assert shipped(repo.look(dirty=True)) == {"in/a": b"2", "out/b": b"1", "top": b"1"}


def test_what_is_wrong_with_the_commit_does_not_matter_once_it_is_mended(repo: Repo) -> None:
    (repo.folder / "link").symlink_to("/etc/passwd")
    repo.commit({"a": b"1"})
    with fails("unsafe-path"):
        repo.look()
    (repo.folder / "link").unlink()
    with fails("dirty-tree"):
        repo.look()
    assert shipped(repo.look(dirty=True)) == {"a": b"1"}


def test_settings_that_have_git_say_more_have_no_say(dirty: Repo, home: Path) -> None:
    names = ("a.py", "b.py", "gone.py")
    dirty.git("stash", "--include-untracked")
    (home / ".gitconfig").write_text(
        "[status]\nshowStash = true\nbranch = true\naheadBehind = true\nshort = true\n"
        "submoduleSummary = true\nrelativePaths = false\n"
        "[color]\nui = always\n[column]\nui = always\n[core]\nquotePath = true\n"
    )
    assert shipped(dirty.look())["a.py"] == b"a = 1\n"
    dirty.git("stash", "apply", "-q")
    with fails("dirty-tree") as failed:
        dirty.look()
    assert "3 modified, 1 untracked" in failed.value.message
    assert all(repr(name) in failed.value.message for name in names)
    assert shipped(dirty.look(dirty=True))["b.py"] == b"b = 2\n"


def test_a_program_that_watches_files_is_not_believed(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a.py": b"a = 1\n"})
    watching = tmp_path / "nothing-has-changed"
    watching.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    watching.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(watching))
    repo.git("update-index", "--fsmonitor")
    repo.git("status")
    repo.write({"a.py": b"a = 2\n"})
    assert repo.git("status", "--porcelain") == b""
    with fails("dirty-tree"):
        repo.look()
    assert shipped(repo.look(dirty=True))["a.py"] == b"a = 2\n"


OLD_GIT = """#!/bin/sh
for word; do
    [ "$word" != --sparse ] || exit 129
done
exec {git} "$@"
"""


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_what_lies_outside_of_a_sparse_checkout_is_shipped(repo: Repo, cone: str) -> None:
    repo.commit({"in/a": b"a", "out/b": b"b", "out/c": b"c"})
    repo.git("sparse-checkout", "set", cone, "in")
    assert not (repo.folder / "out").exists()
    assert shipped(repo.look(dirty=True)) == {"in/a": b"a", "out/b": b"b", "out/c": b"c"}
    repo.write({"out/b": b"changed", "out/new": b"new"})
    with fails("dirty-tree"):
        repo.look()
    wanted = {"in/a": b"a", "out/b": b"changed", "out/c": b"c", "out/new": b"new"}
    assert shipped(repo.look(dirty=True)) == wanted
    # git adds such a one without a word, and leaves it as it was
    (repo.folder / "out/new").unlink()
    assert shipped(repo.look(dirty=True))["out/b"] == b"changed"


def test_a_git_that_knows_of_no_such_option(
    dirty: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(OLD_GIT.replace("{git}", str(real)))
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert shipped(dirty.look(dirty=True))["b.py"] == b"b = 2\n"
