"""Room in /dev/shm before a start."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.processes import procs
from klops.agent.units import room
from tests.unit.agent.sharing import OPEN, having

MIB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A /dev/shm of 8 MiB."""
    if os.geteuid():
        pytest.skip("mounting a file system needs root")
    folder = tmp_path / "shm"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "small", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_too_little_names_what_takes_it_and_who_has_that(small: Path) -> None:
    (small / "vllm_offload_x.mmap").write_bytes(bytes(4 * MIB))
    (small / "nccl-live").write_bytes(bytes(2 * MIB))
    with having(OPEN, small / "nccl-live") as holder:
        said = room.shortage({"min_shm": 4 * MIB}, procs.table(), str(small))
        assert said.startswith(f"{small} has 2 MiB of 8 MiB free, and min_shm asks for 4 MiB")
        assert f"{small}/vllm_offload_x.mmap 4 MiB (open: " in said
        assert f"{small}/nccl-live 2 MiB (open: pid {holder.pid} (python" in said
        assert "klops reap removes" in said
    assert room.shortage({"min_shm": 2 * MIB}, {}, str(small)) == ""


def test_what_can_never_be_enough_says_how_it_is_made_larger(small: Path) -> None:
    said = room.shortage({"min_shm": 9 * MIB}, {}, str(small))
    assert "container.shm" in said
    assert "klops reap" not in said


def test_without_a_need_nothing_is_looked_at(tmp_path: Path) -> None:
    assert room.shortage({}, {}, str(tmp_path / "none")) == ""
    assert room.shortage({"min_shm": 0}, {}, str(tmp_path / "none")) == ""


def test_what_cannot_be_seen_is_not_enough(tmp_path: Path) -> None:
    assert "can't be seen: No such file" in room.shortage({"min_shm": 1}, {}, str(tmp_path / "none"))
