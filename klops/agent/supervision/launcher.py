"""The launcher: the container's main command. Starts the supervisor, starts it again, reaps. Nothing else.

It does so little that it has no reason to die; what can go wrong lives in the supervisor, whose death it
mends.

In a container that klops didn't make it runs beside the main command. More than one may be started there: it
leaves when another's supervisor serves the root.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

# imported now, not when the signal comes: the package may be another by then
from klops.agent import isolated, store
from klops.agent.audit import Audit
from klops.agent.processes import subreaper
from klops.agent.trouble import Troubles

#: Exit status of a supervisor that wants ``agent/current`` to be started in its place, at once.
HAND_OVER = 75
#: Exit status of a supervisor when another holds the lock of the root.
SECOND = 73
#: Seconds until the supervisor is started again, growing while it keeps dying young.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0
#: Seconds after which a supervisor counts as one that works.
_SETTLED = 30.0


class Launcher:
    """Keeps one supervisor running."""

    def __init__(self, root: str, package: str, *, beside: bool = False) -> None:
        """``beside``: it is not the container's main command."""
        self._root = root
        self._package = package
        self._beside = beside
        self._supervisor = 0
        self._ending = False
        self._audit = Audit(store.Paths(root).audit, f"launcher {os.getpid()}", Troubles())

    def _start(self) -> int:
        current = os.path.realpath(self._root + "/agent/current")
        package = current if os.path.isfile(current) else self._package
        arguments = ["supervise", "--root", self._root, "--launcher", str(os.getpid())]
        arguments += ["--beside"] if self._beside else []
        argv = [*isolated.PYTHON, package, *arguments]
        return os.posix_spawn(argv[0], argv, os.environ, setsigmask=())

    def _on_term(self, *_: Any) -> None:
        self._ending = True
        if self._supervisor:
            self._audit.signal_child(self._supervisor, signal.SIGTERM, "the launcher was told to end")

    def run(self) -> int:
        """Until told to stop; returns the supervisor's last exit status."""
        subreaper.become()
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_term)
        delay = _FIRST_DELAY
        while True:
            begun = time.monotonic()
            status = self._one_life()
            if self._ending:
                return status
            if self._beside and status == SECOND:
                return self._leave()
            if time.monotonic() - begun > _SETTLED or status == HAND_OVER:
                delay = _FIRST_DELAY
            if status != HAND_OVER:
                sys.stderr.write(f"klops launcher: the supervisor ended ({status}), starting it again\n")
                sys.stderr.flush()
                self._wait(delay)
                delay = min(delay * 2, _LONGEST_DELAY)

    @staticmethod
    def _leave() -> int:
        """Another serves. What descends from an earlier supervisor of ours is reaped here until it is gone:

        the container's main process may be one that reaps nobody.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return SECOND

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._ending and time.monotonic() < deadline:
            time.sleep(0.05)

    def _one_life(self) -> int:
        asked = (signal.SIGTERM, signal.SIGINT)
        signal.pthread_sigmask(signal.SIG_BLOCK, asked)  # between the start and knowing the pid
        try:
            if not self._ending:
                self._supervisor = self._start()
        except OSError as error:
            # no more processes or memory: as one that died at once, the units live on meanwhile
            sys.stderr.write(f"klops launcher: the supervisor can't be started: {error}\n")
            sys.stderr.flush()
            return os.EX_OSERR
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)
        if not self._supervisor:
            return 0
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._supervisor:
                self._supervisor = 0
                return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
