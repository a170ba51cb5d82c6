"""Processes that really can't be ended: KILL waits until somebody thaws them, as with a driver that is stuck.

The freezer of cgroup v1 puts a process into uninterruptible sleep (state D); that of v2 lets KILL through.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

FREEZER = Path("/sys/fs/cgroup/freezer")


def state(pid: int) -> str:
    """A process' state; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Frozen:
    """Freezes processes until :meth:`thaw`. Made by :func:`freezer`."""

    def __init__(self, group: Path) -> None:
        self._group = group
        self._homes: dict[int, str] = {}

    def freeze(self, *pids: int) -> None:
        """Freeze processes, by their pids here."""
        for pid in pids:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
            (self._homes[pid],) = [line.split(":", 2)[2] for line in lines if ":freezer:" in line]
            (self._group / "cgroup.procs").write_text(str(pid))
        (self._group / "freezer.state").write_text("FROZEN")
        until(lambda: all(state(pid) == "D" for pid in pids), what="they are frozen")

    def thaw(self) -> None:
        """Let them go on, and so end where that was asked."""
        (self._group / "freezer.state").write_text("THAWED")
        until(lambda: all(state(pid) != "D" for pid in self._homes), what="they are thawed")


@contextmanager
def freezer() -> Iterator[Frozen]:
    """Body of a fixture; at its end all is thawed and back where it was."""
    if os.geteuid() != 0 or not (FREEZER / "cgroup.procs").exists():
        pytest.skip("no freezer of cgroup v1 here: no process that KILL doesn't end can be made")
    group = FREEZER / f"klops-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    frozen = Frozen(group)
    try:
        yield frozen
    finally:
        frozen.thaw()
        for pid, home in frozen._homes.items():
            if state(pid) not in ("", "Z"):
                (FREEZER / home.lstrip("/") / "cgroup.procs").write_text(str(pid))
        until(lambda: not (group / "cgroup.procs").read_text().strip(), what="nobody is left in it")
        group.rmdir()
