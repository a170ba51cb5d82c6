"""Processes this machine runs for a rehearsal, by identity: pid and start time, never a name."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Started:
    """A process we started.

    ``start``: hundredths of a second after boot, which no change of the clock moves.
    """

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Started | None:
        """The process that has this pid now; None when there is none."""
        found = _look(pid)
        return cls(pid, found[0]) if found else None

    def alive(self) -> bool:
        """Whether it still runs; a zombie doesn't."""
        found = _look(self.pid)
        return found is not None and found[0] == self.start and found[1] not in _ENDED

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


_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _look(pid: int) -> tuple[int, str] | None:
    """Start time and state of a process; None when there is none."""
    try:
        process = psutil.Process(pid)
        # the boot time first: some versions of psutil keep it, and count from what they kept
        boot = psutil.boot_time()
        return round((process.create_time() - boot) * 100), process.status()
    except psutil.NoSuchProcess:
        return None
