"""Cards by device number, and who holds them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.agent.processes import devices, procs
from klops.agent.units import launching
from tests.frozen import freezer
from tests.unit.agent.opening import opener


def folder_of(tmp_path: Path, **nodes: str) -> str:
    """A device folder whose nodes lead to devices that every machine has (null 1:3, zero 1:5, full 1:7)."""
    for name, target in nodes.items():
        (tmp_path / name).symlink_to(target)
    return str(tmp_path)


def card(index: int, minor: int) -> dict[str, Any]:
    """A card of a specification."""
    return {"index": index, "minor": minor, "node": f"/dev/xpu{minor}"}


def test_a_card_is_found_by_its_node_and_called_by_its_rank(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, xpu2="/dev/full", xpu10="/dev/null", xpu5="/dev/zero", xpuctrl="/dev/random")
    found, problem = devices.resolve([card(0, 10), card(1, 2)], folder)
    assert (problem, [node.path for node in found]) == ("", [f"{folder}/xpu10", f"{folder}/xpu2"])
    # what runtimes call them: the rank among the card nodes present, 2 < 5 < 10
    assert devices.ranks(found, folder) == [2, 0]


def test_a_missing_card_is_named_and_no_other_takes_its_place(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, xpu4="/dev/null")
    found, problem = devices.resolve([card(2, 4), card(3, 5)], folder)
    assert problem == f"card 3 (minor 5, {folder}/xpu5) is not in this container"
    assert len(found) == 1


def test_a_plain_file_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "xpu3").write_text("")
    _, problem = devices.resolve([card(1, 3)], str(tmp_path))
    assert problem == f"card 1 (minor 3, {tmp_path}/xpu3) is not a character device in this container"
    _, problem = devices.resolve([card(1, 4)], str(tmp_path))
    assert problem == f"card 1 (minor 4, {tmp_path}/xpu4) is not in this container"


HOLD = """
import ctypes, os, sys
fd = os.open(sys.argv[2], os.O_RDWR)
if sys.argv[1] == "mapped":
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    assert libc.mmap(None, 4096, 3, 2, fd, ctypes.c_long(0)) not in (None, ctypes.c_void_p(-1).value)
    os.close(fd)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_holders_by_descriptor_and_by_mapping(tmp_path: Path, how: str) -> None:
    if how == "mapped":
        if os.geteuid() != 0:
            pytest.skip("making device nodes needs root")
        os.mknod(tmp_path / "xpu0", 0o600 | 0o020000, Path("/dev/zero").stat().st_rdev)
        folder = str(tmp_path)
    else:
        folder = folder_of(tmp_path, xpu0="/dev/full")
    watched = devices.nodes(folder)
    command = [sys.executable, "-S", "-c", HOLD, how, f"{folder}/xpu0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        process = procs.read(holder.pid)
        assert process is not None
        assert devices.holders([process], watched) == ({holder.pid: [f"{folder}/xpu0"]}, [])
        holder.communicate()
    assert devices.holders([process], watched) == ({}, [])


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_of_one_that_sits_in_the_driver_the_map_is_not_read(tmp_path: Path, how: str) -> None:
    os.mknod(tmp_path / "xpu0", 0o600 | 0o020000, Path("/dev/zero").stat().st_rdev)
    watched = devices.nodes(str(tmp_path))
    command = [sys.executable, "-S", "-c", HOLD, how, f"{tmp_path}/xpu0"]
    with contextlib.ExitStack() as last:
        holder = last.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        frozen = last.enter_context(freezer())
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        frozen.freeze(holder.pid)
        process = procs.read(holder.pid)
        assert process is not None
        held = {holder.pid: [f"{tmp_path}/xpu0"]} if how == "open" else {}
        assert devices.holders([process], watched) == (held, [])
        frozen.thaw()
        assert list(devices.holders([process], watched)[0]) == [holder.pid]  # seen as soon as it can be
        holder.communicate()


def test_what_cant_be_seen_is_in_the_way_of_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path, xpu0="/dev/full")
    spec = {"cards": [card(0, 0)], "device_dir": folder, "port": 1}
    process = procs.Process(77, 1, 77, 77, "S", 5, "nvtop")
    # what the kernel does to a process of another user; a test that runs as root can't have that
    monkeypatch.setattr(devices, "held", lambda process, watched, until: None)
    processes = {77: process, 1: process._replace(pid=1, name="init")}
    problem, lacking, _ = launching.obstacle(spec, processes, opener())
    assert problem.endswith("no access to the open files of pid 77 (nvtop)")
    assert not lacking
