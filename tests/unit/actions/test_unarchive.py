"""unarchive on this machine: archives of the control node, and archives of the host.

That an untouched folder is ok, that a file of another age is a change (of a tar, not of a zip), and what is
registered was seen of Ansible 2.19.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klops.actions.archive import archives
from klops.actions.archive.archiveparts import chosen, differing
from klops.actions.archive.archives import Member, handler, members
from klops.actions.archive.archivetar import packed
from klops.actions.archive.local import manifest
from klops.errors import TaskFailed
from klops.remote.archivereads import ArchiveRead, ManifestRead
from klops.remote.base import Reply
from tests.unit.actions.carry import Carrier

ROOT = os.geteuid() == 0
WHEN = 1_600_000_000


def info(name: str, data: bytes = b"", **given: Any) -> tuple[tarfile.TarInfo, bytes]:
    """One member of a tar."""
    made = tarfile.TarInfo(name)
    made.size, made.mode, made.mtime = len(data), 0o644, WHEN
    made.uid, made.gid = os.geteuid(), os.getegid()
    for key, value in given.items():
        setattr(made, key, value)
    return made, data


def tar(*found: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    """An archive of them."""
    out = io.BytesIO()
    with tarfile.TarFile.open(fileobj=out, mode=mode) as made:  # type: ignore[call-overload]  # any mode
        for member, data in found:
            made.addfile(member, io.BytesIO(data))
    return out.getvalue()


FOLDER: dict[str, Any] = {"type": tarfile.DIRTYPE, "mode": 0o750}
TREE = (
    info("./top/", **FOLDER),
    info("./top/a b'\\$HOME", b"one\n", mode=0o600),
    info("./top/run", b"#!/bin/sh\n" * 1000, mode=0o755),
    info("./top/same", type=tarfile.LNKTYPE, linkname="./top/run", mode=0o755),
    info("./top/link", type=tarfile.SYMTYPE, linkname="run", mode=0o777),
    info("./top/sub/", **FOLDER),
    info("./top/sub/empty"),
    info("./top/sub/é", b"two"),
)
NAMES = [
    "top/",
    "top/a b'\\$HOME",
    "top/run",
    "top/same",
    "top/link",
    "top/sub/",
    "top/sub/empty",
    "top/sub/é",
]


def zipped() -> bytes:
    """A zip with a folder, a link, a program and a text."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, mode, data in (
            ("top/", stat.S_IFDIR | 0o750, ""),
            ("top/run", stat.S_IFREG | 0o755, "#!/bin/sh\n" * 1000),
            ("top/link", stat.S_IFLNK | 0o777, "run"),
            ("top/text", stat.S_IFREG | 0o640, "one\n"),
        ):
            entry = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            entry.external_attr, entry.create_system = mode << 16, 3
            made.writestr(entry, data)
    return out.getvalue()


@pytest.fixture
def here(tmp_path: Path) -> Carrier:
    """This machine, with an archive of every kind."""
    folder = tmp_path / "control"
    folder.mkdir()
    for name, mode in (("x.tar", "w:"), ("x.tgz", "w:gz"), ("x.tbz", "w:bz2"), ("x.txz", "w:xz")):
        (folder / name).write_bytes(tar(*TREE, mode=mode))
    (folder / "x.zip").write_bytes(zipped())
    return Carrier(folder)


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    """The folder of the host that is unpacked into."""
    folder = tmp_path / "dest"
    folder.mkdir()
    return folder


def changes(here: Carrier, **given: Any) -> list[str]:
    return [change.what for change in here.plan("unarchive", **given).changes]


KINDS = {
    "x.tar": "TarArchive",
    "x.tgz": "TgzArchive",
    "x.tbz": "TarBzipArchive",
    "x.txz": "TarXzArchive",
}


