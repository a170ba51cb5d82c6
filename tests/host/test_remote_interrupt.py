"""Ctrl-C and TERM while klops is at work on several hosts: nothing is left running on any of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.engine import Box, start_box
from tests.host.processes import running
from tests.host.sshd import Sshd, connection_to, start_sshd
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    daemon = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with start_box() as found:
        yield found


def inventory(folder: Path, sshd: Sshd, klops: dict[str, Any]) -> str:
    """Two hosts, which are this machine: one over ssh, one local."""
    there = connection_to(sshd)
    ssh = {
        "ansible_host": there.address,
        "ansible_port": there.port,
        "ansible_user": there.user,
        "ansible_ssh_private_key_file": there.private_key_file,
        "ansible_ssh_common_args": " ".join(there.common_args),
    }
    hosts = {"far": ssh, "near": {"ansible_connection": "local"}}
    path = folder / "hosts.yml"
    # JSON is YAML
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"klops": klops}}}))
    return str(path)


def interrupted(argv: list[str], number: int, words: list[str], *, times: int = 2) -> tuple[int, str]:
    """Run klops, send it a signal when the command runs on so many hosts: exit status and standard error."""
    command = [sys.executable, "-m", "klops", *argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: len(running(*words)) == times, timeout=20, what=f"{words} runs {times} times")
            os.kill(process.pid, number)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    return process.returncode, err


def gone(words: list[str]) -> None:
    """It was told to end before klops did; the last of its moments may come after."""
    until(lambda: running(*words) == [], timeout=5, what=f"{words} runs nowhere")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_exec_on_hosts(sshd: Sshd, tmp_path: Path, number: signal.Signals) -> None:
    words = ["sleep", f"985.{int(number)}"]
    argv = ["exec", "--host", "all", "-i", inventory(tmp_path, sshd, {}), "--", *words]
    rc, err = interrupted(argv, number, words)
    assert rc == 130, err
    assert "interrupted" in err
    gone(words)


def test_exec_on_more_hosts_than_forks(sshd: Sshd, tmp_path: Path) -> None:
    words = ["sleep", "985.30"]
    argv = ["exec", "--host", "all", "--forks", "1", "-i", inventory(tmp_path, sshd, {}), "--", *words]
    rc, err = interrupted(argv, signal.SIGINT, words, times=1)
    assert rc == 130, err
    gone(words)


def test_exec_in_containers(sshd: Sshd, box: Box, tmp_path: Path) -> None:
    words = ["sleep", "985.20"]
    settings = {"container": {"name": box.container}, "docker": {"host": box.engine.host}}
    argv = ["exec", "all", "-o", "json", "-i", inventory(tmp_path, sshd, settings), "--", *words]
    rc, err = interrupted(argv, signal.SIGINT, words)
    assert rc == 130, err
    gone(words)
