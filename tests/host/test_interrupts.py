"""Ctrl-C and TERM at random moments of a first ``klops up``: nothing half-made, the lock free, the next one
completes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.playbook.shipped import find
from klops.sim.layout import SERVED_NAME, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


def _tasks(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Tasks in their order, those of blocks too."""
    for item in items:
        if "block" in item:
            yield from _tasks([*item["block"], *item.get("always", [])])
        else:
            yield item


SEED = 20261130
_RANDOM = random.Random(SEED)
#: how many tasks an ``up`` has: a signal comes in each of them
_TASKS = list(_tasks(YAML(typ="safe").load(find("up.yml")[0])[0]["tasks"]))
TASKS = len(_TASKS)
#: which of them makes the container, counted from 1
MAKES = 1 + [task.get("klops.container", {}).get("state") for task in _TASKS].index("present")
#: every task once before one comes again, so that few moments meet many tasks
_ORDER = [task for _ in range(4) for task in _RANDOM.sample(range(1, TASKS + 1), TASKS)]
#: when it comes: so many tasks have begun, and so many seconds after that (the last one is over soon)
MOMENTS = [(task, _RANDOM.uniform(0, 0.2 if task == TASKS else 1.2)) for task in _ORDER[:20]]
#: how many of them CI has time for
FEW = 2
#: seconds after the container's task began at which a recreation is interrupted
LATER = [_RANDOM.uniform(0, 5) for _ in range(10)]
#: and in which that has ended: the old container is put back, and its services are ready
LONG_BOUND = 60
#: seconds in which an interrupted klops has ended: so long may it take to end what runs on a host
BOUND = 20


@dataclass(frozen=True)
class Bare:
    """A rehearsal host that is bare at each test's beginning."""

    rehearsal: Rehearsal
    host: RehearsalHost

    def words(self, *more: str) -> list[str]:
        """The words of a ``klops up``."""
        return ["up", self.host.name, "-i", str(self.rehearsal.inventory), *more]

    def up(self, *more: str) -> Done:
        """An undisturbed one."""
        return klops(*self.words(*more), "-o", "json")

    def docker(self, *args: str) -> str:
        """The docker client on the rehearsal's engine."""
        assert self.rehearsal.engine is not None
        argv = ["docker", "-H", self.rehearsal.engine.host, *args]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def containers(self) -> list[dict[str, Any]]:
        """All containers of the host, made, half-made or put aside."""
        ids = self.docker("ps", "-aq", "--no-trunc").split()
        return json.loads(self.docker("inspect", *ids)) if ids else []

    def clear(self) -> None:
        """Take everything off the host that a run puts there."""
        ids = self.docker("ps", "-aq").split()
        if ids:
            self.docker("rm", "-f", *ids)
        shutil.rmtree(self.host.root, ignore_errors=True)

    def left_running(self) -> list[str]:
        """Command lines of this machine's processes, those in containers aside, that are about the host."""
        words = (str(self.host.directory).encode(), self.host.container.encode())
        ours = Path("/proc/self/ns/pid").readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended while we looked
                line = (entry / "cmdline").read_bytes()
                if any(word in line for word in words) and (entry / "ns/pid").readlink() == ours:
                    found.append(line.replace(b"\0", b" ").decode(errors="replace").strip())
        return found

    def half_made(self) -> list[str]:
        """Files below the root, or locks, that only an unfinished command leaves."""
        return [
            str(path.relative_to(self.host.root))
            for path in self.host.root.rglob("*")
            if path.name.startswith((".klops-", "lock", "recreation.json")) or path.name.endswith(".new")
        ]

    def supervised(self, container: dict[str, Any]) -> bool:
        """Whether a supervisor answers in it."""
        command = ["python3", "-I", "-S", "-B", f"{self.host.root}/agent/current", "status"]
        with contextlib.suppress(subprocess.CalledProcessError, ValueError):
            said = self.docker("exec", container["Id"], *command, "--root", str(self.host.root))
            return json.loads(said)["supervisor"] is not None
        return False


@pytest.fixture(scope="module", params=["local", pytest.param("ssh", marks=pytest.mark.long)])
def bare(request: pytest.FixtureRequest, make_rehearsal: MakeRehearsal) -> Iterator[Bare]:
    rehearsal = make_rehearsal(hosts=1, transports=[request.param])
    print(f"seed {SEED}")
    found = Bare(rehearsal, rehearsal.hosts[0])
    yield found
    found.clear()


@dataclass(frozen=True)
class Interrupted:
    """An ``up`` that got a signal in its middle: exit status, what it had said, seconds until its end."""

    rc: int
    said: str
    seconds: float


