"""Programs that tasks run on the host: what command, shell and script share."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.actions.ansibletexts import NON_ZERO, SKIPPED_SINCE
from klops.actions.base import Change, Context, Params, Plan, Seen, Step, View
from klops.commands.words import expands, word
from klops.errors import CommandFailed, TaskFailed
from klops.remote.base import OUTPUT_LIMIT, Completed
from klops.remote.filereads import FolderRead, GlobRead
from klops.remote.reads import Read

#: Longer commands are not repeated in a hint.
_LONGEST_HINT = 200
UNKNOWN = "what a command does only shows when it runs"
#: what a task registers that ran nothing
_NOTHING: Mapping[str, Any] = {"start": None, "end": None, "delta": None, "stderr": "", "stderr_lines": []}


class ProgramParams(Params):
    """``creates``/``removes`` are paths or patterns that, being there (or not), make the command needless."""

    chdir: str | None = None
    creates: str | None = None
    removes: str | None = None
    stdin: str | None = None
    stdin_add_newline: bool = True

    @property
    def input(self) -> str:
        """What the command finds on its standard input."""
        return f"{self.stdin}\n" if self.stdin and self.stdin_add_newline else self.stdin or ""


@dataclass(frozen=True)
class RunCommand(Step):
    """Run a program; a status other than 0 fails the task.

    ``command`` is what is registered as ``cmd``: a list, or the line that a shell was given. ``keep_ends``
    leaves empty lines at the end of the output. ``expand``: ``~`` and ``$NAME`` in arguments are the host's.
    ``is_program``: ``argv`` is the task's own; one that can't be started has changed nothing.
    """

    argv: tuple[str, ...]
    chdir: str | None = None
    stdin: str = ""
    command: tuple[str, ...] | str = ()
    keep_ends: bool = False
    expand: bool = False
    is_program: bool = False

    def change(self) -> Change:
        """``run COMMAND``."""
        return Change(f"run {self._shown}" + (f" in {self.chdir}" if self.chdir else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Run it, however long it takes."""
        began = clock()
        done = ctx.remote.run(
            self._sent(),
            stdin=self.stdin.encode("utf-8", "surrogateescape"),
            timeout=None,
            check=False,
            cwd=self.chdir,
        )
        values = {"cmd": self._registered, **output(done, keep_ends=self.keep_ends), **times(began, done)}
        if self.is_program and not_started(self.argv[0], done):
            values["changed"] = False
        warn_if_cut(done, self._shown, ctx)
        check(done, self._shown, values, self._hint(done.rc, ctx.view))
        return {**values, "msg": ""}

    @property
    def _registered(self) -> list[str] | str:
        return self.command if isinstance(self.command, str) else list(self.command or self.argv)

    @property
    def _shown(self) -> str:
        command = self._registered
        text = command if isinstance(command, str) else shlex.join(command)
        # a script of many lines is told in one
        return "\\n".join(text.strip("\n").split("\n"))

    def _sent(self) -> list[str]:
        if self.expand and any(map(expands, self.argv)):
            return ["sh", "-c", "exec " + " ".join(map(word, self.argv))]
        return list(self.argv)

    def _hint(self, rc: int, view: View) -> str:
        if rc == 127:
            return "the program is not there, or not on PATH"
        alone = f"klops exec --host {view.host} -- {shlex.join(self.argv)}"
        given = self.chdir or self.stdin or (self.expand and any(map(expands, self.argv)))
        long = len(alone) > _LONGEST_HINT or "\n" in alone
        return "" if given or long or view.delegated else f"to run it alone: {alone}"


def check(done: Completed, shown: str, values: Mapping[str, Any], hint: str = "") -> None:
    """Raises :class:`CommandFailed`, with what is to be registered, for a status other than 0."""
    if not done.rc:
        return
    last = (done.error_text.strip() or done.text.strip()).splitlines()[-1:]
    detail = f": {last[0]}" if last else ""
    raise CommandFailed(
        f"{shown} ended with {done.rc}{detail}",
        rc=done.rc,
        stdout=done.text,
        stderr=done.error_text,
        hint=hint,
        values={"changed": True, **values, "msg": NON_ZERO},
    )


