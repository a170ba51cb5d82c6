"""A remote with scripted replies, for unit tests of actions, playbooks and whatever else runs commands.

::

    host = FakeRemote("host1")
    host.on("docker inspect", '[{"Id": "abc"}]')
    host.on(re.compile(r"^docker rm "), reply(rc=1, stderr="in use"))
    host.on(lambda call: call.kind == "put", "")

The rule added last is asked first, so a test can lay its own over a common set. What no rule expects raises
:class:`UnexpectedCallError`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from klops.errors import CommandFailed, HostUnreachable
from klops.remote.base import DEFAULT_TIMEOUT, Completed, Given, OnOutput, Remote, Reply, Stream

if TYPE_CHECKING:
    from klops.remote.reads import Read

Kind = Literal["read", "run", "stream", "put", "connect", "interactive"]


class UnexpectedCallError(AssertionError):
    """The test's script has no rule for what was asked of the fake host."""


@dataclass(frozen=True)
class Call:
    """One thing asked of a fake host.

    ``text`` is what rules match: the script of a read, the quoted argv of a command, the path of a put, or
    ``HOST:PORT`` of a connection. ``stdin`` is the command's input, or the content of a put.
    """

    kind: Kind
    text: str
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    read: Read | None = None
    mode: int = 0
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    keep_stdin: bool = False
    owner: str = ""
    unless_changed: str = ""


Match: TypeAlias = "str | re.Pattern[str] | Callable[[Call], bool]"
Answer: TypeAlias = "str | bytes | Reply | BaseException | Callable[[Call], Answer] | Stream"


def reply(stdout: str | bytes = b"", *, rc: int = 0, stderr: str | bytes = b"") -> Reply:
    """A :class:`Reply` from texts or bytes."""
    return Reply(rc, _bytes(stdout), _bytes(stderr))


class FakeRemote(Remote):
    """Answers by rules and keeps a log of all that was asked (``log``) and of files put (``files``).

    Puts are taken without a rule. ``unreachable`` makes every call raise :class:`HostUnreachable` with that
    text.
    """

    def __init__(self, name: str = "fake", *, unreachable: str = "") -> None:
        self.name = name
        self.unreachable = unreachable
        self.commands_run = 0
        self.log: list[Call] = []
        #: path -> (content, mode) of files put
        self.files: dict[str, tuple[bytes, int]] = {}
        self.closed = False
        self._rules: list[tuple[Match, Answer]] = []

    def on(self, match: Match, answer: Answer = b"") -> FakeRemote:
        """Add a rule: a part of the text, a pattern searched in it, or a predicate on the :class:`Call`.

        The answer is output of a command that ended with 0, a :class:`Reply`, an exception to raise, a stream
        (for connections), or a function from the call to one of these.
        """
        self._rules.insert(0, (match, answer))
        return self

    @property
    def commands(self) -> list[str]:
        """Texts of all calls but reads, in order: what may have changed the host."""
        return [call.text for call in self.log if call.kind != "read"]

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """One call a read, by rules on its script."""
        self._count()
        return {read.key: self._reply(Call("read", read.script, read=read)) for read in reads}

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
        """By rules on the quoted argv."""
        self._count()
        call = Call("run", shlex.join(argv), tuple(argv), stdin, cwd=cwd, env=dict(env or {}))
        got = self._reply(call)
        if check and got.rc:
            message = f"{self.name}: {call.text} ended with {got.rc}: {got.error_text.strip()}"
            raise CommandFailed(message, rc=got.rc, stderr=got.error_text)
        return Completed(call.argv, got.rc, got.stdout, got.stderr, 0.0)

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
        """By rules on the quoted argv: takes all input, then the whole output is handed over at once.

        Where there is no input as yet, what the rule answers to the input so far is handed over, and later
        what it says more; when it says no more, nothing more is given to it.
        """
        self._count()
        taken, heard = b"", 0
        pieces: Iterator[bytes | None] = iter((stdin,) if isinstance(stdin, bytes) else stdin)

        def call() -> Call:
            return Call("stream", shlex.join(argv), tuple(argv), taken, keep_stdin=keep_stdin)

        for piece in pieces:
            if piece is not None:
                taken += piece
                continue
            said = self._answer(call()).stdout
            if len(said) == heard:
                break
            on_stdout(said[heard:])
            heard = len(said)
        got = self._reply(call())
        if got.stdout[heard:]:
            on_stdout(got.stdout[heard:])
        if got.stderr:
            on_stderr(got.stderr)
        return got.rc

    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Keep the file in ``files``; a rule may make it fail, or say what it has become."""
        self._count()
        call = Call("put", path, stdin=data, mode=mode, owner=owner, unless_changed=unless_changed)
        self.log.append(call)
        answer = self._find(call)
        got = reply() if answer is None else self._resolve(call, answer)
        if not isinstance(got, Reply):
            raise UnexpectedCallError(f"{self.name}: a stream is no answer to put: {path}")
        if got.rc:
            raise CommandFailed(
                f"{self.name}: put {path}: {got.error_text}", rc=got.rc, stderr=got.error_text
            )
        self.files[path] = (data, mode)
        return got

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """By rules on ``HOST:PORT``; refused when there is none."""
        self._count()
        call = Call("connect", f"{host}:{port}")
        self.log.append(call)
        answer = self._find(call)
        if answer is None:
            raise ConnectionRefusedError(111, "Connection refused")
        got = self._resolve(call, answer)
        if isinstance(got, Reply):
            raise UnexpectedCallError(
                f"{self.name}: the answer to a connection must be a stream: {call.text}"
            )
        return got

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """By rules on the quoted argv; only the status counts."""
        self._count()
        return self._reply(Call("interactive", shlex.join(argv), tuple(argv))).rc

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """The fake itself, whoever runs its commands: it keeps one log."""
        return self

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _count(self) -> None:
        if self.unreachable:
            raise HostUnreachable(f"{self.name}: {self.unreachable}")
        self.commands_run += 1

    def _find(self, call: Call) -> Answer | None:
        for match, answer in self._rules:
            if isinstance(match, str):
                hit = match in call.text
            elif isinstance(match, re.Pattern):
                hit = match.search(call.text) is not None
            else:
                hit = match(call)
            if hit:
                return answer
        return None

    def _resolve(self, call: Call, answer: Answer) -> Reply | Stream:
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, (str, bytes)):
            return reply(answer)
        if isinstance(answer, Reply):
            return answer
        if callable(answer):
            return self._resolve(call, answer(call))
        return answer

    def _reply(self, call: Call) -> Reply:
        self.log.append(call)
        return self._answer(call)

    def _answer(self, call: Call) -> Reply:
        answer = self._find(call)
        if answer is None:
            raise UnexpectedCallError(f"{self.name}: no rule for {call.kind}: {call.text}")
        got = self._resolve(call, answer)
        if not isinstance(got, Reply):
            raise UnexpectedCallError(f"{self.name}: a stream is no answer to {call.kind}: {call.text}")
        return got


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
