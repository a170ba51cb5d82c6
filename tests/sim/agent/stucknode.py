"""A device node whose opens never return, in uninterruptible sleep, as with a driver that is stuck.

It lies in a file system of this process (FUSE, its protocol as far as one node needs it): whoever looks the
node up waits for the answer, and only those get one of whom that is said. Closing it lets all others go.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path

_LOOKUP, _FORGET, _GETATTR, _INIT, _INTERRUPT = 1, 2, 3, 26, 36
_HEAD = struct.Struct("=IIQQIIII")
#: Requests that are never answered.
_UNANSWERED = (_FORGET, _INTERRUPT)


def _attributes(mode: int, rdev: int = 0) -> bytes:
    number = (os.major(rdev) << 8) | os.minor(rdev)
    return struct.pack("=6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, number, 512, 0)


class StuckNode:
    """The node ``folder``/node, with the device number of another one."""

    def __init__(self, folder: Path, like: Path, quick: Callable[[int], bool]) -> None:
        """``quick`` tells of a thread's id whether it gets an answer.

        Raises ``OSError`` where such a file system can't be mounted."""
        folder.mkdir()
        self.path = folder / "node"
        self._quick = quick
        self._folder = folder
        self._node = _attributes(0o600 | stat.S_IFCHR, like.stat().st_rdev)
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"stuck", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
            code = ctypes.get_errno()
            os.close(self._fd)
            raise OSError(code, os.strerror(code))
        self._over, self._end = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Unmount; all that wait get an error. Once more does nothing."""
        if not self._thread.is_alive():
            return
        os.close(self._end)
        self._thread.join()
        os.close(self._fd)
        os.close(self._over)
        ctypes.CDLL(None).umount2(os.fsencode(self._folder), 2)

    def _serve(self) -> None:
        while self._over not in select.select([self._fd, self._over], [], [])[0]:
            try:
                request = os.read(self._fd, 1 << 20)
            except FileNotFoundError:
                continue  # whoever asked has gone
            _, opcode, unique, _, _, _, pid, _ = _HEAD.unpack_from(request)
            answer = self._answer(opcode, pid)
            if answer is not None:
                code, data = answer
                os.write(self._fd, struct.pack("=IiQ", 16 + len(data), -code, unique) + data)

    def _answer(self, opcode: int, pid: int) -> tuple[int, bytes] | None:
        if opcode == _INIT:
            return 0, struct.pack("=4I2H2I2HI7I", 7, 31, 0, 0, 1, 1, 4096, 1, 0, 0, *[0] * 8)
        if opcode == _GETATTR:
            return 0, struct.pack("=QII", 3600, 0, 0) + _attributes(0o755 | stat.S_IFDIR)
        if opcode == _LOOKUP:
            known = struct.pack("=4Q2I", 2, 0, 0, 3600, 0, 0) + self._node
            return (0, known) if self._quick(pid) else None
        return None if opcode in _UNANSWERED else (errno.ENOSYS, b"")
