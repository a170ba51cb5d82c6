"""stat, slurp, fetch and pause on this machine; what they register was seen of Ansible 2.19's."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Context
from klops.actions.files import fetch, slurp
from klops.errors import ConfirmationNeeded, Interrupted, TaskFailed
from klops.remote.filereads import ChecksumRead, ContentRead, FolderRead, GlobRead, StatRead
from klops.remote.reads import Read
from tests.unit.actions.carry import Carrier, action

#: keys that Ansible registers for every path that is there
ALWAYS = {
    *("atime", "attr_flags", "attributes", "block_size", "blocks", "charset", "ctime", "dev", "device_type"),
    *(
        "executable",
        "exists",
        "gid",
        "gr_name",
        "inode",
        "isblk",
        "ischr",
        "isdir",
        "isfifo",
        "isgid",
        "islnk",
    ),
    *(
        "isreg",
        "issock",
        "isuid",
        "mimetype",
        "mode",
        "mtime",
        "nlink",
        "path",
        "pw_name",
        "readable",
        "rgrp",
    ),
    *("roth", "rusr", "size", "uid", "version", "wgrp", "woth", "writeable", "wusr", "xgrp", "xoth", "xusr"),
}


@pytest.fixture
def here(tmp_path: Path) -> Carrier:
    """This machine."""
    return Carrier(tmp_path / "control")


@pytest.fixture
def host(tmp_path: Path, here: Carrier) -> Path:
    """A folder of the host."""
    here.files.mkdir()
    folder = tmp_path / "host"
    folder.mkdir()
    return folder


# -- stat ----------------------------------------------------------------------------------------------------


def stat_of(here: Carrier, path: Path | str, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = here.run("stat", path=str(path), **given)["stat"]
    return found


def settle(path: Path) -> None:
    """Give a path a time of access so late that looking at it doesn't change it."""
    os.utime(path, ns=(2_000_000_000_123_456_789, 1_600_000_000_987_654_321), follow_symlinks=False)


def as_python_sees_it(path: Path) -> dict[str, Any]:
    """What Ansible's module takes from Python on the host."""
    st = path.lstat()
    return {
        "mode": f"{stat.S_IMODE(st.st_mode):04o}",
        "size": st.st_size,
        "uid": st.st_uid,
        "gid": st.st_gid,
        "inode": st.st_ino,
        "dev": st.st_dev,
        "nlink": st.st_nlink,
        "atime": st.st_atime,
        "mtime": st.st_mtime,
        "ctime": st.st_ctime,
        "blocks": st.st_blocks,
        "block_size": st.st_blksize,
        "device_type": st.st_rdev,
        "isuid": bool(st.st_mode & stat.S_ISUID),
        "xoth": bool(st.st_mode & stat.S_IXOTH),
        "readable": os.access(path, os.R_OK),
        "writeable": os.access(path, os.W_OK),
        "executable": os.access(path, os.X_OK),
    }


def test_stat_of_a_file(here: Carrier, host: Path) -> None:
    path = host / "a b' é"
    path.write_bytes(b"x" * 5000)
    path.chmod(0o4751)
    settle(path)
    found = stat_of(here, path)
    assert set(found) == ALWAYS | {"checksum"}
    assert found.items() >= as_python_sees_it(path).items()
    assert (found["isreg"], found["isdir"], found["islnk"]) == (True, False, False)
    assert found["checksum"] == hashlib.sha1(b"x" * 5000).hexdigest()
    assert found["path"] == str(path)
    assert stat_of(here, host / "none") == {"exists": False}


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"])
def test_checksums(here: Carrier, host: Path, algorithm: str) -> None:
    (host / "f").write_bytes(b"abc")
    assert (
        stat_of(here, host / "f", checksum_algorithm=algorithm)["checksum"]
        == hashlib.new(algorithm, b"abc").hexdigest()
    )


def test_stat_of_links(here: Carrier, host: Path) -> None:
    (host / "f").write_text("abc")
    (host / "l").symlink_to("f")
    (host / "dead").symlink_to("none")
    settle(host / "l")
    found = stat_of(here, host / "l")
    assert set(found) == ALWAYS | {"lnk_source", "lnk_target"}
    assert found.items() >= as_python_sees_it(host / "l").items()
    assert (found["islnk"], found["lnk_target"], found["lnk_source"]) == (True, "f", str(host / "f"))
    followed = stat_of(here, host / "l", follow=True)
    assert (followed["isreg"], followed["size"], "checksum" in followed) == (True, 3, True)
    assert followed["path"] == str(host / "l")
    assert stat_of(here, host / "dead")["lnk_target"] == "none"
    assert stat_of(here, host / "dead", follow=True) == {"exists": False}


