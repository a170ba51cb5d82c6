"""Commands inside a container, through ``docker exec`` on whatever remote reaches its engine.

``docker exec`` alone can't be trusted with ends: its status 1 or 126 may be docker's or the command's, and
the command outlives a client that is interrupted or killed. So the same opening line as everywhere tells
whether the command began, and gives its identity in the container, by which it is ended. When nobody is left
to end it, it ends by itself: see :mod:`klops.remote.insidescripts`.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from klops.errors import (
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    DockerUnavailable,
    Interrupted,
    KlopsError,
)
from klops.remote import insidescripts, placing, script
from klops.remote.base import DEFAULT_TIMEOUT, OUTPUT_LIMIT, Completed, Given, OnOutput, Remote, Reply, Stream
from klops.remote.shell import END_TIMEOUT, Capture, finish, title

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: How often a container in which a command was killed is tried, seconds between two tries, and seconds that
#: each may take.
STOPPED_TRIES, STOPPED_PAUSE, STOPPED_TIMEOUT = 25, 0.2, 10.0

# what docker says where there is no container to run commands in, where it has just ended, and without engine
_GONE = ("no such container", "is not running", "is restarting", "is paused")
_STOPPED = ("stopped container", "stopped state")
_NO_ENGINE = ("docker daemon", "docker.sock", "a password is required")


class ContainerRemote(Remote):
    """A running container as a remote. ``docker`` is the start of every argv: ``["sudo", "-n", "docker"]``.

    The container needs a POSIX ``sh``. Connections are made by the host: klops' containers share its network.
    """

    def __init__(self, inner: Remote, docker: Sequence[str], container: str) -> None:
        self._inner = inner
        self._docker = tuple(docker)
        self.container = container
        self.name = inner.name
        # the root has the same path inside
        self.audit_log = inner.audit_log

    @property
    def commands_run(self) -> int:  # type: ignore[override]  # counted by the remote that does the work
        return self._inner.commands_run

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        """All reads in one command inside the container; identical ones are sent once."""
        scripts = script.distinct(reads)
        if not scripts:
            return {}
        marker = secrets.token_hex(16)
        out, err = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        text = insidescripts.guarded(script.batch_lines([scripts], marker), marker, 0, self.audit_log)
        rc = self._frame("reads", marker, text, b"", out, err, timeout)
        try:
            answers = script.batch_replies(out.data, err.data, marker, len(scripts))
        except script.IncompleteError as e:
            raise CommandFailed(f"{self._place}: the shell ended early with {rc}: {e}", rc=rc) from e
        replies = dict(zip(scripts, answers, strict=True))
        return {read.key: replies[read.script] for read in reads}

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
        """Run one command. A container that isn't there is ``CommandFailed`` with code ``container-gone``."""
        started = time.monotonic()
        out, err = Capture(OUTPUT_LIMIT), Capture(OUTPUT_LIMIT)
        rc = self._command(argv, stdin, out, err, timeout, cwd, env)
        return finish(self._place, argv, rc, out, err, time.monotonic() - started, check=check)

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
        return self._command(argv, stdin, on_stdout, on_stderr, timeout, keep_stdin=keep_stdin)

    def launch(
        self, argv: Sequence[str], *, log: str, env: Mapping[str, str] | None = None, longest: int = 0
    ) -> script.Identity:
        """Start one command that outlives the call, the link and klops; its identity in the container.

        It has a session of its own and no input. What it says is added to the file ``log`` of the container,
        which is made with mode 0600; one of more than ``longest`` bytes (0: it may be of any length) becomes
        LOG.1 first. Raises :class:`CommandFailed` when it can't be started; what goes wrong from then on is
        told by the log.
        """
        file = f"{log}.{secrets.token_hex(8)}"
        text = insidescripts.launch_script(argv, file, log=log, env=env)
        prepare = ["sh", "-c", insidescripts.PREPARE, "sh", argv[0], log, file, str(longest)]
        try:
            self.run(prepare, stdin=text, env=env)
        except CommandFailed as e:
            if e.code != CommandFailed.code:
                raise
            hint = e.hint or f"can {log} be written in the container? Its folder has to be there"
            said = f"{self._place}: {title(argv)} can't be started: {e.stderr or e.message}"
            raise e.but(message=said, hint=hint) from e
        try:
            self._exec_detached(["sh", file])
            return self._launched(self, file, insidescripts.TELL_TRIES)
        except BaseException:
            # whether it runs is not known: what isn't told to the caller must not stay
            with contextlib.suppress(KlopsError):
                self._end(self._launched(self.clone(), file, 1))
            raise

    def _exec_detached(self, argv: Sequence[str]) -> None:
        # prints nothing but errors: the process itself has to say who it is
        done = self._inner.run([*self._docker, "exec", "-d", self.container, *argv], check=False)
        if done.rc:
            raise self._refused(done.error_text.strip(), done.rc)

    def _launched(self, remote: Remote, file: str, tries: int) -> script.Identity:
        tell = ["sh", "-c", insidescripts.TELL, "sh", file, str(tries)]
        done = remote.run(tell, check=False)
        numbers = done.text.split()
        if done.rc or len(numbers) != 3:
            raise CommandFailed(
                f"{self._place}: what docker exec -d started did not say who it is:"
                f" {done.error_text.strip() or 'no output'}",
                hint="it is ended again; is the disk of the container full, or the host too busy?",
            )
        pid, group, start = map(int, numbers)
        return script.Identity(pid, group, start)

    def put(
        self, data: bytes, path: str, *, mode: int = 0o644, owner: str = "", unless_changed: str = ""
    ) -> Reply:
        """Write a file in the container: beside its place, size checked, then renamed."""
        argv = placing.put_argv(path, len(data), mode, owner)
        stdin = placing.put_input(data, unless_changed)
        done = self.run(argv, stdin=stdin, timeout=placing.put_timeout(data), check=False)
        return placing.put_reply(self._place, path, done)

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """A connection made by the host."""
        return self._inner.connect(host, port, timeout=timeout)

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """The command gets the caller's terminal, or standard streams."""
        flags = ["-i", "-t"] if tty else ["-i"]
        return self._inner.interactive([*self._docker, "exec", *flags, self.container, *argv], tty=tty)

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """The same container over a clone of the remote; the other user is the one who calls docker."""
        inner = self._inner.clone(become=become, become_user=become_user)
        return ContainerRemote(inner, self._docker, self.container)

    def close(self) -> None:
        """Close the remote underneath."""
        self._inner.close()

    @property
    def _place(self) -> str:
        return f"{self.name}: container {self.container}"

    def _command(
        self,
        argv: Sequence[str],
        stdin: Given,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        timeout: float | None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        *,
        keep_stdin: bool = False,
    ) -> int:
        marker = secrets.token_hex(16)
        if keep_stdin:
            text = script.command_script(argv, marker, cwd=cwd, env=env)
        elif not isinstance(stdin, bytes):
            raise ValueError("pieces of unknown length need keep_stdin")
        else:
            text = insidescripts.guarded_command(
                argv, marker, len(stdin), cwd=cwd, env=env, audit_log=self.audit_log
            )
        return self._frame(title(argv), marker, text, stdin, on_stdout, on_stderr, timeout)

    def _frame(
        self,
        what: str,
        marker: str,
        text: bytes,
        stdin: Given,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        timeout: float | None,
    ) -> int:
        """Have a shell in the container carry out a script; its exit status.

        Its standard input stays open after ``stdin``: the script, or its command, ends with it.
        """
        out, err = script.Opening(marker), script.Opening(marker)

        def take_out(data: bytes) -> None:
            rest = out.feed(data)
            if rest:
                on_stdout(rest)

        def take_err(data: bytes) -> None:
            rest = err.feed(data)
            if rest:
                on_stderr(rest)

        try:
            rc = self._inner.stream(
                self._exec(script.eval_first(len(text))),
                on_stdout=take_out,
                on_stderr=take_err,
                stdin=text + stdin if isinstance(stdin, bytes) else itertools.chain((text,), stdin),
                timeout=timeout,
                keep_stdin=True,
            )
        except ConnectionLost as e:
            raise ConnectionLost(f"{e.message}{self._left_alone(out.identity)}", hint=e.hint) from e
        except CommandTimeout as e:
            left = self._end(out.identity)
            message = (
                f"{self._place}: {what} did not end within {timeout or 0:g} s{left or ', and was ended'}"
            )
            raise CommandTimeout(message, rc=e.rc) from e
        except Interrupted as e:
            left = self._end(out.identity)
            raise Interrupted(f"{self._place}: {what} was interrupted{left}") from e
        except BaseException:
            # Ctrl-C in this thread, or a sink that failed: the command must not outlive it
            self._end(out.identity)
            raise
        if not out.seen:
            raise self._refused((err.noise or out.noise).decode("utf-8", "replace").strip(), rc)
        if rc == 137 and self._has_stopped():
            raise self._gone(f"it stopped during {what}")
        return rc

    def _exec(self, shell: Sequence[str]) -> list[str]:
        return [*self._docker, "exec", "-i", self.container, *shell]

    def _refused(self, said: str, rc: int) -> KlopsError:
        """docker's own failure, told apart by its words (its status says nothing)."""
        said = said.removeprefix("Error response from daemon: ")
        low = said.lower()
        if any(word in low for word in _GONE):
            return self._gone(said)
        if any(word in low for word in _NO_ENGINE):
            return DockerUnavailable(
                f"{self.name}: docker can't be asked: {said}",
                hint="is the engine running, and may this user ask it? see klops.docker.sudo",
            )
        return CommandFailed(f"{self._place}: docker exec failed: {said or 'no output'}", rc=rc, stderr=said)

    def _gone(self, why: str) -> CommandFailed:
        return CommandFailed(
            f"{self._place} is not there to run commands: {why}",
            hint=f"klops status {self.name} shows it; klops up {self.name} brings it back",
            code="container-gone",
        )

    def _has_stopped(self) -> bool:
        """Whether it was the end of the container that killed a command; no where that can't be told.

        The engine tells the end of the command first, and calls a container that has just died running until
        it has seen to it. A new command can't begin in it any more; docker may start it again a moment later.
        """
        for _ in range(STOPPED_TRIES):
            try:
                done = self._inner.run(self._exec(["sh", "-c", ":"]), timeout=STOPPED_TIMEOUT, check=False)
            except CommandTimeout:
                return False
            said = done.error_text.lower()
            if done.rc == 0 or any(word in said for word in (*_GONE, *_STOPPED)):
                return done.rc != 0
            if any(word in said for word in _NO_ENGINE):
                raise self._refused(done.error_text.strip(), done.rc)
            time.sleep(STOPPED_PAUSE)
        return False

    def _end(self, who: script.Identity | None) -> str:
        """End one command in the container by its identity; "" when nothing of it is left."""
        if who is None or not who.start:
            return ""
        try:
            text = script.end_script(who, self.audit_log)
            done = self._inner.clone().run(
                self._exec(script.EVAL_ALL), stdin=text, timeout=END_TIMEOUT, check=False
            )
        except KlopsError as e:
            return f"; {self._named(who)} may still run ({e.message})"
        return "" if done.rc == 0 else f"; {self._named(who)} could not be ended and still runs"

    def _left_alone(self, who: script.Identity | None) -> str:
        """What to say of a command that can't be reached any more."""
        if who is None:
            return ""
        return f"; {self._named(who)} ends by itself when the host sees that the link is gone"

    def _named(self, who: script.Identity) -> str:
        return f"process {who.pid} (start {who.start}) of container {self.container}"