@pytest.mark.parametrize("name", KINDS)
def test_a_tar_of_the_control_node(here: Carrier, dest: Path, name: str) -> None:
    given = {"src": name, "dest": str(dest)}
    (would,) = changes(here, **given)
    assert would.startswith(f"unpack {name} into {dest} (8 of 8): top/, ")
    assert list(dest.iterdir()) == []
    old = os.umask(0o077)
    try:
        got = here.run("unarchive", **given, list_files=True)
    finally:
        os.umask(old)
    assert got["changed"] is True
    assert (got["handler"], got["dest"], got["src"], got["state"]) == (
        KINDS[name],
        str(dest),
        name,
        "directory",
    )
    assert got["files"] == NAMES
    assert {"mode", "uid", "gid", "owner", "group", "size"} < set(got)
    top = dest / "top"
    assert (top / "a b'\\$HOME").read_text() == "one\n"
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in top.iterdir()}
    assert modes == {"a b'\\$HOME": 0o600, "run": 0o755, "same": 0o755, "link": 0o777, "sub": 0o750}
    assert (top / "run").samefile(top / "same")
    assert (top / "link").readlink() == Path("run")
    assert (top / "sub" / "é").stat().st_mtime == WHEN
    # again: nothing
    assert here.run("unarchive", **given)["changed"] is False


@pytest.mark.parametrize(
    ("damage", "differs"),
    [
        (lambda top: (top / "sub" / "é").write_text("tWo"), "top/sub/é"),
        (lambda top: (top / "sub" / "empty").unlink(), "top/sub/empty"),
        (lambda top: (top / "a b'\\$HOME").chmod(0o644), "top/a b'\\$HOME"),
        (lambda top: os.utime(top / "sub" / "é", (1, 1)), "top/sub/é"),
        (lambda top: ((top / "link").unlink(), (top / "link").symlink_to("other")), "top/link"),
        (lambda top: ((top / "link").unlink(), (top / "link").write_text("run")), "top/link"),
        (lambda top: (top / "sub").chmod(0o700), "top/sub/"),
        (lambda top: (top / "same").unlink(), "top/same"),
        (lambda top: shutil.rmtree(top / "sub"), "top/sub/, top/sub/empty, top/sub/é"),
    ],
)
def test_only_what_differs_is_sent(
    here: Carrier, dest: Path, damage: Callable[[Path], object], differs: str
) -> None:
    given = {"src": "x.tgz", "dest": str(dest)}
    here.run("unarchive", **given)
    damage(dest / "top")
    (would,) = changes(here, **given)
    assert would.endswith(f"of 8): {differs}")
    assert here.run("unarchive", **given)["changed"] is True
    assert changes(here, **given) == []
    assert (dest / "top" / "run").samefile(dest / "top" / "same")


def test_what_is_there_besides_is_left(here: Carrier, dest: Path) -> None:
    (dest / "top").mkdir()
    (dest / "top" / "mine").write_text("x")
    here.run("unarchive", src="x.tgz", dest=str(dest))
    assert (dest / "top" / "mine").read_text() == "x"


