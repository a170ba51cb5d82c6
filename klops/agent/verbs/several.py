"""The verb ``several``: verbs that only read, in one start of Python, each in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.options import READING, Options


class _Child(NamedTuple):
    pid: int
    #: files in memory, which nobody else can see
    out: int
    err: int


def run(text: str, one: Callable[[list[str]], int]) -> int:
    """Print ``[[status, output, errors], ...]``, one for each command line of the JSON list ``text``.

    ``one`` carries out a command line. They run side by side. Output that isn't UTF-8 has surrogates. Raises
    :class:`VerbError` (``usage``) and ``OSError``; then nothing was printed.
    """
    asked = _asked(text)
    if not hasattr(os, "memfd_create"):
        raise VerbError("usage", "this Python can't keep files in memory: ask for one verb at a time")
    children: list[_Child] = []
    try:
        # those that were begun are waited for, too, when the next can't be
        children.extend(_begin(argv, one) for argv in asked)
    finally:
        ends = [os.waitpid(child.pid, 0)[1] for child in children]
    answers = [
        [_status(end), _content(child.out), _content(child.err)]
        for end, child in zip(ends, children)  # noqa: B905  # Python 3.8; one for each
    ]
    sys.stdout.write(json.dumps(answers) + "\n")
    sys.stdout.flush()
    return 0


def _asked(text: str) -> list[list[str]]:
    try:
        asked: Any = json.loads(text)
    except ValueError as error:
        raise VerbError("usage", f"no JSON: {error}") from error
    for argv in asked:
        if Options(argv).verb not in READING:
            raise VerbError("usage", f"{argv[0]} is not a verb that only reads")
    return list(asked)


def _begin(argv: list[str], one: Callable[[list[str]], int]) -> _Child:
    out, err = os.memfd_create("out"), os.memfd_create("err")
    pid = os.fork()
    if pid:
        return _Child(pid, out, err)
    status = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        status = one(argv)
        sys.stdout.flush()
    except BaseException:
        # as Python ends with it
        import traceback

        status = 1
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _status(end: int) -> int:
    """As a shell has it: 128 and the signal for one that was killed."""
    return os.WEXITSTATUS(end) if os.WIFEXITED(end) else 128 + os.WTERMSIG(end)


def _content(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")
