"""``command``: run a program on the host, without a shell.

.. code-block:: yaml

    - command: /usr/bin/make install
      args: {chdir: /srv/src, creates: /usr/local/bin/thing}
    - command: {argv: [touch, "a file"], chdir: /tmp}
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import ClassVar

from pydantic import model_validator

from klops.actions.base import Action, Plan, Probe, Seen, View
from klops.actions.programs.programs import ProgramParams, RunCommand, folder, guards, program_plan
from klops.errors import TaskFailed


class CommandParams(ProgramParams):
    """``cmd`` or ``argv``; unless ``expand_argument_vars`` is false, ``~`` and ``$NAME`` are the host's."""

    cmd: str | None = None
    argv: list[str] | None = None
    expand_argument_vars: bool = True
    strip_empty_ends: bool = True

    @model_validator(mode="after")
    def _one_command(self) -> CommandParams:
        if bool(self.cmd and self.cmd.strip()) == bool(self.argv):
            raise ValueError("give one of cmd and argv")
        return self


class Command(Action[CommandParams]):
    """Run a program on the host."""

    name = "command"
    params = CommandParams
    free_form = "cmd"
    refused: ClassVar[Mapping[str, str]] = {
        "executable": "command uses no shell: use the module shell",
        "_uses_shell": "use the module shell",
        "_raw_params": "write the command as cmd",
        "warn": "there is nothing to warn of: leave it out",
    }

    def probe(self, params: CommandParams, view: View) -> Probe:
        """Where to run, and whether ``creates`` and ``removes`` are there."""
        return Probe(guards(params))

    def plan(self, params: CommandParams, view: View, seen: Seen) -> Plan:
        """Run it, unless a path says that it is done."""
        argv = tuple(params.argv or split(params.cmd or ""))
        where = folder(params, seen, list(argv))
        step = RunCommand(
            argv,
            where,
            params.input,
            keep_ends=not params.strip_empty_ends,
            expand=params.expand_argument_vars,
            is_program=True,
        )
        return program_plan(params, seen, step)


def split(text: str) -> list[str]:
    """A line in its words, by the quotes of a shell. Raises :class:`TaskFailed`."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise TaskFailed(
            f"command {text!r}: {error}", hint="close the quote, or use argv", code="parameters"
        ) from error
