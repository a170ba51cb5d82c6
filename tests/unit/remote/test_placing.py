"""How files get to their places, as the shells of hosts do it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from klops.remote.placing import CHANGED, NOTHING, PLACING, digest_of, put_argv, put_input

SHELLS = [["dash"], ["busybox", "sh"]]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
pytestmark = pytest.mark.skipif(
    not all(shutil.which(shell[0]) for shell in SHELLS), reason="needs dash and busybox"
)


@pytest.fixture(params=SHELLS, ids=["dash", "busybox"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that hosts have."""
    found: list[str] = request.param
    return found


def put(
    shell: list[str],
    path: Path,
    data: bytes,
    *,
    mode: int = 0o644,
    owner: str = "",
    seen: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """What a remote does to write a file."""
    _, *rest = put_argv(str(path), len(data), mode, owner)
    return subprocess.run(
        [*shell, *rest], input=put_input(data, seen), capture_output=True, check=False, env=env
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_name_as_long_as_a_file_system_allows(shell: list[str], tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    assert put(shell, path, b"x").returncode == 0
    assert path.read_bytes() == b"x"


def test_it_says_what_the_file_has_become(shell: list[str], tmp_path: Path) -> None:
    done = put(shell, tmp_path / "x", b"abc", mode=0o640)
    lines = done.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["-rw-r-----"] * 2
    assert lines[0].split()[2:5] == [str(os.geteuid()), str(os.getegid()), "3"]


@ROOT
def test_owner_and_mode_are_there_before_the_name(shell: list[str], tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    # mv is the moment at which the file gets its name: what it looks like then is written down
    (tools / "mv").write_text('#!/bin/sh\nstat -c "%u:%g %a" -- "$3" >>"$SEEN"\nexec /bin/mv "$@"\n')
    (tools / "mv").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen")}
    path = tmp_path / "x"
    assert put(["dash"], path, b"x", mode=0o4750, owner="12:13", env=env).returncode == 0
    assert (tmp_path / "seen").read_text() == "12:13 4750\n"
    assert put(shell, path, b"y", mode=0o4750, owner="12:13").returncode == 0
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12, 13, 0o4750)


def test_what_somebody_else_wrote_is_not_written_over(shell: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert put(shell, path, b"new", seen=digest_of(b"")).returncode == CHANGED
    assert names(tmp_path) == []
    assert put(shell, path, b"one", seen=NOTHING).returncode == 0
    assert put(shell, path, b"two", seen=NOTHING).returncode == CHANGED
    assert put(shell, path, b"two", seen=digest_of(b"other")).returncode == CHANGED
    assert path.read_bytes() == b"one"
    assert put(shell, path, b"two", seen=digest_of(b"one")).returncode == 0
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["x"]


def test_a_folder_that_appears_is_not_entered(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "new").write_text("x")
    (tmp_path / "folder").mkdir()
    script = f'{PLACING}\nplace "$1" "$2"'
    argv = [*shell, "-c", script, "place", str(tmp_path / "new"), str(tmp_path / "folder")]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 73
    assert b"is a directory" in done.stderr
    assert (names(tmp_path), names(tmp_path / "folder")) == (["folder", "new"], [])


@pytest.mark.parametrize("kind", ["file", "-d"])
@pytest.mark.parametrize("mktemp", [True, False], ids=["mktemp", "no mktemp"])
def test_nothing_that_stands_beside_is_taken(
    shell: list[str], tmp_path: Path, kind: str, mktemp: bool
) -> None:
    # the first names of the second way, were it to be taken, are links to somebody's file
    (tmp_path / "victim").write_text("mine")
    fallback = "" if mktemp else 'command() { [ "$2" != mktemp ]; }\n'
    trap = 'for n in 0 1 2; do ln -s victim "$1/.klops-$$-$n"; done\n'
    script = f'{PLACING}\n{fallback}{trap}beside "$1" "$2" && ls -ld "$t" && [ ! -h "$t" ]'
    argv = [*shell, "-c", script, "beside", str(tmp_path), "" if kind == "file" else kind]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"drwx------" if kind == "-d" else b"-rw-------")
    assert (tmp_path / "victim").read_text() == "mine"
    # and the shell took what it made away
    assert len(names(tmp_path)) == 4
