"""Where the members of a group meet: the store's file, mapped by each of them.

Each member has two places in it, used in turn: what it says in step N is read by all before any of them gets
to step N + 2. A place is the number of the step, the length, and JSON that begins with the number again.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import time
from datetime import timedelta
from typing import Any, NoReturn

#: Bytes a place; and, at the start of the file, of marks of those who have left.
_PLACE = 4096
_HEAD = struct.Struct("=QQ")
#: Seconds between two looks for the others, growing from the first to the last.
_FIRST_LOOK, _LAST_LOOK = 0.0002, 0.005


class Absent(Exception):
    """Some didn't come: ``ranks``."""

    def __init__(self, ranks: list[int]) -> None:
        super().__init__(ranks)
        self.ranks = ranks


class FileStore:
    """As torch's: a path that only the members of one group share."""

    def __init__(self, path: str, world_size: int = -1) -> None:
        self.path = path
        self.world_size = world_size
        self.timeout = timedelta(seconds=300)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def set_timeout(self, timeout: timedelta) -> None:
        """How long a member waits for the others when the group forms."""
        self.timeout = timeout


class Meeting:
    """One member's seat."""

    def __init__(self, path: str, rank: int, size: int) -> None:
        self.path, self.rank, self.size, self.step = path, rank, size, 0
        length = _PLACE * (1 + 2 * size)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(fd, length)
            self.memory = mmap.mmap(fd, length)
        finally:
            os.close(fd)

    def exchange(self, said: Any, seconds: float) -> list[Any]:
        """Say something (JSON) and hear what each member says, by rank; :class:`Absent` after ``seconds``."""
        end = time.monotonic() + seconds
        self.step += 1
        raw = json.dumps([self.step, said]).encode()
        place = self._place(self.rank)
        if len(raw) > _PLACE - _HEAD.size:
            raise RuntimeError("stand-in: more than fits into a place of the store")
        self.memory[place + _HEAD.size : place + _HEAD.size + len(raw)] = raw
        _HEAD.pack_into(self.memory, place, self.step, len(raw))
        heard: dict[int, Any] = {}
        pause = _FIRST_LOOK
        while True:
            for rank in range(self.size):
                if rank not in heard:
                    found = self._heard(rank)
                    if found is not None:
                        heard[rank] = found[1]
            if len(heard) == self.size:
                return [heard[rank] for rank in range(self.size)]
            if time.monotonic() > end:
                raise Absent([rank for rank in range(self.size) if rank not in heard])
            time.sleep(pause)
            pause = min(_LAST_LOOK, pause * 1.2)

    def wait_in_vain(self, ranks: list[int], end: float) -> NoReturn:
        """:class:`Absent` at ``end`` (monotonic), for these."""
        time.sleep(max(0.0, end - time.monotonic()))
        raise Absent(ranks)

    def leave(self) -> None:
        """Give the seat up; the last removes the file."""
        self.memory[self.rank] = 1
        if all(self.memory[: self.size]):
            with contextlib.suppress(FileNotFoundError):  # the one before was as quick
                os.unlink(self.path)  # noqa: PTH108 - no pathlib, for the start-up time
        self.memory.close()

    def _place(self, rank: int) -> int:
        return _PLACE * (1 + 2 * rank + self.step % 2)

    def _heard(self, rank: int) -> list[Any] | None:
        """What a member says in this step; None when it has not come to it, or is writing it."""
        place = self._place(rank)
        step, length = _HEAD.unpack_from(self.memory, place)
        if step != self.step:
            return None
        try:
            found: list[Any] = json.loads(self.memory[place + _HEAD.size : place + _HEAD.size + length])
        except ValueError:
            return None
        return found if found[0] == self.step else None
