"""A program that is imported once and run often: a process that forks for each command line.

Both tools need longer to start than to run a small playbook. Every run has a process of its own all the same:
its exit status, its two streams, its environment and its working folder.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import klops

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that one run may take.
LIMIT = 60.0


@dataclass(frozen=True)
class Ended:
    """A finished run: exit status (-1: it took longer than ``LIMIT``), what it printed, seconds."""

    rc: int
    stdout: str
    stderr: str
    seconds: float


class Forks:
    """A running ``program`` ("ansible" or "klops"); one run at a time."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.oracle.forks", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            cwd=ROOT,
        )

    def run(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], streams: Path) -> Ended:
        """Run one command line; its streams go through files beside ``streams``."""
        job = {
            "argv": list(argv),
            "cwd": str(cwd),
            "env": dict(env),
            "stdout": f"{streams}.stdout",
            "stderr": f"{streams}.stderr",
        }
        began = time.monotonic()
        with self._lock:
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(job).encode() + b"\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the process that forks has ended")
        shown = [Path(str(job[name])).read_text("utf-8", "replace") for name in ("stdout", "stderr")]
        return Ended(json.loads(answer), shown[0], shown[1], time.monotonic() - began)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        # it ends by itself when nothing more can come
        self._server.communicate(timeout=LIMIT)


def _program(name: str) -> Callable[[list[str]], Any]:
    if name == "klops":
        # whatever a run may import, so that the forks have it
        for module in pkgutil.walk_packages(klops.__path__, "klops."):
            if not module.name.startswith(("klops.agent", "klops.sim", "klops.__main__")):
                importlib.import_module(module.name)
        for other in (
            "asyncio",
            "fabric",
            "pydantic.json_schema",
            "rich.progress",
            "rich.syntax",
            "structlog",
        ):
            importlib.import_module(other)
        from klops.cli.main import run

        return run
    from ansible.cli.playbook import PlaybookCLI

    return lambda argv: PlaybookCLI.cli_executor(["ansible-playbook", *argv])


def _child(run: Callable[[list[str]], Any], job: Mapping[str, Any]) -> int:
    os.setsid()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    for number, name in enumerate((os.devnull, job["stdout"], job["stderr"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(name, flags, 0o600), number)
    try:
        status = run(job["argv"])
    except SystemExit as ended:
        status = ended.code
    sys.stdout.flush()
    sys.stderr.flush()
    return status if isinstance(status, int) else 0


def _wait(pid: int) -> int:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def main(program: str) -> None:
    """Read jobs, one a line, and answer each with its exit status."""
    run = _program(program)
    answers = os.fdopen(os.dup(1), "wb")
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            status = 250
            try:
                status = _child(run, json.loads(line))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        answers.write(json.dumps(_wait(pid)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