def not_started(program: str, done: Completed) -> bool:
    """Whether the shell that was to start a program says that it could not.

    Shells end with 127 or 126 then and say so in one line, ``SHELL: PROGRAM: WHY``, each in its own words and
    language (Chinese has a colon of its own, French a space before it); nothing else was said.
    """
    said = re.fullmatch(rf"[^\n]+?\s?[:：]\s*{re.escape(program)}\s?[:：][^\n]+\s*", done.error_text)
    return done.rc in (126, 127) and not done.stdout and said is not None


def warn_if_cut(done: Completed, shown: str, ctx: Context) -> None:
    """Say so when the output was larger than what is kept."""
    if done.truncated:
        most = OUTPUT_LIMIT // 1024**2
        program = shown.split(maxsplit=1)[0]
        ctx.warn(f"{program} said more than {most} MiB: what is beyond that is not registered")


def output(done: Completed, *, keep_ends: bool = False) -> dict[str, Any]:
    """What a command said, as it is registered; ``keep_ends``: with the line breaks at the end."""
    out, err = done.text, done.error_text
    if not keep_ends:
        out, err = out.rstrip("\r\n"), err.rstrip("\r\n")
    return {
        "rc": done.rc,
        "stdout": out,
        "stdout_lines": out.splitlines(),
        "stderr": err,
        "stderr_lines": err.splitlines(),
        "truncated": done.truncated,
    }


def clock() -> datetime.datetime:
    """Now, by the clock and in the time zone of the control node."""
    return datetime.datetime.now().astimezone().replace(tzinfo=None)


def times(began: datetime.datetime, done: Completed) -> dict[str, str]:
    """When a command ran, by the clock of the control node, in Ansible's form."""
    took = datetime.timedelta(seconds=done.seconds)
    return {"start": str(began), "end": str(began + took), "delta": str(took)}


def guards(params: ProgramParams) -> tuple[Read, ...]:
    """What decides where a command runs, and whether it has to."""
    found: list[Read] = []
    if params.chdir:
        found.append(FolderRead("chdir", params.chdir))
    if params.creates:
        found.append(GlobRead("creates", params.creates, params.chdir))
    if params.removes:
        found.append(GlobRead("removes", params.removes, params.chdir))
    return tuple(found)


def folder(params: ProgramParams, seen: Seen, command: Sequence[str] | str) -> str | None:
    """The folder to run in, as an absolute path. Raises :class:`TaskFailed` when it can't be entered."""
    if not params.chdir:
        return None
    reply = seen.replies["chdir"]
    if reply.ok:
        return reply.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
    raise TaskFailed(
        f"chdir: {params.chdir} is no folder that can be entered",
        code="absent",
        values={"cmd": command, "rc": None, **_NOTHING, "stdout": "", "stdout_lines": []},
    )


def needless(params: ProgramParams, seen: Seen) -> str:
    """Why the command need not run; "" when it has to."""
    if params.creates and seen.replies["creates"].ok:
        return f"{params.creates} exists"
    if params.removes and not seen.replies["removes"].ok:
        return f"{params.removes} does not exist"
    return ""


def program_plan(params: ProgramParams, seen: Seen, step: RunCommand) -> Plan:
    """Run it, unless a path says that it is done."""
    command = step.command if isinstance(step.command, str) else list(step.command or step.argv)
    why = needless(params, seen)
    if why:
        said = f"{SKIPPED_SINCE}{why}"
        message = f"not run, since {why}"
        result = {"cmd": command, "rc": 0, "msg": message, "stdout": said, "stdout_lines": [said], **_NOTHING}
        return Plan(result={**result, "truncated": False}, message=message)
    decided = params.creates or params.removes
    return Plan((step,), result={"cmd": command}, unknown="" if decided else UNKNOWN)
