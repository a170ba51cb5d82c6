"""Processes this machine runs for a rehearsal, by identity: pid and start time, never a name."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Started:
    """A process we started. ``start`` is field 22 of /proc/PID/stat, clock ticks since boot."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Started | None:
        """The process that has this pid now; None when there is none."""
        fields = _stat(pid)
        return cls(pid, int(fields[19])) if fields else None

    def alive(self) -> bool:
        """Whether it still runs; a zombie doesn't."""
        fields = _stat(self.pid)
        return bool(fields) and fields[0] not in "ZX" and int(fields[19]) == self.start

    def end(self, *, seconds: float = 20.0) -> bool:
        """TERM, then KILL after ``seconds``, through a pidfd checked by start time; True when it is gone."""
        if not self.alive():
            return True
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
            try:
                fd = os.pidfd_open(self.pid)
            except ProcessLookupError:
                return True
            try:
                if not self.alive():
                    return True
                with contextlib.suppress(ProcessLookupError):  # it ended in this moment
                    signal.pidfd_send_signal(fd, number)
                if select.select([fd], [], [], patience)[0]:
                    with contextlib.suppress(
                        ChildProcessError
                    ):  # not a child of this run: its parent reaps it
                        os.waitpid(self.pid, 0)
                    return True
            finally:
                os.close(fd)
        return False


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; [] when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
