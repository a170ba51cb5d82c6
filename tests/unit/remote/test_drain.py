"""The loop that serves a command."""

from __future__ import annotations

import pytest

from klops.remote.drain import BytesInput, CancelledError, drain


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


def serve(pipes: Taking, source: BytesInput, *, cancel_after: int | None = None) -> int:
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