def test_stat_of_other_kinds(here: Carrier, host: Path) -> None:
    os.mkfifo(host / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(host / "s"))
    (host / "d").mkdir(mode=0o750)
    kinds = {
        name: stat_of(here, path)
        for name, path in (("p", host / "pipe"), ("s", host / "s"), ("d", host / "d"))
    }
    assert kinds["p"]["isfifo"]
    assert kinds["s"]["issock"]
    assert kinds["d"]["isdir"]
    assert kinds["d"].items() >= as_python_sees_it(host / "d").items()
    null = stat_of(here, "/dev/null")
    assert null["ischr"]
    assert null["device_type"] == Path("/dev/null").stat().st_rdev
    assert "checksum" not in null


def test_stat_asks_for_less(here: Carrier, host: Path) -> None:
    (host / "f").write_text("abc")
    found = stat_of(here, host / "f", get_checksum=False, get_mime=False, get_attributes=False)
    assert set(found) == ALWAYS - {"mimetype", "charset", "version", "attributes", "attr_flags"}


def test_stat_of_what_can_not_be_looked_at(here: Carrier, host: Path) -> None:
    (host / "f").touch()
    with pytest.raises(TaskFailed, match="Not a directory"):
        here.run("stat", path=str(host / "f" / "x"))


def test_a_home_is_the_hosts(here: Carrier, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(host))
    (host / "f").write_text("abc")
    assert stat_of(here, "~/f")["path"] == str(host / "f")
    assert stat_of(here, "$HOME/f")["size"] == 3
    assert here.run("slurp", src="~/f")["source"] == str(host / "f")
    assert here.run("fetch", src="~/f", dest="x", flat=True)["changed"] is True


SCRIPTS: list[Read] = [
    StatRead("k", "a b", checksum="sha1", mime=True, attributes=True),
    StatRead("k", "none"),
    StatRead("k", "link", follow=True),
    ContentRead("k", "a b", 3),
    ContentRead("k", ".", 3),
    ContentRead("k", "none", 3),
    ChecksumRead("k", "a b"),
    FolderRead("k", "sub"),
    FolderRead("k", "none"),
    GlobRead("k", "*[b]"),
    GlobRead("k", "in*", "sub"),
    GlobRead("k", "*", "none"),
]


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_reads_mean_the_same_to_every_shell(shell: str, number: int, host: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    (host / "a b").write_text("12345")
    settle(host / "a b")
    (host / "link").symlink_to("a b")
    (host / "sub").mkdir()
    (host / "sub" / "inner").touch()
    script = SCRIPTS[number].script
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    done, plain = (
        subprocess.run([*words, "-c", script], cwd=host, capture_output=True, check=False)
        for words in (argv, ["sh"])
    )
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)


# -- slurp ---------------------------------------------------------------------------------------------------


def test_slurp(here: Carrier, host: Path) -> None:
    data = bytes(range(256)) * 3
    (host / "f").write_bytes(data)
    got = here.run("slurp", src=str(host / "f"))
    assert set(got) == {"changed", "content", "source", "encoding"}
    assert (got["changed"], got["encoding"], got["source"]) == (False, "base64", str(host / "f"))
    assert base64.b64decode(got["content"]) == data
    (host / "empty").touch()
    assert here.run("slurp", src=str(host / "empty"))["content"] == ""


def test_slurp_has_a_limit(here: Carrier, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurp, "SLURP_LIMIT", 5)
    (host / "f").write_bytes(b"12345")
    assert base64.b64decode(here.run("slurp", src=str(host / "f"))["content"]) == b"12345"
    (host / "f").write_bytes(b"123456")
    with pytest.raises(TaskFailed, match="has more than"):
        here.run("slurp", src=str(host / "f"))


def test_slurp_does_not_wait_for_a_pipe(here: Carrier, host: Path) -> None:
    os.mkfifo(host / "pipe")
    with pytest.raises(TaskFailed, match="no regular file"):
        here.run("slurp", src=str(host / "pipe"))


# -- fetch ---------------------------------------------------------------------------------------------------


def test_fetch(here: Carrier, host: Path) -> None:
    data = b"\0log\xff" * 500_000
    (host / "a log").write_bytes(data)
    sums = {"checksum": hashlib.sha1(data).hexdigest(), "md5sum": hashlib.md5(data).hexdigest()}
    dest = here.files / "kept" / "h1" / host.relative_to("/") / "a log"
    given = {"src": str(host / "a log"), "dest": "kept"}
    assert [change.what for change in here.plan("fetch", **given).changes] == [
        f"fetch {host}/a log to {dest} (2500000 bytes)"
    ]
    assert not dest.exists()
    first = here.run("fetch", **given)
    remote = {"remote_checksum": sums["checksum"], "remote_md5sum": None}
    assert first == {"changed": True, "dest": str(dest), **sums, **remote}
    assert dest.read_bytes() == data
    assert here.progress[-1].percent == 100
    again = here.run("fetch", **given)
    assert again == {"changed": False, "dest": str(dest), "file": str(host / "a log"), **sums}
    (host / "a log").write_bytes(b"new")
    assert here.run("fetch", **given)["changed"] is True
    assert dest.read_bytes() == b"new"
    assert [path.name for path in dest.parent.iterdir()] == ["a log"]