def test_a_zip_of_the_control_node(here: Carrier, dest: Path) -> None:
    given = {"src": "x.zip", "dest": str(dest)}
    got = here.run("unarchive", **given)
    assert (got["changed"], got["handler"]) == (True, "ZipArchive")
    assert stat.S_IMODE((dest / "top" / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((dest / "top" / "text").stat().st_mode) == 0o640
    assert (dest / "top" / "link").readlink() == Path("run")
    assert changes(here, **given) == []
    # a zip's times have no zone, so they are not compared
    os.utime(dest / "top" / "text", (1, 1))
    assert changes(here, **given) == []
    (dest / "top" / "text").write_text("two\n")
    assert here.run("unarchive", **given)["changed"] is True


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_owner_group_and_mode(here: Carrier, dest: Path) -> None:
    given = {"src": "x.tgz", "dest": str(dest), "owner": "1234", "group": "4321", "mode": "u=rwX,go="}
    here.run("unarchive", **given)
    found = {path: path.lstat() for path in dest.rglob("*")}
    assert {(st.st_uid, st.st_gid) for st in found.values()} == {(1234, 4321)}
    assert stat.S_IMODE(found[dest / "top" / "run"].st_mode) == 0o700
    assert stat.S_IMODE(found[dest / "top" / "sub"].st_mode) == 0o700
    assert stat.S_IMODE(found[dest / "top" / "sub" / "é"].st_mode) == 0o600
    assert changes(here, **given) == []
    os.chown(dest / "top" / "sub" / "é", 0, 0)
    assert len(changes(here, **given)) == 1


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_root_keeps_the_owners_of_a_tar_by_name(here: Carrier, dest: Path) -> None:
    given = {"src": "y.tar", "dest": str(dest)}
    named = info("a", b"x", uname="root", gname="no group of that name", uid=5, gid=77)
    (here.files / "y.tar").write_bytes(tar(named, info("b", uid=66), mode="w:"))
    here.run("unarchive", **given)
    assert ((dest / "a").stat().st_uid, (dest / "a").stat().st_gid) == (0, 77)
    assert (dest / "b").stat().st_uid == 66
    assert changes(here, **given) == []


def test_parts_of_an_archive(here: Carrier, dest: Path) -> None:
    given = {"src": "x.tgz", "dest": str(dest), "exclude": ["sub", "l*k", "run"]}
    here.run("unarchive", **given, extra_opts=["--strip-components=1"])
    assert {path.name for path in dest.iterdir()} == {"a b'\\$HOME", "same"}
    assert not (dest / "same").is_symlink()
    included = here.run("unarchive", src="x.tgz", dest=str(dest), include=["top/sub"], list_files=True)
    assert included["files"] == ["top/sub/", "top/sub/empty", "top/sub/é"]
    with pytest.raises(TaskFailed, match="top/none is not in the archive"):
        here.plan("unarchive", src="x.tgz", dest=str(dest), include=["top/none"])


def test_newer_files_are_kept(here: Carrier, dest: Path) -> None:
    given = {"src": "x.tgz", "dest": str(dest), "keep_newer": True}
    here.run("unarchive", **given)
    (dest / "top" / "sub" / "é").write_text("mine, and newer")
    (dest / "top" / "sub" / "empty").write_text("mine, and older")
    os.utime(dest / "top" / "sub" / "empty", (1, 1))
    assert here.run("unarchive", **given)["changed"] is True
    assert (dest / "top" / "sub" / "é").read_text() == "mine, and newer"
    assert (dest / "top" / "sub" / "empty").read_text() == ""
    assert changes(here, **given) == []


def test_the_folder_has_to_be_there(here: Carrier, dest: Path) -> None:
    with pytest.raises(TaskFailed, match="is no folder") as caught:
        here.plan("unarchive", src="x.tgz", dest=str(dest / "none"))
    assert caught.value.code == "absent"
    assert here.plan("unarchive", src="x.tgz", dest=str(dest), creates=str(dest)).skipped


# -- archives that mean harm ---------------------------------------------------------------------------------


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return info(name, type=tarfile.SYMTYPE, linkname=target)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tar(info("../x")), "out of dest"),
        (tar(info("a/../../x")), "out of dest"),
        (tar(info("/etc/x")), "out of dest"),
        (tar(link("a", "/etc")), "leads out"),
        (tar(link("a/b", "../../c")), "leads out"),
        (tar(link("a", "b"), info("a/x")), "through the link a"),
        (tar(info("a", type=tarfile.LNKTYPE, linkname="../x")), "out of dest"),
        (tar(info("a", type=tarfile.LNKTYPE, linkname="x")), "no file in the archive"),
        (tar(info("a", type=tarfile.CHRTYPE)), "device or a pipe"),
        (tar(info("a", type=tarfile.FIFOTYPE)), "device or a pipe"),
        (tar(info("a\nb")), "line break"),
        (b"no archive at all" * 100, "not an archive"),
        (tar(info("a", b"x" * 5000))[:-40], "not an archive"),
        (b"PK\x03\x04 but no more", "not an archive"),
        (b"", "not an archive"),
    ],
    # not by their bytes, which hold the time: the same test has the same name in every process
    ids=lambda value: value if isinstance(value, str) else "archive",
)
def test_what_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(TaskFailed, match=why) as caught:
        members(content)
    assert caught.value.code == "archive"


