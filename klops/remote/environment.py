"""Variables of the environment that whatever is read or run on a host is to see."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.remote.base import DEFAULT_TIMEOUT, Completed, OnOutput, Remote, Reply, Stream
from klops.remote.reads import Read

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name(text: str) -> bool:
    """Whether a shell takes ``text`` for the name of a variable."""
    return _NAME.match(text) is not None


@dataclass(frozen=True)
class EnvironmentRead(Read):
    """What another read asks, with these variables: its programs see what those of a task's steps see.

    They travel in the script, which is no argument of any process.
    """

    read: Read
    variables: tuple[tuple[str, str], ...]

    @property
    def slow(self) -> bool:  # type: ignore[override]  # that of the read inside
        """As the read inside."""
        return self.read.slow

    @property
    def looks(self) -> tuple[str, ...]:
        """As the read inside."""
        return self.read.looks

    @property
    def engine(self) -> tuple[str, ...]:
        """As the read inside."""
        return self.read.engine

    @property
    def script(self) -> str:
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.variables)
        return exports + self.read.script


def with_environment(reads: Sequence[Read], variables: Mapping[str, str]) -> tuple[Read, ...]:
    """The reads, each with these variables; as they are when there are none."""
    if not variables:
        return tuple(reads)
    given = tuple(variables.items())
    return tuple(EnvironmentRead(read.key, read, given) for read in reads)


class EnvironmentRemote(Remote):
    """Another remote whose reads and commands see these variables.

    Not what is streamed or run on the terminal: those commands are klops' own.
    """

    def __init__(self, inner: Remote, variables: Mapping[str, str]) -> None:
        self._inner = inner
        self._variables = variables
        self.name = inner.name
        self.audit_log = inner.audit_log
        self.here = inner.here

    @property
    def commands_run(self) -> int:  # type: ignore[override]  # counted by the remote that does the work
        return self._inner.commands_run

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """The reads with the variables."""
        return self._inner.read(with_environment(reads, self._variables), timeout=timeout)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float | None = DEFAULT_TIMEOUT,
        check: bool = True,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """The command with the variables; those of ``env`` are stronger."""
        env = {**self._variables, **(env or {})}
        return self._inner.run(argv, stdin=stdin, timeout=timeout, check=check, cwd=cwd, env=env)

    def stream(self, argv: Sequence[str], *, on_stdout: OnOutput, on_stderr: OnOutput, **more: Any) -> int:
        """Pass it on."""
        return self._inner.stream(argv, on_stdout=on_stdout, on_stderr=on_stderr, **more)

    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Pass it on."""
        return self._inner.put(data, path, mode=mode, owner=owner, unless_changed=unless_changed)

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """Pass it on."""
        return self._inner.connect(host, port, timeout=timeout)

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """Pass it on."""
        return self._inner.interactive(argv, tty=tty)

    def renew(self, timeout: float) -> None:
        """Pass it on."""
        self._inner.renew(timeout)

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """One over the same connection, with the same variables."""
        inner = self._inner.clone(become=become, become_user=become_user)
        return EnvironmentRemote(inner, self._variables)

    def close(self) -> None:
        """Close the remote inside."""
        self._inner.close()