def test_who_may_not_read_a_file_on_the_host_may_not_here(here: Carrier, host: Path) -> None:
    old = os.umask(0o022)
    try:
        for bits, kept in ((0o600, 0o600), (0o640, 0o640), (0o755, 0o644), (0o400, 0o600)):
            (host / "f").write_text(f"{bits}")
            (host / "f").chmod(bits)
            here.run("fetch", src=f"{host}/f", dest="into/", flat=True)
            (host / "f").unlink()
            assert (here.files / "into" / "f").stat().st_mode & 0o777 == kept
    finally:
        os.umask(old)


def test_fetch_flat(here: Carrier, host: Path) -> None:
    (host / "f").write_text("x")
    source = str(host / "f")
    assert here.run("fetch", src=source, dest="into/", flat=True)["dest"] == str(here.files / "into" / "f")
    absolute = str(here.files / "as")
    assert here.run("fetch", src=source, dest=absolute, flat=True)["dest"] == absolute
    with pytest.raises(TaskFailed, match="is a folder"):
        here.run("fetch", src=source, dest="into", flat=True)


def test_fetch_to_the_home_of_nobody_makes_no_folder_of_that_name(here: Carrier, host: Path) -> None:
    (host / "f").write_text("x")
    with pytest.raises(TaskFailed, match="a user whom this machine doesn't have"):
        here.run("fetch", src=f"{host}/f", dest="~no-such-user-here/x")
    assert not list(here.files.iterdir())


def test_fetch_needs_no_lock_of_the_host(here: Carrier, host: Path) -> None:
    (host / "f").write_text("x")
    (step,) = here.plan("fetch", src=str(host / "f"), dest="d").steps
    assert (step.changes, step.on_host) == (True, False)


def test_a_file_that_changes_meanwhile_replaces_nothing(here: Carrier, host: Path) -> None:
    (host / "f").write_text("one")
    given = {"src": str(host / "f"), "dest": "d", "flat": True}
    here.run("fetch", **given)
    (host / "f").write_text("two")
    context = Context(here.remote, here.view, here.progress.append, here.warned.append)
    checked, unchecked = here.plan("fetch", **given), here.plan("fetch", **given, validate_checksum=False)
    (host / "f").write_text("three")
    with pytest.raises(TaskFailed, match="checksum mismatch") as caught:
        action("fetch").apply(checked, context)
    assert (here.files / "d").read_text() == "one"
    assert caught.value.values["checksum"] == hashlib.sha1(b"three").hexdigest()
    assert [path.name for path in here.files.iterdir()] == ["d"]
    action("fetch").apply(unchecked, context)
    assert (here.files / "d").read_text() == "three"


def test_fetch_ends_where_a_file_has_no_end(
    here: Carrier, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "f").write_text("x")
    plan = here.plan("fetch", src=str(host / "f"), dest="d", flat=True)
    monkeypatch.setattr(fetch, "FETCH_LIMIT", 1024**2)
    (host / "f").unlink()
    (host / "f").symlink_to("/dev/zero")
    context = Context(here.remote, here.view, here.progress.append, here.warned.append)
    with pytest.raises(TaskFailed, match="more than"):
        action("fetch").apply(plan, context)
    assert list(here.files.iterdir()) == []


@pytest.mark.parametrize("src", ["/a/../../b", "../b", "/a/.."])
def test_no_name_leads_out(here: Carrier, host: Path, src: str) -> None:
    params = fetch.FetchParams(src=src, dest="d")
    with pytest.raises(TaskFailed, match="can't be a name"):
        fetch.destination(params, src, here.view)


# -- pause ---------------------------------------------------------------------------------------------------


def test_pause(here: Carrier) -> None:
    got = here.run("pause", seconds=0)
    assert set(got) == {"changed", "delta", "echo", "rc", "start", "stderr", "stdout", "stop", "user_input"}
    assert (got["changed"], got["delta"], got["user_input"]) == (False, 1, "")
    assert got["stdout"].startswith("Paused for 1.")
    assert action("pause").once


def test_an_interrupt_ends_a_pause(here: Carrier) -> None:
    def interrupted(_: object) -> None:
        raise Interrupted("interrupted")

    plan = here.plan("pause", minutes=60)
    with pytest.raises(Interrupted):
        action("pause").apply(plan, Context(here.remote, here.view, interrupted, here.warned.append))


def test_a_question_needs_a_terminal(here: Carrier) -> None:
    with pytest.raises(ConfirmationNeeded, match="Go on"):
        here.run("pause", prompt="Go on?")


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are of Unix")
@pytest.mark.parametrize("echo", [True, False])
def test_an_answer(
    here: Carrier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], echo: bool
) -> None:
    import pty

    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as raw, open(theirs, encoding="utf-8", closefd=False) as typed:
        os.write(ours, b"yes, now\n")
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        assert here.run("pause", prompt="Go on?", echo=echo)["user_input"] == "yes, now"
        assert not raw.closed
    os.close(ours)
    assert capsys.readouterr().err.startswith("Go on? ")
