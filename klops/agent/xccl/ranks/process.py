"""A rank as who started it sees it: its process, what it has said, how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any, Callable, Mapping, Sequence

from klops.agent.audit import Audit
from klops.agent.processes import children, identity, procs
from klops.agent.processes.procs import Process
from klops.agent.xccl.ranks import wire
from klops.cards.xccl.results import START

#: What a rank is doing: it begins, waits to be asked, works; it has failed to begin, or is gone.
STARTING, IDLE, BUSY, FAILED, GONE = "starting", "idle", "busy", "failed", "gone"
#: Names the place of a rank's card in the list of visible ones.
PLACE = "KLOPS_RANK_PLACE"
#: Lines and characters of a log that an error quotes, and bytes of it that are looked at.
_LINES, _WIDTH, _TAIL = 3, 200, 8192
#: Told of processes that have ended or are about to.
Note = Callable[[Sequence[Process]], None]


class Rank:
    """One process for the card at a place of the visible ones."""

    def __init__(self, place: int, pid: int, ask: int, tell: int, log: str, note: Note) -> None:
        """``note`` sees it once it has ended, while its pid is still its own."""
        self.place = place
        self.pid = pid
        self.log = log
        self.tell = tell
        self._ask = ask
        self._note = note
        #: as it was at its start
        self.seen = procs.read(pid)
        self._handle = identity.hold(identity.of(self.seen)) if self.seen is not None else None
        self.state = STARTING
        self.stage = START
        #: monotonic seconds: when it was started, when it last said something or was asked
        self.since = self.heard = time.monotonic()
        #: tests it was asked for, and how many of them were collectives
        self.used = self.groups = 0
        #: seconds: the longest that it said nothing since it was last asked
        self.silence = 0.0
        #: what it said when it was ready: ``torch``, ``device``, ``backend``, ``nodes``
        self.facts: dict[str, Any] = {}
        self.no_torch = False
        #: of the test it works on: results by size, and what was raised, when (monotonic) and where
        self.sizes: dict[int, dict[str, Any]] = {}
        self.error = ""
        self.error_at = 0.0
        self.error_stage = ""
        self.waited = 0.0
        #: it ended by itself; it was ended by who asks
        self.died = self.ended = False
        self._exit = ""
        self._log_from = 0
        self._lines = wire.Lines()

    @property
    def pidfd(self) -> int:
        """Readable once it has ended; -1 where there are none."""
        return self._handle.fd if self._handle is not None else -1

    @property
    def exit(self) -> str:
        """How it ended, in words; "" while it hasn't."""
        return self._exit

    def ask(self, message: Mapping[str, Any]) -> None:
        """Send it something. One that is gone is found out by listening."""
        self.sizes, self.error, self.error_at, self.error_stage, self.waited = {}, "", 0.0, "", 0.0
        self._log_from = _size(self.log)
        self.heard, self.silence = time.monotonic(), 0.0
        data = wire.line(message)
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._ask, data) :]

    def listen(self) -> None:
        """Take in what it has said, and whether it is gone."""
        while self.tell >= 0:
            try:
                data = os.read(self.tell, 65536)
            except BlockingIOError:
                break
            for message in self._lines.feed(data):
                self._take(message)
            if not data:
                os.close(self.tell)
                self.tell = -1
        if self.state != GONE and self.over():
            worked, self.state = self.state == BUSY, GONE
            self.died = not self.ended
            if self.died and not self.error:
                self.error, self.error_stage = f"its rank {self._exit}", self.stage
                self.error_at = time.monotonic()
                # a library's watchdog ends a process that waits too long for the others
                self.waited = self.error_at - self.heard if worked else 0.0

    def _take(self, message: Mapping[str, Any]) -> None:
        now = time.monotonic()
        self.silence = max(self.silence, now - self.heard)
        self.heard = now
        if "stage" in message and "error" not in message:
            self.stage = str(message["stage"])
        if "size" in message:
            self.sizes[int(message["size"])] = dict(message)
        if "error" in message and not self.error:
            self.error, self.error_stage = str(message["error"]), str(message.get("stage", self.stage))
            self.error_at = float(message.get("at", self.heard))
            self.waited = float(message.get("waited", 0.0))
            self.no_torch = bool(message.get("no_torch"))
            self.state = FAILED if self.state == STARTING else self.state
        if "ready" in message:
            self.facts, self.state = dict(message), IDLE
        if "idle" in message and self.state == BUSY:
            self.state = IDLE

    def over(self) -> bool:
        """Whether it has ended; it is reaped then."""
        if self._exit:
            return True
        try:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            self._note([self.seen] if self.seen is not None else [])
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            self._exit = "ended"
            return True
        if os.WIFSIGNALED(status):
            self._exit = f"was killed by signal {os.WTERMSIG(status)}"
        else:
            self._exit = f"ended by itself with status {os.WEXITSTATUS(status)}"
        return True

    def leave(self) -> None:
        """Close the way on which it is asked: it ends by itself."""
        self.ended = True
        if self._ask >= 0:
            os.close(self._ask)
            self._ask = -1

    def kill(self, audit: Audit, name: str, why: str) -> None:
        """KILL, by identity. That it is gone already is as well."""
        self.ended = True
        if self._handle is not None:
            audit.signal("", self._handle, name, signal.SIGKILL, why)

    def close(self) -> None:
        """Let go of everything of one that is over, or that nobody can end."""
        self.leave()
        if self.tell >= 0:
            os.close(self.tell)
            self.tell = -1
        if self._handle is not None:
            self._handle.close()

    def process(self) -> Process | None:
        """As the table has it now."""
        found = procs.read(self.pid)
        same = found is not None and self.seen is not None and found.start == self.seen.start
        return found if same else None

    def quoted(self) -> str:
        """The last lines that were printed since it was last asked, in one; "" for none."""
        try:
            with open(self.log, "rb") as file:
                file.seek(max(self._log_from, _size(self.log) - _TAIL))
                text = file.read(_TAIL).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip()[:_WIDTH] for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-_LINES:])


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def spawn(package: str, env: Mapping[str, str], place: int, log: str, note: Note) -> Rank:
    """Start a rank; it does nothing until it is told to begin. Raises ``OSError``."""
    asked, ask = wire.pipe()
    tell, told = wire.pipe()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        pid = os.posix_spawn(
            sys.executable,
            # not isolated: torch is found as any program of the image finds it
            [sys.executable, "-B", package, "rank"],
            # nobody's: a supervisor to which one comes whose parent is gone is not to take it for a unit's
            {**env, children.MARKER: f"{children.NOBODY}:0", PLACE: str(place)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                (os.POSIX_SPAWN_DUP2, told, wire.TELL),
                (os.POSIX_SPAWN_DUP2, asked, wire.ASK),
            ],
        )
    except OSError:
        os.close(ask)
        os.close(tell)
        raise
    finally:
        for fd in (asked, told, output):
            os.close(fd)
    os.set_blocking(tell, False)
    return Rank(place, pid, ask, tell, log, note)
