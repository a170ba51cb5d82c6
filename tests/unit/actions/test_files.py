"""file, copy and template on this machine; what is expected was seen of ansible-core 2.19."""

from __future__ import annotations

import getpass
import grp
import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.remote.environment import EnvironmentRemote
from klops.remote.local import LocalRemote
from tests.unit.actions.playground import Playground

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(params=["own", "busybox"])
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Playground:
    """Files of the control node: a file, a template, and a folder with a link.

    The host has this machine's programs, or those of busybox alone.
    """
    folder = tmp_path / "control"
    (folder / "src" / "sub").mkdir(parents=True)
    (folder / "src" / "empty").mkdir()
    (folder / "src" / "a").write_text("hi\n")
    (folder / "src" / "a").chmod(0o640)
    (folder / "src" / "sub" / "b c").write_bytes(b"\x00\xff")
    (folder / "src" / "ln").symlink_to("a")
    (folder / "x.j2").write_text("one {{ 1 + 1 }}\n")
    if request.param == "own":
        return Playground(folder)
    programs = busybox_programs(tmp_path)
    return Playground(folder, EnvironmentRemote(LocalRemote("h1"), {"PATH": str(programs)}))


def busybox_programs(folder: Path) -> Path:
    """A folder with links to busybox under the names of its programs."""
    found = shutil.which("busybox")
    if found is None:
        pytest.skip("no busybox here")
    programs = folder / "programs"
    programs.mkdir()
    for name in subprocess.check_output([found, "--list"], text=True).split():
        (programs / name).symlink_to(found)
    return programs


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The folder that tasks work in."""
    made = tmp_path / "host"
    made.mkdir()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def tree(folder: Path) -> dict[str, Any]:
    """All that is below a folder: modes of folders, contents of files, targets of links."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = f"{mode(path):o}" if path.is_dir() else (f"{mode(path):o}", path.read_bytes())
    return found


def test_copy_registers_what_the_file_is(ground: Playground, host: Path) -> None:
    values = ground.settle("copy", src="src/a", dest=f"{host}/x", mode="u=rw,go=")
    assert values == {
        "changed": True,
        "dest": f"{host}/x",
        "checksum": "55ca6286e3e4f4fba5d0448333fa99fc5a404a73",
        "md5sum": "764efa883dda1e11db47671c4a3bbd9e",
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "owner": getpass.getuser(),
        "group": grp.getgrgid(os.getegid()).gr_name,
        "mode": "0600",
        "size": 3,
        "state": "file",
    }
    again = ground.do("copy", src="src/a", dest=f"{host}/x", mode="u=rw,go=")
    assert {key: again[key] for key in ("path", "size", "mode", "checksum")} == {
        "path": f"{host}/x",
        "size": 3,
        "mode": "0600",
        "checksum": values["checksum"],
    }


def test_copy_keeps_the_mode_and_makes_a_backup(ground: Playground, host: Path) -> None:
    (host / "x").write_text("old\n")
    (host / "x").chmod(0o4750)
    values = ground.settle("copy", content="new\n", dest=f"{host}/x", backup=True)
    assert mode(host / "x") == 0o4750
    backup = Path(values["backup_file"])
    assert backup.read_text() == "old\n"
    assert backup.name.startswith("x.")
    assert backup.name.endswith("~")


def test_copy_validates_before_anything_is_in_place(ground: Playground, host: Path) -> None:
    (host / "x").write_text("old\n")
    with pytest.raises(TaskFailed, match="not valid, grep none"):
        ground.do("copy", content="new\n", dest=f"{host}/x", validate="grep none %s")
    assert tree(host) == {"x": (f"{mode(host / 'x'):o}", b"old\n")}
    ground.environment = {"WORD": "new"}
    ground.settle("copy", content="new\n", dest=f"{host}/x", validate="sh -c 'grep $WORD $0' %s")
    assert (host / "x").read_text() == "new\n"
    assert [path.name for path in host.iterdir()] == ["x"]


@pytest.mark.parametrize("follow", [True, False])
def test_copy_onto_a_link(ground: Playground, host: Path, follow: bool) -> None:
    (host / "y").write_text("old")
    (host / "x").symlink_to("y")
    values = ground.settle("copy", content="new", dest=f"{host}/x", follow=follow)
    assert (host / "x").is_symlink() == follow
    assert (host / "y").read_text() == ("new" if follow else "old")
    assert values["dest"] == (f"{host}/y" if follow else f"{host}/x")


