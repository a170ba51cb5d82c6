"""``shell``: run a line in a shell on the host: ``/bin/sh``, or the one that ``executable`` names.

.. code-block:: yaml

    - shell: dmesg | grep -c xpu > /tmp/count
      args: {creates: /tmp/count}
    - shell: {cmd: "set -o pipefail; a | b", executable: /bin/bash}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import field_validator

from klops.actions.base import Action, Plan, Probe, Seen, View
from klops.actions.programs.programs import ProgramParams, RunCommand, folder, guards, program_plan

_SHELL = "/bin/sh"


class ShellParams(ProgramParams):
    """``cmd`` is the line, with all that a shell understands; ``executable`` the shell's absolute path."""

    cmd: str
    executable: str = _SHELL

    @field_validator("cmd")
    @classmethod
    def _something(cls, cmd: str) -> str:
        if not cmd.strip():
            raise ValueError("there is nothing to run")
        return cmd

    @field_validator("executable")
    @classmethod
    def _absolute(cls, executable: str) -> str:
        if not executable.startswith("/"):
            raise ValueError(f"{executable!r} is not an absolute path, such as /bin/bash")
        return executable


class Shell(Action[ShellParams]):
    """Run a line in a shell."""

    name = "shell"
    params = ShellParams
    free_form = "cmd"
    refused: ClassVar[Mapping[str, str]] = {
        "argv": "a shell takes one line: write it as cmd, or use the module command",
        "expand_argument_vars": "the shell expands what is not in single quotes",
        "strip_empty_ends": "the module command has it",
        "_uses_shell": "the module shell always does",
        "_raw_params": "write the line as cmd",
        "warn": "there is nothing to warn of: leave it out",
    }

    def probe(self, params: ShellParams, view: View) -> Probe:
        """Where to run, and whether ``creates`` and ``removes`` are there."""
        return Probe(guards(params))

    def plan(self, params: ShellParams, view: View, seen: Seen) -> Plan:
        """Run it, unless a path says that it is done."""
        argv = (params.executable, "-c", params.cmd)
        where = folder(params, seen, params.cmd)
        return program_plan(params, seen, RunCommand(argv, where, params.input, command=params.cmd))
