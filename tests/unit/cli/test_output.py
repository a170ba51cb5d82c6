"""Output that nobody reads, and a final status that could not be had."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from klops.errors import AgentError
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from klops.ui.outlet import READER_GONE
from tests.unit.cli.conftest import CHECKOUT, LocalHost

PLAYBOOK = """\
- hosts: all
  tasks:
    - debug: {msg: first}
    - copy: {content: "x", dest: %s}
    - debug: {msg: last}
"""


def klops_without_reader(*argv: str) -> tuple[int, str]:
    """Exit status and standard error of a klops whose standard output is a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "klops", *argv]
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=CHECKOUT
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_run_whose_reader_has_gone_is_finished_and_does_not_exit_with_0(
    host: LocalHost, output: str
) -> None:
    made = host.home / "made"
    playbook = host.home / "site.yml"
    playbook.write_text(PLAYBOOK % made)
    rc, err = klops_without_reader("play", str(playbook), "-i", str(host.home / "hosts.yml"), "-o", output)
    assert rc == READER_GONE, err
    assert made.read_text() == "x"
    assert "fault" not in err
    assert "BrokenPipe" not in err


def test_a_failed_run_keeps_its_status(host: LocalHost) -> None:
    playbook = host.home / "site.yml"
    playbook.write_text("- hosts: all\n  tasks:\n    - fail: {msg: no}\n")
    assert klops_without_reader("play", str(playbook), "-i", str(host.home / "hosts.yml"))[0] == 1


@pytest.mark.parametrize("argv", [["exec", "--host", "here"], ["inventory", "list"], ["ps", "here"]])
def test_other_commands_end_likewise(host: LocalHost, argv: list[str]) -> None:
    host.container()
    host.agent()
    command = ["--", "sh", "-c", "yes"] if argv[0] == "exec" else []
    rc, err = klops_without_reader(*argv, "-i", str(host.home / "hosts.yml"), *command)
    assert rc == READER_GONE, err
    assert "Traceback" not in err


def test_a_final_status_that_failed_is_shown_as_its_error(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.home / "hosts.yml").write_text("all: {hosts: {one: , two: }}")
    error = AgentError("the agent in the container does not answer")
    status: dict[str, Any] = {"services": {}, "container": None}
    result = RunResult(
        "restart.yml",
        plays=[
            PlayRun(
                "restart",
                ("one", "two"),
                [
                    TaskRun(
                        "Status",
                        "klops.status",
                        {
                            "one": TaskResult(Status.OK, values=status),
                            "two": TaskResult(Status.FAILED, error=error, values={"failed": True}),
                        },
                    )
                ],
            )
        ],
        hosts=("one", "two"),
        errors={"two": error},
    )
    monkeypatch.setattr("klops.cli.running.run_playbook", lambda *_, **__: result)
    rc, out, _ = host.klops("restart", "all")
    assert rc == 1
    assert [line.strip() for line in out.splitlines() if line.strip()] == [
        "one",
        "container: none",
        "services: none",
        "two",
        "error: the agent in the container does not answer",
    ]


def test_somebody_elses_lock_is_shown_after_a_run(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    status = {"services": {}, "container": None, "lock": {"who": "ada", "from": "desk"}}
    task = TaskRun("Status", "klops.status", {"here": TaskResult(Status.OK, values=status)})
    result = RunResult("restart.yml", plays=[PlayRun("restart", ("here",), [task])], hosts=("here",))
    monkeypatch.setattr("klops.cli.running.run_playbook", lambda *_, **__: result)
    rc, out, _ = host.klops("restart", "here")
    assert rc == 0
    assert "lock: held by ada from desk" in out
