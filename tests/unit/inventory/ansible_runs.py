"""Many runs of Ansible's own commands in one process: importing Ansible takes longer than a run of it.

As a module it starts itself as a program under the interpreter that has Ansible. As a program it reads a JSON
list of command lines from standard input and prints a JSON list of what each printed and ended with.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: What would make the output depend on the machine.
SETTINGS = {
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    "ANSIBLE_DEPRECATION_WARNINGS": "false",
    "ANSIBLE_NOCOLOR": "1",
    "LC_ALL": "C.UTF-8",
}


class Run(NamedTuple):
    """What one command line printed and ended with."""

    status: int
    out: str
    err: str


def interpreter() -> str | None:
    """The Python that has ansible-core: this one, else that of ``ansible-inventory`` on PATH."""
    if os.name == "nt":
        return None
    if importlib.util.find_spec("ansible") is not None:
        return sys.executable
    found = shutil.which("ansible-inventory")
    if found is None:
        return None
    first = Path(found).read_bytes().partition(b"\n")[0].decode("utf-8", "replace")
    return first.removeprefix("#!").strip() if first.startswith("#!") else None


def run_all(python: str, commands: Sequence[Sequence[str]], cwd: Path) -> list[Run]:
    """Run command lines that begin with ``ansible`` or ``ansible-inventory``; ``cwd`` may be written to."""
    config = cwd / "ansible.cfg"
    config.touch()
    own = {**SETTINGS, "ANSIBLE_CONFIG": str(config), "ANSIBLE_HOME": str(cwd / ".ansible")}
    done = subprocess.run(
        [python, __file__],
        input=json.dumps([list(command) for command in commands]),
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **own},
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [Run(*found) for found in json.loads(done.stdout)]


def _start(argv: list[str], out: int, err: int) -> int:
    """Fork a run of one command line; returns its process id."""
    import runpy

    child = os.fork()
    if child:
        return child
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = argv
    status: object = 0
    try:
        name = "ansible.cli.inventory" if argv[0] == "ansible-inventory" else "ansible.cli.adhoc"
        runpy.run_module(name, run_name="__main__")
    except SystemExit as error:
        status = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


def _all(commands: list[list[str]], side_by_side: int = 4) -> list[list[Any]]:
    import contextlib
    import tempfile

    results: list[list[Any]] = []
    for first in range(0, len(commands), side_by_side):
        with contextlib.ExitStack() as stack:
            runs = []
            for argv in commands[first : first + side_by_side]:
                files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
                runs.append((_start(argv, files[0].fileno(), files[1].fileno()), files))
            for child, files in runs:
                _, ended = os.waitpid(child, 0)
                for file in files:
                    file.seek(0)
                texts = [file.read().decode() for file in files]
                results.append([os.waitstatus_to_exitcode(ended), *texts])
    return results


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    import ansible.cli.adhoc
    import ansible.cli.inventory  # noqa: F401 - imported once for all runs

    json.dump(_all(wanted), sys.stdout)