def test_copy_of_a_folder_under_its_name(ground: Playground, host: Path) -> None:
    values = ground.settle("copy", src="src", dest=f"{host}/out", mode="0604", directory_mode="0701")
    assert tree(host) == {
        "out": "701",
        "out/src": "701",
        "out/src/empty": "701",
        "out/src/sub": "701",
        "out/src/a": ("604", b"hi\n"),
        "out/src/ln": ("604", b"hi\n"),
        "out/src/sub/b c": ("604", b"\x00\xff"),
    }
    assert values == {"changed": True, "dest": f"{host}/out/", "src": str(ground.folder / "src")}


def test_copy_of_what_is_in_a_folder(ground: Playground, host: Path) -> None:
    (host / "sub").mkdir()
    (host / "more").write_text("stays")
    (host / "a").write_text("other")
    ground.settle("copy", src="src/", dest=str(host), mode="preserve", local_follow=False)
    assert tree(host)["a"] == ("640", b"hi\n")
    assert tree(host)["ln"] == "a"
    assert {"more", "empty", "sub/b c"} <= set(tree(host))


def test_copy_of_a_folder_into_itself_ends(ground: Playground, host: Path) -> None:
    (ground.folder / "src" / "loop").symlink_to(".")
    with pytest.raises(TaskFailed, match="leads to a folder that it is in"):
        ground.do("copy", src="src", dest=str(host))


def test_copy_within_the_host(ground: Playground, host: Path) -> None:
    (host / "s").write_bytes(b"\x00" * 70000)
    (host / "s").chmod(0o751)
    values = ground.settle("copy", src=f"{host}/s", dest=f"{host}/new", remote_src=True)
    assert (values["mode"], values["size"], values["src"]) == ("0644", 70000, f"{host}/s")
    assert values["md5sum"] == hashlib.md5(b"\x00" * 70000, usedforsecurity=False).hexdigest()
    (host / "old").write_text("x")
    (host / "old").chmod(0o600)
    ground.settle("copy", src=f"{host}/s", dest=f"{host}/old", remote_src=True, backup=True)
    assert mode(host / "old") == 0o751
    assert (host / "old").read_bytes() == (host / "s").read_bytes()
    assert len(list(host.glob("old.*~"))) == 1


def test_template_into_a_folder_keeps_its_whole_name(ground: Playground, host: Path) -> None:
    ground.settle("template", src="x.j2", dest=f"{host}/")
    assert (host / "x.j2").read_text() == "one 2\n"
    ground.settle("template", src="x.j2", dest=f"{host}/x", mode="preserve", newline_sequence=r"\r\n")
    assert (host / "x").read_bytes() == b"one 2\r\n"
    assert mode(host / "x") == mode(ground.folder / "x.j2")


def test_a_template_reads_as_it_is_told(ground: Playground, host: Path) -> None:
    (ground.folder / "y.j2").write_text(
        "# {{ ansible_managed }}\n  [% if true %]\n{{ kept }} [[ template_path ]]\n  [% endif %]\n"
    )
    words = {"block_start_string": "[%", "block_end_string": "%]"}
    names = {"variable_start_string": "[[", "variable_end_string": "]]"}
    ground.settle(
        "template", src="y.j2", dest=f"{host}/y", trim_blocks=False, lstrip_blocks=True, **words, **names
    )
    assert (host / "y").read_text() == "# {{ ansible_managed }}\n\n{{ kept }} y.j2\n\n"


def test_folders_above_get_the_mode_too(ground: Playground, host: Path) -> None:
    values = ground.settle("file", path=f"{host}/a/b", state="directory", mode="02711")
    assert tree(host) == {"a": "2711", "a/b": "2711"}
    assert (values["mode"], values["state"]) == ("02711", "directory")


def test_links(ground: Playground, host: Path) -> None:
    (host / "d1").mkdir()
    (host / "d2").mkdir()
    made = ground.settle("file", path=f"{host}/l", src="d1", state="link")
    assert (made["dest"], made["src"], made["state"]) == (f"{host}/l", "d1", "link")
    ground.settle("file", path=f"{host}/l", src="d2", state="link")
    assert (host / "l").readlink() == Path("d2")
    assert list((host / "d1").iterdir()) == []
    with pytest.raises(TaskFailed, match="not a link"):
        ground.do("file", path=f"{host}/d1", src="d2", state="link")
    ground.settle("file", path=f"{host}/d1", src="d2", state="link", force=True)
    assert (host / "d1").is_symlink()
    ground.settle("file", path=f"{host}/l", state="absent")
    assert (host / "d2").is_dir()


def test_hard_links(ground: Playground, host: Path) -> None:
    (host / "b").write_text("b")
    (host / "c").write_text("c")
    ground.settle("file", path=f"{host}/a", src=f"{host}/b", state="hard")
    with pytest.raises(TaskFailed, match="another file"):
        ground.do("file", path=f"{host}/a", src=f"{host}/c", state="hard")
    ground.settle("file", path=f"{host}/a", src=f"{host}/c", state="hard", force=True)
    assert (host / "a").samefile(host / "c")
    assert (host / "b").read_text() == "b"


