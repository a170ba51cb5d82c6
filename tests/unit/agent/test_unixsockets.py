"""Unix sockets with a path, as the kernel lists them: names are there raw."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from klops.agent.processes import unixsockets
from tests.shortpaths import short_folder


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name, to be in."""
    with short_folder() as made:
        monkeypatch.chdir(made)
        yield made


ODD = [
    b"n\nz q w e r t y p",
    b"\0n\nz q w e r t y p",
    b"x\n",
    b"n\n@: 1 2 3 4 5 6 7",
    b"\xff\xfe",
    b"sp ace\rr",
]


@pytest.mark.parametrize("name", ODD)
def test_a_name_of_any_user_spoils_no_line_but_its_own(folder: Path, name: bytes) -> None:
    own = os.fsencode(folder) + b"/own"
    with ExitStack() as stack:
        inodes = []
        for bound in (name, own):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(bound)
            one.listen()
            inodes.append(os.fstat(one.fileno()).st_ino)
        found = {one.inode: one for one in unixsockets.bound()}
    assert found[inodes[1]] == (inodes[1], os.fsdecode(own), True)
    if b"\n" not in name:
        assert found[inodes[0]].path == os.fsdecode(name)
