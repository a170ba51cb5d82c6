"""Rehearsal hosts for the tests that need a real Docker engine and a real sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from klops.sim import rehearsal as sim
from klops.sim.layout import Rehearsal

#: Exit status of real_vllm/setup-env where no Python is there to build with; it prints the reason.
NO_PYTHON = 77


class MakeRehearsal(Protocol):
    """Makes rehearsal hosts and removes them after the last test of the module.

    ``diagnose`` is ``klops.cards.diagnose`` of them: ``up`` doesn't diagnose cards unless a test asks for it,
    None for klops' own default.
    """

    def __call__(
        self,
        *,
        hosts: int = 1,
        transports: Sequence[str] = ("local",),
        faults: Sequence[str] = (),
        vllm: str = "standin",
        diagnose: str | None = "never",
    ) -> Rehearsal: ...


def missing() -> str:
    """What this machine lacks for rehearsal hosts; "" when nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "rehearsal hosts need root on Linux"
    places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    lacking = [
        name for name in ("docker", "dockerd", "sshd", "ssh-keygen") if not shutil.which(name, path=places)
    ]
    return f"not installed: {', '.join(lacking)} (scripts/setup-host installs them)" if lacking else ""


@pytest.fixture(scope="module")
def make_rehearsal() -> Iterator[MakeRehearsal]:
    """A function that makes rehearsal hosts; each call a folder, an engine and cards of its own."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    made: list[Path] = []

    def make(
        *,
        hosts: int = 1,
        transports: Sequence[str] = ("local",),
        faults: Sequence[str] = (),
        vllm: str = "standin",
        diagnose: str | None = "never",
    ) -> Rehearsal:
        # short, for the unix sockets below it: pytest's own folders are too deep
        directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
        made.append(directory)
        return sim.make(
            directory, hosts=hosts, transports=transports, fault_specs=faults, vllm=vllm, diagnose=diagnose
        )

    yield make
    for directory in made:
        if not sim.stop(directory):
            directory.rmdir()


@pytest.fixture(scope="module")
def real_vllm() -> Iterator[None]:
    """A real vLLM and a tiny model are there for ``make_rehearsal(vllm="real")``; built the first time.

    Without a Python that it can be built with the test is skipped.
    """
    reason = missing()
    if reason:
        pytest.skip(reason)
    script = Path(__file__).parent / "host" / "real_vllm" / "setup-env"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == NO_PYTHON:
        pytest.skip(done.stdout.strip())
    done.check_returncode()
    exports = dict(line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in exports.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def rehearsal(make_rehearsal: MakeRehearsal) -> Rehearsal:
    """Two hosts of one module: demo1 over ssh, demo2 local."""
    return make_rehearsal(hosts=2, transports=("ssh", "local"))