def interrupt(
    words: list[str], tasks: int, delay: float, number: signal.Signals, bound: float = BOUND
) -> Interrupted | None:
    """Run klops in a process group of its own, and signal that group; None when all was done by then."""
    argv = [sys.executable, "-m", "klops", *words]
    with (
        tempfile.NamedTemporaryFile("w+") as log,
        subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        said = Path(log.name)
        try:
            until(
                lambda: said.read_text().count("TASK ") >= tasks or process.poll() is not None,
                what=f"task {tasks} begins",
            )
            # the moment itself: nothing can be waited for
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(delay)
                return None
            os.killpg(process.pid, number)
            began = time.monotonic()
            process.wait(bound)
            seconds = time.monotonic() - began
        finally:
            process.kill()
        text = said.read_text()
        through = process.returncode == 0 and "interrupted" not in text
        return None if through else Interrupted(process.returncode, text, seconds)


def parts() -> list[Any]:
    """The moments with their signals; those that CI has no time for are marked."""
    return [
        pytest.param(
            tasks,
            delay,
            signal.SIGTERM if turn % 4 == 3 else signal.SIGINT,
            id=f"{turn}-task-{tasks}-{delay:.2f}",
            marks=[pytest.mark.long] if turn >= FEW else [],
        )
        for turn, (tasks, delay) in enumerate(MOMENTS)
    ]


@pytest.mark.parametrize(("tasks", "delay", "number"), parts())
def test_an_interrupted_up_leaves_nothing_half_made_and_the_next_completes(
    bare: Bare, tasks: int, delay: float, number: signal.Signals
) -> None:
    bare.clear()
    done = interrupt(bare.words(), tasks, delay, number)
    while done is None:
        # the last task is over sooner
        delay /= 2
        bare.clear()
        done = interrupt(bare.words(), tasks, delay, number)
    last = [line for line in done.said.splitlines() if line.startswith(("PLAY", "TASK", "  "))][-2:]
    print(f"{number.name} {delay:.2f} s after task {tasks} began, ended {done.seconds:.2f} s later: {last}")
    assert done.rc == 130, done.said
    assert "interrupted" in done.said
    until(lambda: not bare.left_running(), timeout=5, what="nothing runs")
    # compiled modules that a container had begun to write, and was removed again: the next one finishes them
    until(
        lambda: all(".cache-" in path for path in bare.half_made()),
        timeout=5,
        what="nothing is half-made",
    )
    containers = bare.containers()
    assert len(containers) <= 1
    for container in containers:
        assert container["Name"] == f"/{bare.host.container}"
        assert container["State"]["Status"] == "running"
        until(lambda c=container: bare.supervised(c), timeout=5, what="a supervisor answers")  # type: ignore[misc]
    again = bare.up()
    assert again.rc == 0, again.stdout + again.stderr
    assert again.json["hosts"][bare.host.name]["lock"] is None
    assert models(bare.host.port, bare.host.api_key) == [SERVED_NAME]
    until(lambda: not bare.half_made(), timeout=5, what="nothing is half-made")


@pytest.mark.long
@pytest.mark.parametrize("delay", LATER, ids=lambda delay: f"{delay:.2f}")
def test_an_interrupted_recreation_leaves_one_container_that_serves(bare: Bare, delay: float) -> None:
    assert bare.up().rc == 0
    done = None
    while done is None:
        # a value that no container has had: each turn has something to make anew
        settings = {"klops": {"container": {"env": {"TURN": f"{delay}"}}}}
        changed = ("--recreate", "-e", json.dumps(settings))
        done = interrupt(bare.words(*changed), MAKES, delay, signal.SIGINT, LONG_BOUND)
        delay /= 2
    last = done.said.splitlines()[-8:]
    print(f"{2 * delay:.2f} s after the container's task began, ended {done.seconds:.2f} s later: {last}")
    assert done.rc == 130, done.said
    until(lambda: not bare.left_running(), timeout=5, what="nothing runs")
    until(lambda: not bare.half_made(), timeout=5, what="nothing is half-made")
    (container,) = bare.containers()
    assert container["Name"] == f"/{bare.host.container}"
    assert container["State"]["Status"] == "running"
    until(lambda: serves(bare), timeout=30, what="the old one serves again, or the new one does")
    again = bare.up(*changed)
    assert again.rc == 0, again.stdout + again.stderr
    (container,) = bare.containers()
    assert f"TURN={2 * delay}" in container["Config"]["Env"]
    assert serves(bare)


def serves(bare: Bare) -> bool:
    """Whether the model answers with the key just now."""
    try:
        return models(bare.host.port, bare.host.api_key) == [SERVED_NAME]
    except OSError:
        return False