def test_touch_with_times(ground: Playground, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    times = {"access_time": "202001020304.05", "modification_time": "202001020304.06"}
    ground.settle("file", path=f"{host}/a", state="touch", **times)
    assert int((host / "a").stat().st_mtime) == 1577905446
    assert ground.do("file", path=f"{host}/a", state="touch", **times)["changed"] is False
    assert ground.do("file", path=f"{host}/a", state="touch")["changed"] is True
    kept = {"access_time": "preserve", "modification_time": "preserve"}
    assert ground.do("file", path=f"{host}/a", state="touch", **kept)["changed"] is False
    ground.settle("file", path=f"{host}/new", state="touch", **kept)
    assert (host / "new").exists()


@ROOT
def test_recursion_changes_links_themselves_and_stays_inside(ground: Playground, host: Path) -> None:
    outside = host / "outside"
    outside.write_text("")
    inside = host / "in"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub" / "a b").write_text("")
    (inside / "run").write_text("")
    (inside / "run").chmod(0o700)
    (inside / "l").symlink_to("../outside")
    ground.settle("file", path=str(inside), state="directory", recurse=True, mode="u=rwX,go=rX", owner="12")
    assert tree(inside) == {"sub": "755", "sub/a b": ("644", b""), "run": ("755", b""), "l": "../outside"}
    assert {path.lstat().st_uid for path in inside.rglob("*")} == {12}
    assert outside.stat().st_uid == 0


@ROOT
def test_owners_are_given_back_and_set(ground: Playground, host: Path) -> None:
    (host / "x").write_text("old")
    os.chown(host / "x", 12, 13)
    (host / "x").chmod(0o4755)
    ground.settle("copy", content="new", dest=f"{host}/x")
    found = (host / "x").stat()
    assert (found.st_uid, found.st_gid, mode(host / "x")) == (12, 13, 0o4755)
    values = ground.settle("copy", content="new", dest=f"{host}/x", group="root")
    # Linux takes setuid away from a file that changes hands; with no mode given nobody puts it back
    assert (values["uid"], values["gid"], values["mode"]) == (12, 0, "0755")
    assert ground.settle("copy", content="new", dest=f"{host}/x", group="13", mode="4755")["mode"] == "04755"


def test_names_that_are_not_ascii(ground: Playground, host: Path) -> None:
    """busybox' ls prints a question mark for each of their letters."""
    (ground.folder / "src" / "权重").write_text("w")
    (ground.folder / "src" / "链接").symlink_to("权重")
    folder = f"{host}/模型目录"
    ground.settle("file", path=folder, state="directory", mode="0750")
    ground.settle("copy", content="x", dest=f"{folder}/é")
    ground.settle("copy", src="src/", dest=folder, local_follow=False)
    ground.settle("file", path=f"{host}/ln", src="模型目录/链接", state="link")
    ground.settle("file", path=folder, state="directory", recurse=True, mode="u=rwX,go=")
    assert mode(host / "模型目录" / "权重") == 0o600
    assert (host / "ln").read_text() == "w"


def test_a_name_with_a_line_break_is_no_other_path(ground: Playground, host: Path, tmp_path: Path) -> None:
    """What follows the break would be a whole line of a listing."""
    other = tmp_path / "other"
    other.write_text("")
    other.chmod(0o644)
    below = host / "a\n-rw-r--r-- 1 0 0 1 Jan  1 00:00 " / str(other).lstrip("/")
    below.parent.mkdir(parents=True)
    below.write_text("")
    with pytest.raises(TaskFailed, match="can't be read in a listing"):
        ground.do("file", path=str(host), state="directory", recurse=True, mode="u=rwX,go=")
    assert mode(other) == 0o644


def test_a_group_that_only_the_host_s_directory_knows(host: Path, tmp_path: Path) -> None:
    """Not in /etc/group, as with LDAP; without getent that file is all there is."""
    getent = tmp_path / "bin" / "getent"
    getent.parent.mkdir()
    getent.write_text('#!/bin/sh\n[ "$1 $2" = "group klops-team" ] && echo klops-team:x:4242:\n')
    getent.chmod(0o755)
    path = f"{getent.parent}:{os.environ['PATH']}"
    ground = Playground(tmp_path, EnvironmentRemote(LocalRemote("h1"), {"PATH": path}))
    (change,) = ground.plan("file", {"path": str(host), "group": "klops-team"}).changes
    assert "4242" in change.what
    with pytest.raises(TaskFailed, match="no group"):
        Playground(tmp_path).plan("file", {"path": str(host), "group": "klops-team"})
