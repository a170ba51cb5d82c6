"""Output for people: its reader may leave, and what is being done goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import IO, Any

from klops.log import get_logger

#: Exit status of a command whose output nobody took to its end: what a shell shows for a death by SIGPIPE.
READER_GONE = 141


class Outlet:
    """A text stream that goes silent, and does not raise, once nothing can be written to it any more."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        #: why output is lost, None while it isn't
        self.lost: OSError | None = None

    @property
    def exit_status(self) -> int:
        """0, or what a command that went well otherwise exits with because its output was lost."""
        if self.lost is None:
            return 0
        return READER_GONE if isinstance(self.lost, BrokenPipeError) else 1

    def write(self, text: str) -> int:
        """Write, or drop."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, or nothing."""
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        if self.lost is not None:
            return
        try:
            act()
        except OSError as error:
            self.lost = error
            discard(self._stream)
            if not isinstance(error, BrokenPipeError):
                get_logger(__name__).warning("output is lost from here on", why=str(error))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def discard(stream: IO[str]) -> None:
    """Give the rest of a stream's buffer somewhere to go: the interpreter flushes it at its end."""
    # a stream that is no file has no such end
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
