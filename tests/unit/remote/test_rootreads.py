"""Files below klops' root, on the host and in the layer of an adopted container."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from klops.remote.base import Reply
from klops.remote.reads import ABSENT, Read
from klops.remote.rootreads import RootFileRead, RootNamesRead, archive, plain

#: Answers ``cp`` with what lies beside it, and says what it was asked.
DOCKER = """#!/bin/sh
cd "$(dirname "$0")" || exit 99
printf '%s\\n' "$*" >asked
cat says >&2
cat tar
exit "$(cat rc)"
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A docker that gives an empty archive."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    answers(folder)
    return folder


def answers(engine: Path, tar: bytes = b"", says: str = "", rc: int = 0) -> None:
    (engine / "tar").write_bytes(tar)
    (engine / "says").write_text(says)
    (engine / "rc").write_text(str(rc))


def ask(read: Read) -> Reply:
    done = subprocess.run(["sh", "-c", read.script], capture_output=True, check=False)
    return Reply(done.returncode, done.stdout, done.stderr)


def file_read(engine: Path, path: Path, record: Path) -> RootFileRead:
    return RootFileRead(
        "state:main", (str(engine / "docker"), "-H", "unix:///x"), "a box", str(path), str(record)
    )


def folder_of(names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            if name.endswith("/"):
                entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
    return buffer.getvalue()


def test_without_an_adopted_container_the_host_is_read_and_docker_is_not_asked(
    engine: Path, tmp_path: Path
) -> None:
    path = tmp_path / "main.state.json"
    read = file_read(engine, path, tmp_path / "adopted.json")
    assert ask(read).rc == ABSENT
    path.write_bytes(b'{"a": 1}\n')
    assert plain(ask(read)).json() == {"a": 1}
    names = RootNamesRead("run", read.docker, read.container, str(tmp_path), read.record)
    assert plain(ask(names)).text.split() == ["bin", "main.state.json"]
    assert not (engine / "asked").exists()


def test_of_an_adopted_one_the_file_is_copied_out_of_it(engine: Path, tmp_path: Path) -> None:
    record = tmp_path / "adopted.json"
    record.touch()
    (tmp_path / "main.state.json").write_bytes(b"of the host")
    content = b"\0 any \xff bytes\n@@ " * 100
    answers(engine, archive("main.state.json", content, 0o600))
    got = plain(ask(file_read(engine, tmp_path / "main.state.json", record)))
    assert (got.rc, got.stdout) == (0, content)
    asked = (engine / "asked").read_text()
    assert asked == f"-H unix:///x cp a box:{tmp_path}/main.state.json -\n"


@pytest.mark.parametrize(
    ("says", "rc"),
    [
        ("Error: No such container:path: box:/k/run/main.state.json", ABSENT),
        ("Error response from daemon: Could not find the file /k/run/x in container box", ABSENT),
        ("Error response from daemon: No such container: box", 1),
        ("Cannot connect to the Docker daemon at unix:///x. connect: no such file or directory", 1),
    ],
)
def test_a_file_that_is_not_there_is_told_apart_from_a_container_that_can_not_be_asked(
    engine: Path, tmp_path: Path, says: str, rc: int
) -> None:
    record = tmp_path / "adopted.json"
    record.touch()
    answers(engine, b"", says + "\n", 1)
    got = plain(ask(file_read(engine, tmp_path / "x", record)))
    assert (got.rc, got.stdout, got.error_text.strip()) == (rc, b"", says)


def test_names_in_a_folder_are_those_in_it_and_no_deeper() -> None:
    tar = folder_of(["run/", "run/b.state.json", "run/a.state.json", "run/sub/", "run/sub/x", "run/.hidden"])
    assert plain(Reply(0, tar)).text == "a.state.json\nb.state.json\nsub\n"
    assert plain(Reply(0, folder_of(["run/"]))) == Reply(0, b"")


def test_an_archive_that_came_in_part_is_no_answer() -> None:
    whole = archive("x", b"1" * 5000, 0o600)
    assert plain(Reply(0, whole)).stdout == b"1" * 5000
    assert plain(Reply(0, whole[:2048])).rc == 1


def test_what_goes_in_belongs_to_root_and_has_its_mode() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive("x.json", b"{}", 0o600))) as tar:
        (entry,) = tar.getmembers()
    assert (entry.name, entry.uid, entry.gid, entry.mode, entry.size) == ("x.json", 0, 0, 0o600, 2)
