"""What the commands of a build said: on disk, in a file that doesn't grow for ever."""

from __future__ import annotations

import os

from klops.agent import store
from klops.agent.running import Last, shown

#: Bytes that are kept, twice: what is longer becomes ``PATH.1``.
LONGEST = 8 << 20
#: Lines that an error quotes.
_QUOTED = 15


class Log:
    """``last``: the last lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        store.write_text(path, "")
        store.remove(path + ".1")
        self._file = open(path, "ab", buffering=0)
        self._size = 0
        self.last = Last(_QUOTED)

    def add(self, line: bytes) -> str:
        """One line; as it is shown."""
        self._file.write(line + b"\n")
        self._size += len(line) + 1
        if self._size > LONGEST:
            self._file.close()
            os.replace(self.path, self.path + ".1")
            self._file = open(self.path, "ab", buffering=0, opener=_private)
            self._size = 0
        text = shown(line)
        self.last.add(text)
        return text

    def close(self) -> None:
        """No more comes."""
        self._file.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
