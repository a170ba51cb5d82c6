"""Whose a process is: its user has the name that it has where the process lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.options import Options
from klops.agent.processes import accounts, openfiles, procs
from klops.agent.reaping import verb
from tests.unit.agent.sharing import having

#: Lives below another folder, with a file open there.
_ELSEWHERE = "import os; kept = open(sys.argv[2], 'rb'); os.chroot(sys.argv[1])"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can live below another folder")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A root folder with accounts of its own."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"ann:x:{os.geteuid()}:0::/:/bin/sh\nbob:x:4711:0::/:/bin/sh\n")
    return tmp_path


@pytest.fixture
def elsewhere(folder: Path) -> Iterator[procs.Process]:
    """A process that lives there, and holds what may stand for card 0."""
    with having(_ELSEWHERE, folder, "/dev/full") as process:
        yield process


@needs_root
def test_the_name_is_that_of_where_it_lives(folder: Path, elsewhere: procs.Process) -> None:
    assert accounts.name_there(elsewhere.pid, os.geteuid()) == "ann"
    assert accounts.name_there(elsewhere.pid, 4711) == "bob"
    assert accounts.name_there(elsewhere.pid, 4712) == "4712"
    assert accounts.name_there(os.getpid(), os.geteuid()) == accounts.name(os.geteuid())
    assert accounts.name_there(2**22 + 1, 4711) == "4711"


@needs_root
@pytest.mark.parametrize("kind", ["link", "folder link", "fifo", "folder", "nothing"])
def test_what_is_no_list_of_accounts_there_gives_the_number(
    folder: Path, elsewhere: procs.Process, kind: str
) -> None:
    listed = folder / "etc/passwd"
    others = listed.rename(folder / "others")
    if kind == "link":  # it would lead to a file of who looks
        listed.symlink_to(others)
    elif kind == "folder link":
        (folder / "etc").rename(folder / "real")
        others.rename(folder / "real/passwd")
        (folder / "etc").symlink_to(folder / "real")
    elif kind == "fifo":
        os.mkfifo(listed)
    elif kind == "folder":
        listed.mkdir()
    assert accounts.name_there(elsewhere.pid, 4711) == "4711"


@needs_root
def test_a_clean_up_from_the_host_tells_the_name_that_its_user_has_there(
    folder: Path, elsewhere: procs.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "xpu0").symlink_to("/dev/full")
    argv = ["reap", "--root", str(folder), "--device-dir", str(folder), "--check"]

    def user(*words: str) -> str:
        found = verb.reap(Options([*argv, *words]))
        (row,) = [
            one
            for name in ("foreign", "unowned", "unknown")
            for one in found[name]
            if elsewhere.start == one["start"] and elsewhere.pid in (one["pid"], one["cpid"])
        ]
        return str(row["user"])

    assert user("--host") == "ann"
    assert user() == accounts.name(os.geteuid())
    monkeypatch.setattr(openfiles, "settled", lambda process, until: False)
    assert user("--host") == str(os.geteuid())
