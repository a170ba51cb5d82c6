"""The machine klops runs on, served like any other host but without ssh."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from klops.errors import CommandFailed
from klops.remote.base import Remote, Stream
from klops.remote.become import SELF, Become
from klops.remote.noting import noting
from klops.remote.shell import ShellRemote, title

if TYPE_CHECKING:
    from klops.inventory.connection import Connection

_PIECE = 256 * 1024


class ProcessPipes:
    """A local process, a session of its own.

    ``noted`` is called with its pid and what became of the signal when it had to be ended.
    """

    def __init__(self, argv: Sequence[str], noted: Callable[[int, str], None] = lambda *_: None) -> None:
        self._noted = noted
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._stdin = self._process.stdin
        self._outputs: dict[str, IO[bytes] | None] = {
            "out": self._process.stdout,
            "err": self._process.stderr,
        }
        for pipe in (self._stdin, *self._outputs.values()):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def send(self, data: memoryview) -> int:
        if self._stdin is None:
            return len(data)
        try:
            return self._stdin.write(data) or 0
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            self.end_input()
            return len(data)

    def end_input(self) -> None:
        if self._stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
            self._stdin = None

    def take(self) -> tuple[bytes, bytes]:
        return self._take("out"), self._take("err")

    def _take(self, which: str) -> bytes:
        pipe = self._outputs[which]
        if pipe is None:
            return b""
        data = pipe.read(_PIECE)
        if data == b"":
            pipe.close()
            self._outputs[which] = None
        return data or b""

    def at_end(self) -> bool:
        return not any(self._outputs.values())

    def status(self) -> int | None:
        rc = self._process.poll()
        return rc if rc is None or rc >= 0 else 128 - rc

    def wait(self, seconds: float, *, writing: bool) -> None:
        if self.at_end():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        with selectors.DefaultSelector() as selector:
            for pipe in self._outputs.values():
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ)
            if writing and self._stdin is not None:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.select(seconds)

    def close(self) -> None:
        self.end_input()
        for pipe in self._outputs.values():
            if pipe is not None:
                pipe.close()
        if self._process.poll() is None:
            # its group is its own: it was started as the leader of a session, and is not reaped yet
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
                outcome = "sent"
            except ProcessLookupError:
                outcome = "gone"
            except PermissionError:
                # it is sudo's, whose command is ended through sudo
                outcome = "refused"
            self._noted(self._process.pid, outcome)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)


class LocalRemote(ShellRemote):
    """Commands of this machine, with the timeouts, limits and clean ends of a distant one."""

    here = True

    def __init__(self, name: str = "localhost", *, become: Become = SELF, audit_log: str = "") -> None:
        super().__init__(name, become=become, audit_log=audit_log)
        self._counter = [0]

    @classmethod
    def of(cls, connection: Connection, *, become: Become, audit_log: str = "") -> LocalRemote:
        """The remote for a connection of kind local."""
        return cls(connection.name, become=become, audit_log=audit_log)

    @property
    def commands_run(self) -> int:  # type: ignore[override]  # shared with clones, so never assigned to
        return self._counter[0]

    def _count(self) -> None:
        self._counter[0] += 1

    def _noted(self, pid: int, outcome: str) -> None:
        """The line for a shell that was ended with its group, by a shell that has the script for it."""
        if self.audit_log:
            why, how = "'a command of klops did not end in time'", "'a child of its own, not reaped yet'"
            text = f"{noting(self.audit_log)}noted KILL {pid} {_start(pid)} {pid} {why} {how} {outcome}"
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["sh"], input=text.encode(), check=False, capture_output=True, timeout=5)

    def _open(self, argv: Sequence[str]) -> ProcessPipes:
        try:
            return ProcessPipes(argv, self._noted)
        except FileNotFoundError as e:
            raise CommandFailed(f"{self.name}: {argv[0]} is not on this machine", rc=127, code="shell") from e

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """A plain TCP connection."""
        self._count()
        stream: Any = socket.create_connection(
            (host, port), timeout
        )  # makefile of the stubs has ten overloads
        return cast("Stream", stream)

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """The command inherits this process's terminal."""
        self._count()
        full = [*self.become.sudo, "--", *argv] if self.become.wanted else list(argv)
        try:
            with _signals_go_to_the_child():
                rc = subprocess.run(full, check=False).returncode
        except FileNotFoundError as e:
            raise CommandFailed(f"{self.name}: {title(argv)}: not found", rc=127) from e
        return rc if rc >= 0 else 128 - rc

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """A second remote for another thread or another user."""
        become_now = self.become.but(become, become_user)
        other = LocalRemote(self.name, become=become_now, audit_log=self.audit_log)
        other._counter = self._counter
        return other


def _start(pid: int) -> int:
    """Start of a process of this machine in clock ticks after boot; 0 where there is no /proc."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


@contextlib.contextmanager
def _signals_go_to_the_child() -> Iterator[None]:
    """Ctrl-C is the child's while it has the terminal.

    A handler that does nothing, not SIG_IGN: an ignored signal would stay ignored in the child.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
