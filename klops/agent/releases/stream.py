"""What comes on standard input: a manifest as it is, then contents as one gzip stream."""

from __future__ import annotations

import zlib
from typing import Callable

from klops.agent.errors import VerbError

#: Of a gzip stream, for zlib.
_GZIP = 31
#: Bytes that are read at once: what a pipe holds. And those that are made plain at once.
_PIECE, _PLAIN = 1 << 16, 1 << 20

#: Gives up to so many bytes; b"" at the end.
Read = Callable[[int], bytes]


class Gone(Exception):
    """Nobody waits for the end any more."""


class Stream:
    """Plain bytes of a gzip stream."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._inflate = zlib.decompressobj(_GZIP)
        self._have = memoryview(b"")

    def take(self, most: int) -> memoryview:
        """Up to so many bytes, at least one. Raises :class:`VerbError` when there are none."""
        while not self._have:
            if self._inflate.eof:
                raise cut("it ended early")
            self._have = memoryview(self._more())
        data, self._have = self._have[:most], self._have[most:]
        return data

    def end(self) -> None:
        """Raises :class:`VerbError` when there is more, or no proper end."""
        while not (self._have or self._inflate.eof):
            self._have = memoryview(self._more())
        if self._have or self._inflate.unused_data:
            raise cut("it holds more than was asked for")

    def _more(self) -> bytes:
        raw = self._inflate.unconsumed_tail or self._read(_PIECE)
        try:
            data = self._inflate.decompress(raw, _PLAIN)
        except zlib.error as error:
            raise cut(f"it is no gzip stream: {error}") from error
        if not (raw or data or self._inflate.eof):
            raise cut("it ended early")
        return data


def exactly(read: Read, size: int) -> bytes:
    """So many bytes. Raises :class:`VerbError` when there are fewer."""
    parts = []
    while size:
        part = read(min(size, _PLAIN))
        if not part:
            raise cut("it ended early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def cut(why: str) -> VerbError:
    """What is said of a stream that isn't as it should be."""
    return VerbError(
        "stream-cut",
        f"what was sent is not whole: {why}; the release that runs is as it was",
        "repeat it: what has arrived is not sent again",
    )
