"""The loop that serves a command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klops.remote.base import Given
from klops.remote.drain import (
    BytesInput,
    CancelledError,
    Input,
    PiecesInput,
    drain,
    given,
    listen,
)


class Taking:
    """A command that reads its input and ends when that ends."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = False
        self.looks = 0

    def send(self, data: memoryview) -> int:
        self.got += bytes(data)
        return len(data)

    def end_input(self) -> None:
        self.ended = True

    def take(self) -> tuple[bytes, bytes]:
        return b"", b""

    def at_end(self) -> bool:
        return self.ended

    def status(self) -> int | None:
        return 0 if self.ended else None

    def wait(self, seconds: float, *, writing: bool) -> None:
        self.looks += 1

    def close(self) -> None:
        pass


def serve(pipes: Taking, source: Input, *, cancel_after: int | None = None) -> int:
    def cancelled() -> bool:
        return cancel_after is not None and pipes.looks >= cancel_after

    return drain(pipes, source, lambda _: None, lambda _: None, deadline=lambda: None, cancelled=cancelled)


def test_input_is_sent_and_then_ended() -> None:
    pipes = Taking()
    assert serve(pipes, BytesInput(b"script")) == 0
    assert pipes.got == b"script"


def test_input_that_is_kept_open_stays_so() -> None:
    pipes = Taking()
    with pytest.raises(CancelledError):
        serve(pipes, BytesInput(b"script", keep=True), cancel_after=5)
    assert pipes.got == b"script"
    assert not pipes.ended


def test_what_is_cancelled_before_it_began_is_never_sent() -> None:
    pipes = Taking()
    with pytest.raises(CancelledError):
        serve(pipes, BytesInput(b"script"), cancel_after=0)
    assert pipes.got == b""


@pytest.mark.parametrize(("left", "ended"), [(b"", True), (b"cut off", False)])
def test_who_listens_sends_no_more_and_ends_only_input_that_is_whole(left: bytes, ended: bool) -> None:
    pipes = Taking()
    listen(pipes, BytesInput(left), lambda _: None, until=lambda: pipes.looks >= 2, seconds=20)
    assert pipes.got == b""
    assert pipes.ended is ended


def test_who_listens_stops_when_the_time_is_over() -> None:
    pipes = Taking()
    listen(pipes, BytesInput(b"cut off"), lambda _: None, until=lambda: False, seconds=0)
    assert not pipes.ended


def test_pieces_are_made_one_at_a_time_when_the_command_takes_them() -> None:
    made: list[bytes] = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"one ", b"", b"two ", b"three"):
            assert pipes.got == b"".join(made)
            made.append(piece)
            yield piece

    class Slow(Taking):
        def send(self, data: memoryview) -> int:
            self.looks += 1
            return super().send(data[: self.looks % 3])

    pipes = Slow()
    assert serve(pipes, PiecesInput(pieces())) == 0
    assert pipes.got == b"one two three"


def test_a_piece_that_cannot_be_made_is_not_taken_for_the_end() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"begin"
        raise OSError("the disk is gone")

    pipes = Taking()
    source = PiecesInput(pieces())
    with pytest.raises(OSError, match="the disk is gone"):
        serve(pipes, source)
    listen(pipes, source, lambda _: None, until=lambda: pipes.looks >= 2, seconds=20)
    assert (pipes.got, pipes.ended) == (b"begin", False)


def test_what_is_not_there_yet_is_asked_for_when_the_command_has_spoken() -> None:
    heard: list[bytes] = []
    asked: list[int] = []

    def pieces() -> Iterator[bytes | None]:
        yield b"question "
        while not heard:
            asked.append(pipes.waits)
            yield None
        yield b"answer to " + b"".join(heard)

    class Asking(Taking):
        waits = 0

        def take(self) -> tuple[bytes, bytes]:
            return (b"lacking", b"") if self.waits == 3 and not heard else (b"", b"")

        def wait(self, seconds: float, *, writing: bool) -> None:
            # there is nothing to be written: only output ends the wait
            assert (seconds > 0, writing) == (True, False)
            self.waits += 1

    pipes = Asking()
    rc = drain(
        pipes, PiecesInput(pieces()), heard.append, heard.append, deadline=lambda: None, cancelled=bool
    )
    assert (rc, pipes.got) == (0, b"question answer to lacking")
    # once after each wait, not all the time
    assert len(asked) <= pipes.waits + 1


@pytest.mark.parametrize("stdin", [b"script", [b"scr", b"ipt"], [b"script", None, None]])
def test_what_is_given_may_be_kept_open(stdin: Given) -> None:
    pipes = Taking()
    source = given(stdin, keep=True)
    assert source is not None
    with pytest.raises(CancelledError):
        serve(pipes, source, cancel_after=5)
    assert (pipes.got, pipes.ended) == (b"script", False)
