"""Who only looks at cards is in nobody's way, whatever spelling of its name, and nobody else is so spared."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.options import Options
from klops.agent.processes import devices, observers, openfiles, procs
from klops.agent.reaping import sight
from klops.agent.units import launching
from klops.agent.verbs import views
from klops.agent.xccl import refusal
from tests.unit.agent.opening import opener

#: any device that every machine has may stand in for a card
TARGET = "/dev/zero"
HOLD = (
    "import os, sys; fd = os.open(sys.argv[-1], os.O_RDWR); print(os.getpid(), flush=True); sys.stdin.read()"
)
CARDS = [{"index": 4, "minor": 3, "node": "/dev/xpu3"}]


@contextlib.contextmanager
def holder(folder: Path, name: str, *, script: bool) -> Iterator[int]:
    """Pid of a process that has card 4 open: a program of that name, or an interpreter that runs one."""
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{HOLD}\n")
    program.chmod(0o755)
    argv = [sys.executable, str(program)] if script else [str(program)]
    with subprocess.Popen(
        [*argv, str(folder / "xpu3")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "xpu3").symlink_to(TARGET)
    return tmp_path


def told(folder: Path, pid: int) -> tuple[list[str], bool, bool]:
    """Of a process that has the card open: in which lists of ``holders``, refused by a test, an observer of
    the clean-up."""
    found = views.view(Options(["holders", "--root", str(folder), "--device-dir", str(folder)]), "")
    lists = [name for name, of in found.items() if pid in {one["cpid"] for one in of}]
    seen = sight.look(str(folder), os.getuid(), devices.nodes(str(folder)), host=False).processes[pid]
    assert seen.cards == ("xpu3",)
    return lists, f"pid {pid} " in refusal._held(CARDS, str(folder)), seen.observer


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("name", ["xpu-smi", "xpu_smi"])
def test_a_monitor_is_no_holder_for_tests_views_and_the_clean_up(
    folder: Path, name: str, script: bool
) -> None:
    with holder(folder, name, script=script) as pid:
        assert told(folder, pid) == (["observers"], False, True)


def test_anybody_else_is(folder: Path) -> None:
    with holder(folder, "xpu-smi-exporter", script=False) as pid:
        assert told(folder, pid) == (["holders"], True, False)


def in_the_way(folder: Path, process: procs.Process | None) -> str:
    """What a start on card 4 finds in its way where there is only this process."""
    assert process is not None
    spec = {"cards": CARDS, "device_dir": str(folder), "port": 1}
    return launching.obstacle(spec, {process.pid: process}, opener()).problem


@pytest.mark.parametrize("script", [False, True])
def test_a_monitor_that_stays_open_lets_a_service_start(folder: Path, script: bool) -> None:
    with holder(folder, "xpu-smi", script=script) as pid:
        assert in_the_way(folder, procs.read(pid)) == ""
    with holder(folder, "xpu-smi-exporter", script=script) as pid:
        assert f"pid {pid} (" in in_the_way(folder, procs.read(pid))


def test_nor_is_a_monitor_in_its_way_whose_files_can_t_be_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what the kernel does to a process of another user; a test that runs as root can't have that
    monkeypatch.setattr(devices, "held", lambda process, watched, until: None)
    me = procs.read(os.getpid())
    assert me is not None
    assert in_the_way(folder, me._replace(name="xpu-smi")) == ""
    assert "no access to the open files" in in_the_way(folder, me._replace(name="nvtop"))


def test_one_that_is_stuck_in_the_driver_does_not_let_go_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openfiles, "PATIENCE", 0.0)
    me = procs.read(os.getpid())
    assert me is not None
    tool = me._replace(name="xpu-smi")
    assert observers.observes(tool)
    stuck = tool._replace(state="D")
    monkeypatch.setattr(procs, "read", lambda pid: stuck)
    assert not observers.observes(stuck)
