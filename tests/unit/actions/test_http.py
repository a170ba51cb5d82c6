"""One HTTP request over a stream that, unlike a socket, gives nothing more once it is closed."""

from __future__ import annotations

import io
import ssl
from typing import Any

from klops.actions.net.http import Asked, ask


class Channel(io.RawIOBase):
    """A forwarded channel: the answer comes in two pieces, the second only while it is open."""

    def __init__(self) -> None:
        self._pieces = [b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n", b"body"]

    def sendall(self, data: bytes) -> None:
        """Take the request."""

    def settimeout(self, seconds: float | None) -> None:
        """Never waits."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = b"" if self.closed or not self._pieces else self._pieces.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)

    def recv(self, size: int) -> bytes:
        return self.read(size) or b""

    def makefile(self, mode: str, buffering: int = -1) -> Any:
        return _Reader(self)


class _Reader(io.BufferedReader):
    def read(self, size: int | None = -1) -> bytes:
        return b"" if self.raw.closed else super().read(size)

    def readinto(self, buffer: Any) -> int:
        return 0 if self.raw.closed else super().readinto(buffer)


def test_the_body_of_a_last_answer_comes_though_http_client_hangs_up_before_it() -> None:
    answer = ask(
        Asked("http://host/x", "GET", {}), lambda host, port: Channel(), ssl.create_default_context, 5
    )
    assert (answer.status, answer.content) == (200, b"body")
