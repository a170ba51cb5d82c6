"""One loop that feeds a command and drains both of its streams at once, until it ends or must be ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from klops.remote.base import Given, OnOutput

#: Longest pause between two looks at deadline and cancellation, seconds.
TICK = 0.1
#: A background child may hold the streams after the command has ended: they are given up after this many
#: seconds of silence, or this many in all, so that what is still on its way over a slow link arrives.
SILENT_GRACE = 1.0
TOTAL_GRACE = 5.0
#: Bytes offered to the command in one piece.
PIECE = 128 * 1024


class TimedOutError(Exception):
    """The deadline passed and the command still runs."""


class CancelledError(Exception):
    """Somebody asked for the end, and the command still runs."""


class LinkLostError(Exception):
    """The connection went away before the command's status came."""


class Pipes(Protocol):
    """A started command. No method blocks but ``wait``."""

    def send(self, data: memoryview) -> int:
        """Bytes taken for standard input; 0 means later. What the command no longer reads counts as taken."""

    def end_input(self) -> None: ...

    def take(self) -> tuple[bytes, bytes]:
        """What has arrived on standard output and standard error."""

    def at_end(self) -> bool:
        """Whether both streams have ended and are taken."""

    def status(self) -> int | None:
        """The exit status, 128 + n for signal n; None while it isn't known. :class:`LinkLostError`."""

    def wait(self, seconds: float, *, writing: bool) -> None:
        """Until something may have come (or, when ``writing``, may be taken), at most ``seconds``."""

    def close(self) -> None: ...


class Input(Protocol):
    """Where a command's standard input comes from."""

    def peek(self) -> memoryview | None:
        """What can be sent now (may be empty); None at the end."""

    def advance(self, count: int) -> None: ...


class BytesInput:
    """Standard input that is known beforehand; ``keep``: it doesn't end after that, but stays silent."""

    def __init__(self, data: bytes, *, keep: bool = False) -> None:
        self._rest = memoryview(data)
        self._keep = keep

    def peek(self) -> memoryview | None:
        """The rest, None when there is none and none will come."""
        return self._rest if self._keep or len(self._rest) else None

    def advance(self, count: int) -> None:
        """Drop what was sent."""
        self._rest = self._rest[count:]


class PiecesInput:
    """Standard input whose pieces are made when they are asked for: no more than one of them is held.

    A piece that is None isn't there yet: the next look asks again.
    """

    def __init__(self, pieces: Iterable[bytes | None], *, keep: bool = False) -> None:
        self._pieces = iter(pieces)
        self._rest: memoryview | None = memoryview(b"")
        self._keep = keep

    def peek(self) -> memoryview | None:
        """The rest of a piece, or the next one; nothing when it isn't there yet, None after the last."""
        while self._rest is not None and not len(self._rest):
            try:
                piece = next(self._pieces)
            except StopIteration:
                if not self._keep:
                    self._rest = None
                break
            except BaseException:
                # what is cut off must not look like the end
                self._pieces, self._keep = iter(()), True
                raise
            if piece is None:
                break
            self._rest = memoryview(piece)
        return self._rest

    def advance(self, count: int) -> None:
        """Drop what was sent."""
        if self._rest is not None:
            self._rest = self._rest[count:]


class Chained:
    """One input after the other."""

    def __init__(self, first: Input, second: Input) -> None:
        self._first: Input | None = first
        self._second = second

    def peek(self) -> memoryview | None:
        """What can be sent now."""
        if self._first is not None:
            piece = self._first.peek()
            if piece is not None:
                return piece
            self._first = None
        return self._second.peek()

    def advance(self, count: int) -> None:
        """Drop what was sent."""
        (self._first or self._second).advance(count)


def given(stdin: Given, *, keep: bool) -> Input | None:
    """Standard input from what a caller gave; None for nothing at all."""
    if isinstance(stdin, bytes):
        return BytesInput(stdin, keep=keep) if stdin or keep else None
    return PiecesInput(stdin, keep=keep)


def drain(
    pipes: Pipes,
    source: Input,
    on_stdout: OnOutput,
    on_stderr: OnOutput,
    *,
    deadline: Callable[[], float | None],
    cancelled: Callable[[], bool],
) -> int:
    """Serve the command until it ends; its exit status.

    ``deadline`` gives a time of ``time.monotonic()``, which may move while the command runs; None: no limit.

    Raises :class:`TimedOutError`, :class:`CancelledError` or :class:`LinkLostError`; ending the command is
    the caller's.
    """
    open_input = True
    ended_at = heard_at = 0.0
    while True:
        writing = False
        if open_input and cancelled():
            # before more of it is sent: a script that isn't whole doesn't run
            raise CancelledError
        if open_input:
            piece = source.peek()
            if piece is None:
                pipes.end_input()
                open_input = False
            elif len(piece):
                sent = pipes.send(piece[:PIECE])
                source.advance(sent)
                writing = True
        out, err = pipes.take()
        if out:
            on_stdout(out)
        if err:
            on_stderr(err)
        now = time.monotonic()
        status = pipes.status()
        if status is not None:
            if pipes.at_end():
                return status
            ended_at = ended_at or now
            if out or err or not heard_at:
                heard_at = now
            if now - heard_at > SILENT_GRACE or now - ended_at > TOTAL_GRACE:
                return status
        if cancelled():
            raise CancelledError
        end = deadline()
        if status is None and end is not None and now >= end:
            raise TimedOutError
        if not out and not err and not (writing and sent):
            left = TICK if end is None else max(0.0, min(TICK, end - now))
            pipes.wait(left, writing=writing)


def listen(
    pipes: Pipes,
    source: Input,
    on_stdout: Callable[[bytes], object],
    *,
    until: Callable[[], bool],
    seconds: float,
) -> None:
    """Hear a command that is to be ended, until something has come, or the command or the time is over.

    Nothing more of ``source`` is sent; the end of the input is, where all of it was.
    """
    end = time.monotonic() + seconds
    # else it stays open: input that is cut off is not to be taken for the whole
    rest = BytesInput(b"", keep=source.peek() is not None)

    def hear(data: bytes) -> None:
        on_stdout(data)

    with contextlib.suppress(CancelledError, TimedOutError, LinkLostError):
        drain(pipes, rest, hear, lambda _: None, deadline=lambda: end, cancelled=until)
