"""What every place where commands run can do.

A remote has five verbs. Two leave nothing behind: :meth:`Remote.read` (a batch of typed reads, one command)
and :meth:`Remote.connect` (a TCP connection as seen from the host). Three may change the host:
:meth:`Remote.run`, :meth:`Remote.stream` and :meth:`Remote.put`. A read is repeated after a lost connection;
a change never is, because nobody knows whether it had its effect.
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from klops.errors import ReadOnlyViolation

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: Seconds a command may take when nothing else is said.
DEFAULT_TIMEOUT = 60.0
_DECODER = json.JSONDecoder()
#: the start of a document at the start of a line, colour codes aside
_DOCUMENT = re.compile(r"^(?:\x1b\[[0-9;]*m)*([{\[])", re.MULTILINE)
#: Bytes kept of each output stream; what is beyond is dropped and ``truncated`` set.
OUTPUT_LIMIT = 32 * 1024 * 1024


@dataclass(frozen=True)
class Completed:
    """A command that ended.

    ``rc`` is its exit status, 128 + n when signal n killed it; ``seconds`` is wall time.
    """

    argv: tuple[str, ...]
    rc: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool = False

    @property
    def text(self) -> str:
        """Standard output, decoded with replacement: bytes from a host may be anything."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Standard error, decoded with replacement."""
        return self.stderr.decode("utf-8", "replace")


@dataclass(frozen=True)
class Reply:
    """The answer to one :class:`~klops.remote.reads.Read` of a batch."""

    rc: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the read's command ended with 0."""
        return self.rc == 0

    @property
    def text(self) -> str:
        """Standard output, decoded with replacement."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Standard error, decoded with replacement."""
        return self.stderr.decode("utf-8", "replace")

    def json(self) -> Any:
        """The JSON document on standard output, or None when there is none.

        Lines before and after it are passed over: tools print warnings beside their answer. A document in
        company begins at the start of a line, so that a part of a broken one is never taken for the whole.
        """
        text = self.text
        try:
            return json.loads(text)
        except ValueError:
            pass
        for found in _DOCUMENT.finditer(text):
            try:
                value, end = _DECODER.raw_decode(text, found.start(1))
            except ValueError:
                continue
            if not text[end:].partition("\n")[0].strip():
                return value
        return None


#: Replies of a batch by the key of the read.
Replies = Mapping[str, Reply]
#: Called with each piece of output as it arrives.
OnOutput = Callable[[bytes], None]
#: Standard input of a command: all of it, or its pieces one after the other. None among them: nothing as yet.
Given: TypeAlias = bytes | Iterable[bytes | None]


class Stream(Protocol):
    """A byte stream to a TCP port as seen from the host: a socket or a forwarded channel."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def makefile(self, mode: str, buffering: int = -1, /) -> Any: ...
    def close(self) -> None: ...


class Remote(abc.ABC):
    """A place where commands run. Not shared between threads: one remote, one thread at a time."""

    #: the inventory name of the host
    name: str
    #: remote commands so far: one exec or one forwarded connection counts one
    commands_run: int = 0
    #: whether commands run on the control node itself
    here: bool = False
    #: the log on the host where signals are noted, given when the remote is made; "": there is none
    audit_log: str = ""

    @abc.abstractmethod
    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """Carry out all reads in one remote command; the answer is keyed by ``Read.key``.

        A read that fails is a reply with ``rc != 0``, not an exception. Raises :class:`HostUnreachable`.
        """

    @abc.abstractmethod
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
        """Run one command; ``argv`` is quoted once, here. It may change the host, so it is never repeated.

        Raises :class:`CommandFailed` when ``check`` and the status is not 0, :class:`CommandTimeout` after
        ``timeout`` seconds (the remote process is ended first), :class:`ConnectionLost`.
        """

    @abc.abstractmethod
    def stream(
        self,
        argv: Sequence[str],
        *,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        stdin: Given = b"",
        timeout: float | None = None,
        keep_stdin: bool = False,
    ) -> int:
        """Run one command and hand over its output as it arrives; returns the exit status.

        ``stdin`` may be pieces that are made as they are taken, by this thread: each in a moment, as nothing
        else is heard meanwhile. After None the next is asked for when the command has said something, or a
        moment has passed: so what is given may be an answer to what is told. What making one raises ends the
        command, and is raised here. In a container
        they go with ``keep_stdin`` only: there a command is told beforehand how much it gets.

        With ``keep_stdin`` its standard input stays open after ``stdin``, with nothing more on it, until it
        ends. A lost link closes it: what watches it then ends, though nobody can tell it to.
        """

    @abc.abstractmethod
    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Write a file: beside its place, size checked, renamed. Missing folders are made (mode 0755).

        ``owner`` as chown takes it (numbers), "" for whoever writes; it is given as far as this user may.
        ``unless_changed`` is what was seen there: ``absent``, or the sha256 of a file; "" for whatever it is.
        Returns what the file has become, as a :class:`~klops.remote.reads.PathRead` says it. Raises
        :class:`ChangedMeanwhile` when something else stands there, :class:`CommandFailed`.
        """

    @abc.abstractmethod
    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """Open a TCP connection from the host to ``host:port``. Raises ``OSError`` when nothing answers."""

    @abc.abstractmethod
    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """Run one command on the caller's own terminal; returns its exit status."""

    @abc.abstractmethod
    def close(self) -> None:
        """End what is still running by this remote and close the connection. Safe to call twice."""

    def renew(self, timeout: float) -> None:  # noqa: B027 - there may be no connection
        """Give the connection up and make a new one, for all clones: one try of ``timeout`` seconds.

        Raises :class:`HostUnreachable`. Where there is no connection there is nothing to do.
        """

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """A second remote over the same connection, for another thread; its commands count with this one's.

        ``become`` and ``become_user`` let another user run them; None is as with this one. Closing it ends
        what it runs and leaves the connection be.
        """
        raise NotImplementedError(f"{type(self).__name__} can't be shared between threads")


class ReadOnlyRemote(Remote):
    """The remote of check mode: reads pass, everything else raises. No task can override it."""

    def __init__(self, inner: Remote) -> None:
        self._inner = inner
        self.name = inner.name

    @property
    def commands_run(self) -> int:  # type: ignore[override]  # counted by the remote that does the work
        return self._inner.commands_run

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """Pass the reads on."""
        return self._inner.read(reads, timeout=timeout)

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """Refused: what is sent over a connection may change something."""
        raise self._refused(f"connect to {host}:{port}")

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Refused."""
        raise self._refused(" ".join(argv[:3]))

    def stream(self, argv: Sequence[str], **_: Any) -> int:
        """Refused."""
        raise self._refused(" ".join(argv[:3]))

    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Refused."""
        raise self._refused(f"write {path}")

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """Refused."""
        raise self._refused(" ".join(argv[:3]))

    def renew(self, timeout: float) -> None:
        """Pass it on: it changes nothing on the host."""
        self._inner.renew(timeout)

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """A read-only remote over the same connection."""
        return ReadOnlyRemote(self._inner.clone(become=become, become_user=become_user))

    def close(self) -> None:
        """Close the remote inside."""
        self._inner.close()

    def _refused(self, what: str) -> ReadOnlyViolation:
        return ReadOnlyViolation(
            f"{self.name}: check mode must not write, and was about to: {what}",
            hint="nothing was done; this is a fault of klops, please report it",
        )
