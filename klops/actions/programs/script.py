"""``script``: run a script of the control node on the host.

.. code-block:: yaml

    - script: check.sh --cards 8 'two words'
    - script: {cmd: setup.py, executable: /usr/bin/python3, creates: /srv/done}

The script goes to the host with the command that runs it, into a folder of its own that only its user may
enter and that is gone when the script has ended, however it ends. What follows its name is for the host's
shell to read, as in Ansible.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any, ClassVar

from pydantic import field_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.programs.command import split
from klops.actions.programs.programs import check, output, warn_if_cut
from klops.errors import TaskFailed
from klops.remote.filereads import GlobRead
from klops.remote.reads import Read

_UNKNOWN = "what a script does only shows when it runs"
#: The kernel takes no more of a script's first line.
_FIRST_LINE = 256
_FIRST_WORD = re.compile(r"""\s*(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
#: ``sh -c RUN TITLE NAME SIZE FOLDER LINE``, the script on standard input. It runs in the foreground: in the
#: background it would ignore SIGINT and SIGQUIT. Whoever ends it signals the whole group, the script too.
RUN = r"""
u=$(umask)
umask 077
d=$(mktemp -d "${TMPDIR:-/tmp}/klops-XXXXXXXX") || exit 74
trap 'rm -rf -- "$d"' EXIT
trap 'exit 143' HUP INT TERM
s=$d/$1
cat >"$s" || exit 74
n=$(wc -c <"$s") && [ "$n" -eq "$2" ] || { echo "the script did not arrive whole" >&2; exit 74; }
chmod 0700 "$s"
if [ -n "$3" ]; then cd -- "$3" || exit 126; fi
line=$4
set --
(umask "$u"; eval "$line") </dev/null
"""


class ScriptParams(Params):
    """``cmd`` is the script's name (looked for in ``files`` beside the playbook) and its arguments."""

    cmd: str
    chdir: str | None = None
    creates: str | None = None
    removes: str | None = None
    executable: str | None = None

    @field_validator("cmd")
    @classmethod
    def _something(cls, cmd: str) -> str:
        if not cmd.strip():
            raise ValueError("there is nothing to run")
        return cmd

    @field_validator("chdir")
    @classmethod
    def _absolute(cls, chdir: str | None) -> str | None:
        if chdir and not chdir.startswith("/"):
            raise ValueError(f"{chdir!r} is not an absolute path")
        return chdir


@dataclass(frozen=True)
class RunScript(Step):
    """Send a script and run it; ``line`` runs ``$s``, the script's path on the host."""

    name: str
    content: bytes
    line: str
    shown: str
    chdir: str = ""

    def change(self) -> Change:
        """``run the script NAME ARGUMENTS``."""
        return Change(f"run the script {self.shown}" + (f" in {self.chdir}" if self.chdir else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """One command: the script's content is its input."""
        argv = ["sh", "-c", RUN, "klops-script", self.name, str(len(self.content)), self.chdir, self.line]
        done = ctx.remote.run(argv, stdin=self.content, timeout=None, check=False)
        values = output(done, keep_ends=True)
        warn_if_cut(done, self.name, ctx)
        check(done, f"the script {self.shown}", values)
        return values


class Script(Action[ScriptParams]):
    """Run a script of the control node."""

    name = "script"
    params = ScriptParams
    free_form = "cmd"
    local_files: ClassVar[Mapping[str, str]] = {"cmd": "files"}
    refused: ClassVar[Mapping[str, str]] = {
        "decrypt": "klops reads no vaults here: pass what is secret in environment",
        "stdin": "a script has no input: use copy and command",
        "argv": "write the arguments behind the script's name",
        "_raw_params": "write the script and its arguments as cmd",
    }

    def local_name(self, text: str) -> str:
        """The first word; a line that can't be split is told when its turn comes."""
        try:
            return next(iter(split(text)), "")
        except TaskFailed:
            return ""

    def probe(self, params: ScriptParams, view: View) -> Probe:
        """The script itself, and whether ``creates`` and ``removes`` are there."""
        reads: list[Read] = []
        if params.creates:
            reads.append(GlobRead("creates", params.creates))
        if params.removes:
            reads.append(GlobRead("removes", params.removes))
        return Probe(tuple(reads), {"script": (self.local_files["cmd"], split(params.cmd)[0])})

    def plan(self, params: ScriptParams, view: View, seen: Seen) -> Plan:
        """Run it, unless a path says that it is done: then it is skipped, as in Ansible."""
        if params.creates and seen.replies["creates"].ok:
            return Plan(skipped=f"{params.creates} exists")
        if params.removes and not seen.replies["removes"].ok:
            return Plan(skipped=f"{params.removes} does not exist")
        content = seen.files["script"]
        first = _FIRST_WORD.match(params.cmd)
        if first is None:  # split() found a word, so there is one
            raise TaskFailed(f"no script in {params.cmd!r}", code="parameters")
        by = params.executable or shlex.join(interpreter(content))
        line = f'{by} "$s" {params.cmd[first.end() :].strip()}'.strip()
        name = PureWindowsPath(split(params.cmd)[0]).name
        step = RunScript(name, content, line, params.cmd.strip(), params.chdir or "")
        decided = params.creates or params.removes
        return Plan((step,), unknown="" if decided else _UNKNOWN)


def interpreter(content: bytes) -> list[str]:
    """What runs a file: the words of its ``#!`` line, ``sh`` without one, nothing for a program.

    Named outright, a script also runs where temporary folders hold no programs (``noexec``).

    >>> interpreter(b"#!/usr/bin/env python3\\n")
    ['/usr/bin/env', 'python3']
    """
    if content.startswith(b"#!"):
        line = content[2:_FIRST_LINE].split(b"\n", 1)[0].decode("utf-8", "surrogateescape").strip()
        # the kernel gives all that follows the program as one argument
        return line.split(maxsplit=1) or ["sh"]
    return [] if b"\0" in content[:_FIRST_LINE] else ["sh"]