def test_a_small_archive_of_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "UNPACKED_LIMIT", 1024)
    with pytest.raises(TaskFailed, match="more than"):
        members(tar(info("a", b"\0" * 600), info("b", b"\1" * 600)))


def test_a_zip_without_dates() -> None:
    # the date of the one entry, in its header and in the directory of the archive
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(zipfile.ZipInfo("a", (1980, 1, 1, 0, 0, 0)), "x")
    (found,) = members(out.getvalue().replace(b"\0\0\x21\0", b"\0\0\0\0"))
    assert (found.mtime, found.size) == (315532800, 1)


def test_links_inside_are_fine() -> None:
    found = members(tar(link("a/b", "../c"), info("c", b"x")))
    assert [(member.name, member.target) for member in found] == [("a/b", "../c"), ("c", "")]


def test_a_name_counts_by_its_last_member() -> None:
    (found,) = members(tar(info("a", b"old"), info("./a", b"newer")))
    assert found.size == 5


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("a", ["b/c.log", "b/x/c.log"]),
        ("*.log", ["a"]),
        ("b", ["a"]),
        ("b/x/", ["a", "b/c.log"]),
        ("x", ["a", "b/c.log"]),
        ("b/*.log", ["a"]),
        ("none", ["a", "b/c.log", "b/x/c.log"]),
    ],
)
def test_excluded(pattern: str, left: list[str]) -> None:
    """As GNU tar was seen to do it."""
    found = [Member(name, "file", 0o644) for name in ("a", "b/c.log", "b/x/c.log")]
    assert [member.name for member in chosen(found, [], [pattern], 0)] == left


def test_exclusion_is_that_of_tar(tmp_path: Path) -> None:
    if shutil.which("tar") is None:
        pytest.skip("no tar here")
    content = tar(*(info(name) for name in ("a", "b/c.log", "b/x/c.log", "b/x/d")), mode="w:")
    for pattern in ("a", "*.log", "b", "b/x", "x", "b/*.log", "?", "x/d", "b/x/c*"):
        argv = ["tar", "-tf", "-", f"--exclude={pattern}"]
        listed = subprocess.run(argv, input=content, capture_output=True, check=True).stdout.decode().split()
        assert [member.name for member in chosen(members(content), [], [pattern], 0)] == listed, pattern


def test_nothing_there_differs() -> None:
    found = [Member("a", "directory", 0o755)]
    assert differing(found, {}, owners=False, times=True, keep_newer=True) == tuple(found)


# -- archives of the host ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*KINDS, "x.zip"])
def test_an_archive_of_the_host(here: Carrier, dest: Path, name: str) -> None:
    if name == "x.zip" and shutil.which("unzip") is None:
        pytest.skip("no unzip here")
    given = {"src": str(here.files / name), "dest": str(dest), "remote_src": True}
    plan = here.plan("unarchive", **given)
    assert (len(plan.changes), plan.unknown, plan.result["handler"]) == (
        1,
        "",
        handler((here.files / name).read_bytes()),
    )
    assert here.run("unarchive", **given)["changed"] is True
    assert (dest / "top" / "run").read_text() == "#!/bin/sh\n" * 1000
    assert changes(here, **given) == []
    (dest / "top" / "run").write_text("else")
    assert here.run("unarchive", **given)["changed"] is True
    assert changes(here, **given) == []
    (dest / "top" / "link").unlink()
    assert len(changes(here, **given)) == 1


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_a_member_is_no_option_of_tar(here: Carrier, dest: Path, key: str, tmp_path: Path) -> None:
    """``--checkpoint-action=exec=...`` would run a program, in check mode, too."""
    ran = tmp_path / "ran"
    options = ["--checkpoint=1", f"--checkpoint-action=exec=touch {ran}"]
    given: dict[str, Any] = {"src": str(here.files / "x.tgz"), "dest": str(dest), "remote_src": True}
    with pytest.raises(TaskFailed, match="no name of a member but an option"):
        here.plan("unarchive", **given, **{key: options})
    with pytest.raises(ValueError, match="not a read"):
        ArchiveRead("k", given["src"], given["dest"], **{key: tuple(options)})
    with pytest.raises(ValueError, match="not a read"):
        ArchiveRead("k", given["src"], given["dest"], tuple(options))
    assert not ran.exists()


