"""Which members a server can't do without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from klops.agent.processes import procs
from klops.agent.units.vital import Vital

HOLD = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    """A unit with one card."""
    (tmp_path / "xpu0").symlink_to("/dev/full")
    return {"cards": [{"index": 0, "minor": 0, "node": "/dev/xpu0"}], "device_dir": str(tmp_path)}


@contextmanager
def holder(spec: dict[str, Any]) -> Iterator[procs.Process]:
    """A child that holds the card."""
    command = [sys.executable, "-S", "-c", HOLD, f"{spec['device_dir']}/xpu0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        process = procs.read(child.pid)
        assert process is not None
        yield process
        child.communicate()


def test_a_worker_is_vital_and_a_passing_child_is_not(spec: dict[str, Any]) -> None:
    vital, root = Vital(), os.getpid()
    with holder(spec) as worker:
        with holder(spec) as passing:
            vital.learn([worker, passing], procs.table(), root, spec)
            assert vital.lost([worker]) == ""  # nothing is known after one look
        vital.learn([worker], procs.table(), root, spec)
        assert vital.lost([worker]) == ""
    assert vital.lost([]) == f"a part of the engine is gone: pid {worker.pid} ({worker.name})"
    assert vital.missing([]) == {(worker.pid, worker.start)}
    vital.clear()
    assert vital.lost([]) == ""


def test_what_the_server_did_without_is_not_missed_any_more(spec: dict[str, Any]) -> None:
    vital, root = Vital(), os.getpid()
    with holder(spec) as worker, holder(spec) as helper:
        for _ in range(2):
            vital.learn([worker, helper], procs.table(), root, spec)
        assert len(vital.known()) == 2
        vital.drop(vital.missing([worker]))
        assert vital.known() == [[worker.pid, worker.start, worker.name]]
        assert vital.lost([worker]) == ""
        assert str(worker.pid) in vital.lost([helper])
