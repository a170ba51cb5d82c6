"""Processes that have shared memory, for tests of who has what."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klops.agent.processes import procs
from klops.agent.processes.procs import Process


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder of its own where shared memory is, to stand for /dev/shm."""
    folder = Path(tempfile.mkdtemp(prefix="klops-test-", dir="/dev/shm"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def having(program: str, *args: object) -> Iterator[Process]:
    """A process that has run a program and lives until the end of the block, as the table has it."""
    code = f"import sys\n{program}\nprint('ready', flush=True)\nsys.stdin.read()\n"
    argv = [sys.executable, "-S", "-c", code, *map(str, args)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            process = procs.read(child.pid)
            assert process is not None
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


#: Has a file open.
OPEN = "kept = open(sys.argv[1], 'r+b')"
#: Has it mapped and not open.
MAP = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
number = ctypes.c_int
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDWR)
assert libc.mmap(None, 4096, 3, 1, fd, 0) not in (None, 2**64 - 1)
os.close(fd)
"""
#: Makes a semaphore as glibc does: mapped by a first name, then known by another.
SEMAPHORE = f"""
import os
open(sys.argv[1], "wb").write(bytes(4096))
{MAP}
os.link(sys.argv[1], sys.argv[2])
os.unlink(sys.argv[1])
"""
#: Listens on a socket of that path.
LISTEN = """
import socket
kept = socket.socket(socket.AF_UNIX)
kept.bind(sys.argv[1])
kept.listen()
"""
#: Makes a System V segment and has it mapped; says its id in a file.
SEGMENT = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
made = libc.shmget(0, 4096, 0o600 | 0o1000)
assert made >= 0, ctypes.get_errno()
assert libc.shmat(made, None, 0) not in (None, 2**64 - 1)
open(sys.argv[1], "w").write(str(made))
"""
