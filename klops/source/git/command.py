"""Runs git, in its plain language, never asking a question; what it says when it fails becomes an error."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, cast

from klops.errors import TaskFailed
from klops.source.git.said import refusal

#: Seconds that a git which only looks may take; a status of a large tree on a file server is the longest.
PATIENCE = 300.0
#: Bytes of what a git prints that are taken at once: what a pipe holds.
_BUFFERED = 1 << 16
#: Variables that name a repository or parts of it (git rev-parse --local-env-vars): set where klops is called
#: from a hook, and about another repository than the one that is meant.
_OF_ANOTHER = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
#: Of every git that is run.
ALWAYS = {
    "LC_ALL": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # a partial clone says what it lacks, rather than fetch it (git 2.44 and newer)
    "GIT_NO_LAZY_FETCH": "1",
}


class GitFailed(TaskFailed):
    """Git ended with another status than 0: ``rc``."""

    code = "git-failed"

    def __init__(self, message: str, *, rc: int, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.rc = rc


def environment() -> dict[str, str]:
    """Ours, for a git that works in a repository named by its arguments."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER} | ALWAYS


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
    timeout: float = PATIENCE,
) -> bytes:
    """What git prints. Raises GitFailed, and TaskFailed (``git-missing``) when there is no git."""
    with _missing():
        process = subprocess.Popen(
            argv,
            env=dict(env) if env is not None else environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    with process:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired as error:
            raise GitFailed(f"{_named(argv)} took more than {timeout:g} s", rc=-1) from error
        finally:
            # ended already, but when we were interrupted
            process.kill()
    _check(argv, process.returncode, err)
    return out


@contextmanager
def stream(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[IO[bytes]]:
    """What git prints, while it prints it. It is ended when the block is left by an exception.

    On the way out its status is looked at: raises as :func:`run`.
    """
    with tempfile.TemporaryFile() as said:
        with _missing():
            process = subprocess.Popen(
                argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                bufsize=_BUFFERED,
            )
        out = cast("IO[bytes]", process.stdout)
        with process:
            try:
                yield out
                while out.read(1 << 16):
                    pass
            except BaseException:
                process.kill()
                raise
        said.seek(0)
        _check(argv, process.returncode, said.read())


@contextmanager
def _missing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "install git on this machine, and see that it is on PATH"
        raise TaskFailed(f"git can't be run: {error}", hint=hint, code="git-missing") from error


def _check(argv: Sequence[str], rc: int, err: bytes) -> None:
    if rc:
        text = err.decode("utf-8", "replace").strip()
        code, hint = refusal(text)
        raise GitFailed(f"{_named(argv)}: {text or f'status {rc}'}", rc=rc, hint=hint, code=code)


def _named(argv: Sequence[str]) -> str:
    """``git archive`` of a whole command line: the options before the command's name all have a value."""
    at = 1
    while argv[at] in ("-c", "-C"):
        at += 2
    return f"git {argv[at]}"