def test_included_members_of_an_archive_of_the_host(here: Carrier, dest: Path) -> None:
    given = {"src": str(here.files / "x.tgz"), "dest": str(dest), "remote_src": True}
    assert here.run("unarchive", include=["./top/run"], **given)["changed"] is True
    assert [path.name for path in (dest / "top").iterdir()] == ["run"]
    assert changes(here, include=["./top/run"], **given) == []


def test_what_of_the_host_is_no_archive(here: Carrier, dest: Path) -> None:
    (here.files / "text").write_text("no archive")
    with pytest.raises(TaskFailed, match="is no archive"):
        here.plan("unarchive", src=str(here.files / "text"), dest=str(dest), remote_src=True)


# -- a host of busybox alone ---------------------------------------------------------------------------------


@pytest.fixture
def busybox(tmp_path: Path) -> dict[str, str]:
    """The environment of a host whose only programs are busybox'."""
    found = shutil.which("busybox")
    if found is None:
        pytest.skip("no busybox here")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in subprocess.check_output([found, "--list"], text=True).split():
        (folder / name).symlink_to(found)
    return {"PATH": str(folder)}


def ask(read: ManifestRead | ArchiveRead, environment: dict[str, str]) -> Reply:
    shell = shutil.which("sh", path=environment["PATH"])
    assert shell is not None
    done = subprocess.run(
        [shell, "-c", read.script],
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return Reply(done.returncode, done.stdout, done.stderr)


def test_members_are_compared_by_busybox(here: Carrier, dest: Path, busybox: dict[str, str]) -> None:
    here.run("unarchive", src="x.tgz", dest=str(dest))
    read = ManifestRead("k", str(dest), tuple(name.rstrip("/") for name in (*NAMES, "none")))
    there = manifest(ask(read, busybox))
    assert there == manifest(ask(read, dict(os.environ)))
    assert len(there) == len(NAMES)


@pytest.mark.parametrize("name", KINDS)
def test_busybox_lists_archives_but_compares_none(
    here: Carrier, dest: Path, busybox: dict[str, str], name: str
) -> None:
    reply = ask(ArchiveRead("k", str(here.files / name), str(dest)), busybox)
    assert reply.rc == 0, reply.error_text
    _, _, names, compared, differences, _ = reply.stdout.split(b"\0")
    assert (len(names.splitlines()), compared, differences) == (8, b"", b"")


def test_busybox_unpacks_what_is_sent(here: Carrier, dest: Path, busybox: dict[str, str]) -> None:
    content = (here.files / "x.txz").read_bytes()
    found = members(content)
    argv = [f"{busybox['PATH']}/tar", "-xpf", "-", "-C", str(dest)]
    subprocess.run(argv, input=packed(content, found, found), env=busybox, check=True)
    assert changes(here, src="x.txz", dest=str(dest)) == []


def test_what_is_known_of_an_archive_keeps_no_archive_in_memory() -> None:
    found = members(tar(info("a", b"x")))
    assert members(tar(info("a", b"x"))) is found
    for number in range(20):
        members(tar(info(f"{number}")))
    assert 0 < len(archives._KNOWN) <= archives._MOST_KNOWN
    assert all(len(key) == 32 for key in archives._KNOWN)
