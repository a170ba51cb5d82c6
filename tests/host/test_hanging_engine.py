"""An engine that hangs: told apart, in bounded time, with nothing left waiting; other hosts go on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from klops.commands import docker
from klops.errors import CommandTimeout, DockerUnavailable
from klops.remote import enginewatch
from klops.remote.local import LocalRemote
from klops.remote.reads import CommandRead
from tests.host.engine import Box, start_box
from tests.host.machines import entry, inventory
from tests.host.sshd import Sshd
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host

#: Seconds within which every command ends, whatever the engine does: some 20 for each look at it, and a
#: ``down`` looks three times, as what can't be stopped keeps it from nothing else.
BOUND = 75


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with start_box() as found:
        yield found


@pytest.fixture(scope="module")
def healthy(box: Box) -> Iterator[Box]:
    """A second engine."""
    with start_box() as found:
        yield found


@contextmanager
def stopped(box: Box) -> Iterator[None]:
    """The engine takes connections and answers none."""
    assert box.engine.process is not None
    os.kill(box.engine.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(box.engine.process.pid, signal.SIGCONT)


#: klops that waits less for an engine before it gives work up; a read is given up as ever.
_QUICK = """
from klops.remote import enginewatch
enginewatch.ANSWERS = (14.0, 2.0, 2.0)
from klops.cli.main import main
main()
"""


@dataclass
class Run:
    """A klops that was started."""

    process: subprocess.Popen[str]
    words: tuple[str, ...]
    began: float

    @classmethod
    def of(cls, *argv: str, env: dict[str, str] | None = None) -> Run:
        """Start one."""
        process = subprocess.Popen(
            [sys.executable, "-c", _QUICK, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
        )
        return cls(process, argv, time.monotonic())

    def end(self) -> tuple[int, str, str]:
        """Its status and output; a failure of the test when it takes too long."""
        with self.process as process:
            try:
                out, err = process.communicate(timeout=self.began + BOUND - time.monotonic())
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        print(f"{self.words[0]}: {time.monotonic() - self.began:.0f} s")
        return process.returncode, out, err


def clients(*words: str) -> list[list[str]]:
    """Command lines of this machine that begin so."""
    lines = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    return [line for line in lines if line[: len(words)] == list(words)]


def settings(folder: Path, box: Box) -> dict[str, Any]:
    return {
        "root": str(folder),
        "container": {"name": box.container, "image": box.image},
        "docker": {"host": box.engine.host},
        "services": {"s": {"model": "/m", "port": 18999}},
    }


@pytest.mark.long
def test_commands_end_and_say_which_docker_command_got_no_answer(
    sshd: Sshd, box: Box, healthy: Box, tmp_path: Path
) -> None:
    hosts = {
        "far": entry(sshd, tmp_path / "far", klops=settings(tmp_path / "far", box)),
        "near": {"ansible_connection": "local", "klops": settings(tmp_path / "near", box)},
        "well": {"ansible_connection": "local", "klops": settings(tmp_path / "well", healthy)},
    }
    where = ("-i", str(inventory(tmp_path / "hosts.yml", hosts)), "-o", "json")
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "docker").write_text("#!/bin/sh\nexec sleep 984.1\n")
    (fake / "docker").chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    with stopped(box):
        runs = {
            "status": Run.of("status", "all", *where),
            "up": Run.of("up", "far", *where),
            "down": Run.of("down", "near", *where),
            "exec": Run.of("exec", "all", *where, "--", "true"),
            "fake": Run.of("exec", "near", *where, "--", "true", env={"PATH": path}),
        }
        with ThreadPoolExecutor() as waiting:
            ended = dict(zip(runs, waiting.map(Run.end, runs.values()), strict=True))
        assert clients("docker", "-H", box.engine.host) == []
        assert clients("sleep", "984.1") == []
    for name, (rc, out, err) in ended.items():
        found = json.loads(out)["hosts"]
        for host in found.keys() - {"well"}:
            error = found[host]["error"]
            assert error["code"] == "docker-hangs", (name, error, err)
            assert "got no answer within" in error["message"], (name, error)
            assert "systemctl status docker" in error["hint"]
        assert rc == (125 if name == "fake" else 1), (name, err)
    assert json.loads(ended["exec"][1])["hosts"]["well"]["rc"] == 0
    # its container has no agent, and that is found out and said
    assert json.loads(ended["status"][1])["hosts"]["well"]["error"]["code"] == "agent"


def test_what_an_engine_in_good_health_takes_long_for_goes_on(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enginewatch, "PATIENCE", 0.2)
    host = LocalRemote("near")
    go = "until [ -e /tmp/go-on ]; do sleep 0.1; done"
    with ThreadPoolExecutor() as beside:
        working = beside.submit(host.run, [*box.docker, "exec", box.container, "sh", "-c", go], timeout=60)
        try:
            until(lambda: host.commands_run > 3, timeout=40, what="three looks")
        finally:
            box.engine.docker("exec", box.container, "touch", "/tmp/go-on")
        done = working.result()
    assert done.rc == 0
    # after 0.2 s of silence, 0.4 s after the answer to that look, 0.8 s after the next
    looks = host.commands_run - 1
    assert done.seconds >= sum(0.2 * 2**before for before in range(looks))
    quick = LocalRemote("near")
    quick.read([CommandRead("v", docker.version(box.docker))])
    assert quick.commands_run == 1, "what is answered in time is not looked after"


def test_an_engine_that_is_stuck_in_one_thing_is_told_when_the_time_is_up(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as with one that tells its version and holds the lock of a container: no look finds anything
    monkeypatch.setattr(enginewatch, "PATIENCE", 600.0)
    host = LocalRemote("near")
    inspect = docker.inspect(box.docker, box.container)
    with stopped(box), pytest.raises(DockerUnavailable) as caught:
        host.read([CommandRead("uname", ("uname",)), CommandRead("c", inspect)], timeout=1)
    assert caught.value.code == "docker-hangs"
    assert f"`{shlex.join(inspect)}` got no answer within 1 s" in caught.value.message
    assert clients(*inspect) == []


def test_a_command_in_a_container_that_takes_too_long_is_no_fault_of_the_engine(box: Box) -> None:
    with pytest.raises(CommandTimeout, match=r"docker .* did not end within 1 s, and was ended"):
        LocalRemote("near").run([*box.docker, "exec", box.container, "sleep", "1.5"], timeout=1)
