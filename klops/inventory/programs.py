"""Runs an inventory program: its own argv, no shell, bounded in time and in what it may print."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors

#: Seconds that one run of an inventory program may take.
TIMEOUT = 60.0
#: Bytes that it may print: some 100,000 hosts with their variables.
LIMIT = 32 * 1024 * 1024
_STDERR_SHOWN = 2000


def run_program(path: Path, arguments: Sequence[str], *, timeout: float, limit: int = LIMIT) -> str:
    """What a program prints, as text. Raises :class:`SourceErrors` that shows what it said on standard error.

    ``timeout`` is in seconds; the program and what it started is ended when it is over.
    """
    # an absolute path: a bare name would be looked for in PATH
    argv = [str(path.absolute()), *arguments]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _failure(path, arguments, f"cannot be run: {error.strerror}", b"") from None
    out, err = bytearray(), bytearray()
    try:
        problem = _listen(process, out, err, timeout, limit)
    finally:
        _end(process)
    if not problem and process.returncode:
        problem = f"ended with {_status(process.returncode)}"
    if problem:
        raise _failure(path, arguments, problem, bytes(err))
    try:
        return out.decode("utf-8")
    except UnicodeDecodeError:
        raise _failure(path, arguments, "printed what is not UTF-8 text", bytes(err)) from None


def _listen(
    process: subprocess.Popen[bytes], out: bytearray, err: bytearray, timeout: float, limit: int
) -> str:
    """Take in what a program prints until it has ended; what is wrong with it, "" for nothing."""
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as pipes:
        for stream, said in ((process.stdout, out), (process.stderr, err)):
            assert stream is not None  # noqa: S101 - it was asked for
            pipes.register(stream, selectors.EVENT_READ, said)
        while pipes.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            for key, _ in pipes.select(left):
                data = os.read(key.fd, 65536)
                key.data.extend(data)
                if not data:
                    pipes.unregister(key.fileobj)
                elif len(key.data) > limit:
                    return f"printed more than {limit // (1024 * 1024)} MiB"
        held = bool(pipes.get_map())
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"did not end within {timeout:g} s"
    # a process that it left behind may hold the pipes open
    return f"left a process behind that held its output open for more than {timeout:g} s" if held else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program with the processes it started, also when it has ended itself; its session is its own.

    The number of that group can't be another's as long as one of its processes lives.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    # nobody is waited for who has left the group and holds the other ends
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _status(code: int) -> str:
    return f"status {code}" if code > 0 else f"signal {-code}"


def _failure(path: Path, arguments: Sequence[str], problem: str, error: bytes) -> SourceErrors:
    command = " ".join([path.name, *arguments])
    said = error.decode("utf-8", "replace").strip()
    if len(said) > _STDERR_SHOWN:
        said = "..." + said[-_STDERR_SHOWN:]
    text = f"the inventory program ({command}) {problem}"
    if said:
        text += f"; it said: {said}"
    return SourceErrors([Mistake(Location(str(path)), text, "run it by hand to see why")])
