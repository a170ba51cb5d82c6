"""Programs that a verb runs: heard line by line, limited in time, and ended with all that they began."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from typing import Callable, List, Mapping, Sequence

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import procs, subreaper
from klops.agent.trouble import Troubles
from klops.agent.units.killing import end_all, end_children
from klops.agent.units.lineage import Lineage

_PR_SET_PDEATHSIG = 1
#: Bytes of a line that are shown, and after which one counts as a line although it goes on.
_WIDTH, _LONGEST_LINE = 4096, 1 << 16
#: Characters of a line that an error quotes: some programs write megabytes without an end of line.
_QUOTED = 400
#: Seconds between looks for the end, and for descendants.
_LOOK = 0.2
_GROW = 1.0


def shown(line: bytes) -> str:
    """A line as text."""
    return line[:_WIDTH].decode("utf-8", "replace").rstrip("\r")


class Last(List[str]):
    """The last lines, for an error."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def add(self, line: str) -> None:
        """One more, shortened; the first goes when they are too many."""
        self.append(line if len(line) <= _QUOTED else line[:_QUOTED] + "...")
        del self[: -self._most]


def end_left(root: str, record: str, why: str) -> None:
    """End what an earlier run that was killed has left alive, by its record."""
    if os.path.exists(record):
        end_all(Lineage(record), _audit(root), why)


def _audit(root: str) -> Audit:
    return Audit(store.Paths(root).audit, f"running {os.getpid()}", Troubles())


class Runner:
    """Runs programs one after the other."""

    def __init__(self, root: str, record: str, until: float, why: str) -> None:
        """``record``: where descendants are put down. ``until``: monotonic seconds when it is to be over.

        ``why``: what the audit log says of one that outlives its program. Raises ``OSError``.
        """
        store.Paths(root).make()
        subreaper.become()
        self._lineage = Lineage(record)
        self._audit = _audit(root)
        self._until, self._why = until, why
        self._grown = 0.0

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        hear: Callable[[bytes], None],
        check: Callable[[], None],
        cwd: str = "/",
    ) -> int:
        """Its exit status, negative for a signal. ``hear`` gets each line of its output.

        ``check`` raises what ends it early; nothing of it lives afterwards. Raises :class:`VerbError`, code
        ``timeout`` or ``unkillable``, and ``OSError``.
        """
        said, told = os.pipe()
        try:
            process = _begin(argv, env, cwd, told)
        except OSError:
            os.close(said)
            raise
        finally:
            os.close(told)
        hearing = _Hearing(said, hear)
        try:
            seen = procs.read(process.pid)
            if seen is not None:
                self._lineage.record(seen, 0)
            self._grown = time.monotonic()
            while process.poll() is None:
                hearing.wait(_LOOK)
                check()
                self._look()
        finally:
            try:
                self._end()
                process.wait()
                hearing.finish()
            finally:
                os.close(said)
        return process.returncode

    def _look(self) -> None:
        now = time.monotonic()
        if now > self._until:
            raise VerbError("timeout", "it took too long", "give it more time, or see why it is slow")
        if now - self._grown > _GROW:
            self._grown = now
            self._lineage.grow(procs.table(), 0, (0, 1, os.getpid()))
            self._lineage.write()

    def _end(self) -> None:
        """KILL all that the program began."""
        left = end_all(self._lineage, self._audit, self._why)
        end_children(self._audit, self._why)
        if left:
            listed = ", ".join(f"pid {one.pid} ({one.name}, state {one.state})" for one in left)
            raise VerbError("unkillable", f"processes outlive KILL: {listed}")


def _begin(argv: Sequence[str], env: Mapping[str, str], cwd: str, told: int) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, which dies with this process."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=told,
        stderr=told,
        start_new_session=True,
        preexec_fn=die_with_parent,  # this process has one thread
    )


class _Hearing:
    """What a program says, line by line."""

    def __init__(self, said: int, hear: Callable[[bytes], None]) -> None:
        self._said, self._hear = said, hear
        self._rest = b""
        self._open = True
        os.set_blocking(said, False)

    def wait(self, seconds: float) -> None:
        """Hear what comes within that time; it is over as soon as something came."""
        if not self._open:  # it has closed its output, and goes on
            time.sleep(seconds)
            return
        poll = select.poll()
        poll.register(self._said, select.POLLIN)
        if poll.poll(seconds * 1000):
            self._open = self._take()

    def finish(self) -> None:
        """Hear all that was said: nobody lives who could say more."""
        while self._take():
            continue
        if self._rest:
            self._hear(self._rest)

    def _take(self) -> bool:
        try:
            data = os.read(self._said, _LONGEST_LINE)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) >= _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for one in lines:
            self._hear(one)
        return bool(data)
