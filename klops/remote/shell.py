"""What ssh and local remotes share: reads, commands and files through a shell, framed and ended in time."""

from __future__ import annotations

import abc
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from klops.commands.docker import prefix_of
from klops.errors import (
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    HostUnreachable,
    Interrupted,
    KlopsError,
)
from klops.remote import placing, script
from klops.remote.base import DEFAULT_TIMEOUT, OUTPUT_LIMIT, Completed, Given, OnOutput, Remote, Reply
from klops.remote.become import Become, BecomeGate, become_argv, become_error
from klops.remote.drain import (
    BytesInput,
    CancelledError,
    Chained,
    Input,
    LinkLostError,
    Pipes,
    TimedOutError,
    drain,
    given,
    listen,
)
from klops.remote.enginewatch import EngineWatch, hanging, is_look, waiting
from klops.remote.folding import fold

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: Seconds that ending a command on the host may take.
END_TIMEOUT = 8.0
#: Seconds for the opening line of a command that is to end to arrive, when it may be under way.
OPENING_TIMEOUT = 5.0


class Capture:
    """Output kept up to a limit."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[bytes] = []
        self._left = limit
        self.truncated = False

    def __call__(self, data: bytes) -> None:
        if len(data) > self._left:
            self.truncated = True
            data = data[: self._left]
        self._left -= len(data)
        if data:
            self._pieces.append(data)

    @property
    def data(self) -> bytes:
        """What was kept."""
        return b"".join(self._pieces)


class ShellRemote(Remote):
    """A remote whose commands run under a shell that a subclass can start."""

    def __init__(self, name: str, *, become: Become, audit_log: str = "") -> None:
        self.name = name
        self.become = become
        self.audit_log = audit_log
        self._cancelled = False
        self._idle = True

    @abc.abstractmethod
    def _open(self, argv: Sequence[str]) -> Pipes:
        """Start ``argv`` on the host. Raises :class:`HostUnreachable`."""

    @abc.abstractmethod
    def _count(self) -> None:
        """Count one remote command."""

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """All reads in one command; identical ones are sent once, and those of one agent together."""
        if not reads:
            return {}
        folded = fold(reads)
        engine = next((read.engine for read in reads if read.engine), ())
        replies = folded.replies(self._batch(folded.lanes, timeout, engine))
        return {read.key: replies[read.script] for read in reads}

    def _batch(
        self, lanes: Sequence[Sequence[str]], timeout: float | None, engine: Sequence[str]
    ) -> list[Reply]:
        marker = secrets.token_hex(16)
        out, err = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        text = script.batch_script(lanes, marker)
        watch = EngineWatch(self, engine, reading=True) if engine else None
        rc = self._frame("reads", marker, text, None, out, err, timeout, watch)
        try:
            return script.batch_replies(out.data, err.data, marker, sum(map(len, lanes)))
        except script.IncompleteError as e:
            if out.truncated or err.truncated:
                raise CommandFailed(
                    f"{self.name}: the answer to a batch of reads is larger than {OUTPUT_LIMIT >> 20} MiB",
                    code="output-limit",
                ) from e
            raise CommandFailed(
                f"{self.name}: the host's shell ended early with {rc}: {e}: {_tail(err.data)}", rc=rc
            ) from e

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
        """Run one command to its end."""
        started = time.monotonic()
        out, err = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        rc = self._command(argv, given(stdin, keep=False), out, err, timeout, cwd, env)
        return finish(self.name, argv, rc, out, err, time.monotonic() - started, check=check)

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
        """Run one command, handing over its output as it comes."""
        source = given(stdin, keep=keep_stdin)
        return self._command(argv, source, on_stdout, on_stderr, timeout)

    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Write a file in one command: beside its place, size checked, then renamed."""
        argv = placing.put_argv(path, len(data), mode, owner)
        stdin = placing.put_input(data, unless_changed)
        done = self.run(argv, stdin=stdin, timeout=placing.put_timeout(data), check=False)
        return placing.put_reply(self.name, path, done)

    def close(self) -> None:
        """End what still runs; from another thread this interrupts the one that waits for it."""
        self._cancelled = True
        deadline = time.monotonic() + OPENING_TIMEOUT + END_TIMEOUT
        while not self._idle and time.monotonic() < deadline:
            time.sleep(0.02)

    def _command(
        self,
        argv: Sequence[str],
        source: Input | None,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        timeout: float | None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        marker = secrets.token_hex(16)
        text = script.command_script(argv, marker, cwd=cwd, env=env)
        engine = prefix_of(argv)
        watch = None
        if engine and not is_look(argv):
            watch = EngineWatch(self, engine, reading=bool(waiting([shlex.join(argv)])))
        return self._frame(title(argv), marker, text, source, on_stdout, on_stderr, timeout, watch)

    def _frame(
        self,
        what: str,
        marker: str,
        text: bytes,
        fed: Input | None,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        timeout: float | None,
        watch: EngineWatch | None,
    ) -> int:
        """Start a shell for a script, take the noise off, serve it, and end it when it has to be ended.

        ``fed``: what its standard input has after the script; None: nothing.
        ``watch``: on the engine, where docker is called in it. ``timeout`` counts from the opening line: what
        waits for a session, or for a slow login, has not begun. The shell itself gets as long.
        """
        deadline: float | None = None

        def begins() -> None:
            nonlocal deadline
            deadline = None if timeout is None else time.monotonic() + timeout

        out, err = script.Opening(marker), script.Opening(marker)
        told = BytesInput(text)
        source: Input = told if fed is None else Chained(told, fed)
        shell: Sequence[str] = script.EVAL_ALL if fed is None else script.eval_first(len(text))
        gate = None
        if self.become.wanted:
            source = gate = BecomeGate(source, self.become.password)
            shell = become_argv(shell, self.become, gate)

        def take_out(data: bytes) -> None:
            before = out.seen
            rest = out.feed(data)
            if out.seen and not before:
                begins()
                if watch:
                    watch.begins()
            if rest:
                if watch:
                    watch.heard()
                on_stdout(rest)

        def take_err(data: bytes) -> None:
            rest = err.feed(gate.feed(data) if gate else data)
            if rest:
                on_stderr(rest)

        self._cancelled = False
        self._idle = False
        try:
            pipes = self._open(shell)
            self._count()
            begins()
            try:
                rc = drain(
                    pipes,
                    source,
                    take_out,
                    take_err,
                    deadline=lambda: deadline,
                    cancelled=lambda: (
                        self._cancelled
                        or (gate is not None and gate.refused)
                        or (watch is not None and watch.hangs())
                    ),
                )
            except BaseException as e:
                if not out.seen and told.peek() is None:
                    # it may run already while the line that says so is under way, and without it nobody can
                    # end it: closing a session ends nothing. One that begins after the close doesn't run, as
                    # the line ends its shell then (SIGPIPE); nor does one whose script isn't whole
                    listen(pipes, source, out.feed, until=lambda: out.seen, seconds=OPENING_TIMEOUT)
                raise self._ended(e, what, out, gate, timeout, watch) from e
            finally:
                pipes.close()
                if watch:
                    watch.close()
            if not out.seen:
                # sshd and the login shell complain on one stream each, and either may hold the reason
                said = (noise.decode("utf-8", "replace").strip() for noise in (out.noise, err.noise))
                noise = "\n".join(filter(None, said))
                if self.become.wanted:
                    raise become_error(self.name, noise, rc)
                raise CommandFailed(
                    f"{self.name}: the host's shell did not start {what} (status {rc}):"
                    f" {noise or 'no output'}",
                    rc=rc,
                    stderr=noise,
                    hint=_shell_hint(noise),
                    code="shell",
                )
        finally:
            self._idle = True
        return rc

    def _ended(
        self,
        why: BaseException,
        what: str,
        out: script.Opening,
        gate: BecomeGate | None,
        timeout: float | None,
        watch: EngineWatch | None,
    ) -> BaseException:
        """End the command on the host and say, as an exception, how that went."""
        if isinstance(why, LinkLostError):
            running = f"; process {out.identity.pid} may still run there" if out.identity else ""
            return ConnectionLost(f"{self.name}: connection lost during {what}: {why}{running}")
        if gate is not None and gate.refused:
            return become_error(self.name, "sudo did not take the password", 1)
        left, ran = self._end(out.identity)
        if isinstance(why, CancelledError) and watch is not None and watch.hung and not self._cancelled:
            return watch.error(what, left)
        if isinstance(why, TimedOutError) and not out.seen:
            said = f"{self.name}: the host's shell did not start {what} within {timeout:g} s"
            return CommandTimeout(said, rc=124, hint=_shell_hint(""), code="shell")
        if isinstance(why, TimedOutError) and watch is not None and watch.doubted:
            return watch.error(what, left)
        if isinstance(why, TimedOutError) and waiting(ran):
            # an engine may tell its version and be stuck in the rest
            return hanging(self.name, f"`{waiting(ran)}` got no answer within {timeout:g} s{left}")
        if isinstance(why, TimedOutError):
            return CommandTimeout(
                f"{self.name}: {what} did not end within {timeout:g} s{left or ', and was ended'}", rc=124
            )
        if isinstance(why, CancelledError):
            return Interrupted(f"{self.name}: {what} was interrupted{left}")
        return why

    def _end(self, who: script.Identity | None) -> tuple[str, list[str]]:
        """End one command by its identity: "" when nothing of it is left, else what to say about it.

        Beside that, the command lines that ran until then.
        """
        if who is None or not who.start:
            return "", []
        try:
            return self._end_now(who)
        except (HostUnreachable, TimedOutError, LinkLostError, KlopsError) as e:
            return f"; process {who.pid} may still run there ({e or 'no answer'})", []

    def _end_now(self, who: script.Identity) -> tuple[str, list[str]]:
        shell = list(script.EVAL_ALL)
        source: Input = BytesInput(script.end_script(who, self.audit_log))
        gate = None
        if self.become.wanted:
            source = gate = BecomeGate(source, self.become.password)
            shell = become_argv(shell, self.become, gate)
        pipes = self._open(shell)
        self._count()
        out = Capture(OUTPUT_LIMIT)
        end = time.monotonic() + END_TIMEOUT
        try:

            def take_err(data: bytes) -> None:
                if gate:
                    gate.feed(data)

            rc = drain(
                pipes,
                source,
                out,
                take_err,
                deadline=lambda: end,
                cancelled=lambda: False,
            )
        finally:
            pipes.close()
        left = "" if rc == 0 else f"; process {who.pid} could not be ended and still runs there"
        return left, out.data.decode("utf-8", "replace").splitlines()


def title(argv: Sequence[str]) -> str:
    """A command as messages name it: quoted, cut to a line of moderate length."""
    text = shlex.join(argv).replace("\n", " ")
    return text if len(text) <= 120 else text[:117] + "..."


def _shell_hint(noise: str) -> str:
    low = noise.lower()
    if "not available" in low or "nologin" in low:
        return "this account may not log in: set another ansible_user, or give it a shell (chsh -s /bin/sh)"
    return "look at the account's login shell and its start-up files"


def _tail(data: bytes) -> str:
    return data[-2000:].decode("utf-8", "replace").strip()


def finish(
    name: str, argv: Sequence[str], rc: int, out: Capture, err: Capture, seconds: float, *, check: bool
) -> Completed:
    """The completed command; :class:`CommandFailed` when ``check`` and the status isn't 0."""
    if check and rc:
        text = _tail(err.data)
        message = f"{name}: {title(argv)} ended with {rc}" + (f": {text}" if text else "")
        hint = "the program is not there, or not on PATH" if rc == 127 else ""
        raise CommandFailed(message, rc=rc, stderr=text, hint=hint)
    return Completed(tuple(argv), rc, out.data, err.data, seconds, out.truncated or err.truncated)
