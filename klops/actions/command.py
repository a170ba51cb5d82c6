"""``command``: run a program on the host, without a shell.

.. code-block:: yaml

    - command: /usr/bin/make install
      args: {chdir: /srv/src, creates: /usr/local/bin/thing}
    - command: {argv: [touch, "a file"], chdir: /tmp}
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.commands.listing import parse
from klops.errors import CommandFailed, TaskFailed
from klops.remote.base import OUTPUT_LIMIT, Completed
from klops.remote.reads import ListRead

#: Longer commands are not repeated in a hint.
_LONGEST_HINT = 200
_UNKNOWN = "what a command does only shows when it runs"


class CommandParams(Params):
    """``cmd`` or ``argv``; ``creates``/``removes`` are paths that, being there (or not), make it needless."""

    cmd: str | None = None
    argv: list[str] | None = None
    chdir: str | None = None
    creates: str | None = None
    removes: str | None = None
    stdin: str | None = None
    stdin_add_newline: bool = True

    @model_validator(mode="after")
    def _one_command(self) -> CommandParams:
        if bool(self.cmd) == bool(self.argv):
            raise ValueError("give one of cmd and argv")
        return self


@dataclass(frozen=True)
class RunCommand(Step):
    """Run a program; a status other than 0 fails the task."""

    argv: tuple[str, ...]
    chdir: str | None = None
    stdin: str = ""

    def change(self) -> Change:
        """``run ARGV``."""
        return Change(f"run {shlex.join(self.argv)}" + (f" in {self.chdir}" if self.chdir else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Run it, however long it takes."""
        done = ctx.remote.run(self.argv, stdin=self.stdin.encode(), timeout=None, check=False, cwd=self.chdir)
        if done.rc:
            last = (done.error_text.strip() or done.text.strip()).splitlines()[-1:]
            detail = f": {last[0]}" if last else ""
            raise CommandFailed(
                f"{shlex.join(self.argv)} ended with {done.rc}{detail}",
                rc=done.rc,
                stdout=done.text,
                stderr=done.error_text,
                hint=self._hint(done.rc, ctx.view.host),
            )
        if done.truncated:
            most = OUTPUT_LIMIT // 1024**2
            ctx.warn(f"{self.argv[0]} said more than {most} MiB: what is beyond that is not registered")
        return _registered(done)

    def _hint(self, rc: int, host: str) -> str:
        if rc == 127:
            return "the program is not there, or not on PATH"
        alone = f"klops exec --host {host} -- {shlex.join(self.argv)}"
        return "" if self.chdir or self.stdin or len(alone) > _LONGEST_HINT else f"to run it alone: {alone}"


class Command(Action[CommandParams]):
    """Run a program on the host."""

    name = "command"
    params = CommandParams
    free_form = "cmd"

    def probe(self, params: CommandParams, view: View) -> Probe:
        """Whether ``creates`` and ``removes`` are there."""
        given = {"creates": params.creates, "removes": params.removes}
        return Probe(tuple(ListRead(key, (_in(params.chdir, path),)) for key, path in given.items() if path))

    def plan(self, params: CommandParams, view: View, seen: Seen) -> Plan:
        """Run it, unless a path says that it is done."""
        argv = tuple(params.argv or _split(params.cmd or ""))
        if params.creates and parse(seen.replies["creates"].text):
            return _needless(argv, f"{params.creates} exists")
        if params.removes and not parse(seen.replies["removes"].text):
            return _needless(argv, f"{params.removes} does not exist")
        stdin = params.stdin or ""
        if stdin and params.stdin_add_newline:
            stdin += "\n"
        step = RunCommand(argv, params.chdir, stdin)
        decided = params.creates or params.removes
        return Plan((step,), result={"cmd": list(argv)}, unknown="" if decided else _UNKNOWN)


def _needless(argv: tuple[str, ...], why: str) -> Plan:
    message = f"not run, since {why}"
    empty = {"rc": 0, "stdout": message, "stdout_lines": [message], "stderr": "", "stderr_lines": []}
    return Plan(result={"cmd": list(argv), **empty, "truncated": False}, message=message)


def _registered(done: Completed) -> dict[str, Any]:
    # as in Ansible the newlines at the end are dropped
    out, err = done.text.rstrip("\r\n"), done.error_text.rstrip("\r\n")
    return {
        "rc": done.rc,
        "stdout": out,
        "stdout_lines": out.splitlines(),
        "stderr": err,
        "stderr_lines": err.splitlines(),
        "truncated": done.truncated,
    }


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise TaskFailed(
            f"command {text!r}: {error}", hint="close the quote, or use argv", code="parameters"
        ) from error


def _in(chdir: str | None, path: str) -> str:
    return path if path.startswith("/") or not chdir else f"{chdir.rstrip('/')}/{path}"
