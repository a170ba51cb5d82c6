"""The caller's own terminal, or plain standard streams, at the end of a channel."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from klops.remote.base import OnOutput
from klops.remote.script import login_line

if TYPE_CHECKING:
    import paramiko

_PIECE = 32 * 1024
#: Seconds between two looks whether the command has ended, while nobody types.
_TICK = 0.1


def write_out(fd: int) -> OnOutput:
    """A sink that writes to a file descriptor of this process."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    return write


class TerminalInput:
    """Standard input of this process as the input of a command, read by a thread of its own."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._pieces: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._piece: memoryview | None = memoryview(b"")
        self._over = threading.Event()

    def __enter__(self) -> TerminalInput:
        threading.Thread(target=self._read, name="klops-stdin", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def peek(self) -> memoryview | None:
        """What was typed; None at the end of input."""
        if self._piece is not None and not self._piece:
            with contextlib.suppress(queue.Empty):
                data = self._pieces.get_nowait()
                self._piece = memoryview(data) if data else None
        return self._piece

    def advance(self, count: int) -> None:
        """Drop what was sent."""
        if self._piece is not None:
            self._piece = self._piece[count:]

    def _read(self) -> None:
        while not self._over.is_set():
            # select, so that the thread doesn't swallow what is typed after the command has ended;
            # on Windows select takes sockets only
            if os.name != "nt" and not select.select([self._fd], [], [], _TICK)[0]:
                continue
            try:
                data = os.read(self._fd, _PIECE)
            except OSError:
                data = b""
            self._pieces.put(data)
            if not data:
                return


def on_terminal(channel: paramiko.Channel, argv: Sequence[str]) -> int:
    """Run ``argv`` with a terminal of its own there and this terminal in raw mode here.

    Its exit status; -1 when none came: it was ended by a signal, or the link is gone.
    """
    size = shutil.get_terminal_size()
    channel.get_pty(os.environ.get("TERM", "xterm"), size.columns, size.lines)
    channel.exec_command(login_line(argv))
    write = write_out(1)
    with _raw(), _resized(channel), TerminalInput() as source:
        while True:
            piece = source.peek()
            if piece:
                channel.sendall(bytes(piece))
                source.advance(len(piece))
            if channel.recv_ready():
                write(channel.recv(_PIECE))
            elif channel.exit_status_ready() or channel.closed:
                break
            else:
                select.select([channel], [], [], 0.02)
        while channel.recv_ready():
            write(channel.recv(_PIECE))
    return channel.exit_status


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """This terminal in raw mode, so that Ctrl-C and the like go to the other side."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: the console stays in line mode
        yield
        return
    fd = sys.stdin.fileno()
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resized(channel: paramiko.Channel) -> Iterator[None]:
    """Changes of this terminal's size are passed on."""
    number: Any = getattr(signal, "SIGWINCH", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(*_: object) -> None:
        size = shutil.get_terminal_size()
        with contextlib.suppress(OSError):
            channel.resize_pty(size.columns, size.lines)

    before: Callable[..., Any] | int | None = signal.signal(number, tell)
    try:
        yield
    finally:
        signal.signal(number, before)
