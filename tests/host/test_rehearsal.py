"""A rehearsal is made whole and removed whole, also after a crash, and touches nothing that isn't its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from klops.errors import UsageError
from klops.sim import cards, image, vllms
from klops.sim import rehearsal as sim
from klops.sim.layout import Rehearsal
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


def in_container(made: Rehearsal, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a container as klops would make one for demo1."""
    host = made.hosts[0]
    assert made.engine is not None
    nodes = sorted(host.device_dir.glob("xpu*"))
    devices = [word for node in nodes for word in ("--device", f"{node}:/dev/{node.name}")]
    mounts = [word for volume in image.volumes() for word in ("-v", volume)]
    command = [
        "docker",
        "-H",
        made.engine.host,
        "run",
        "--rm",
        "--init",
        "--network",
        "host",
        *devices,
        *mounts,
    ]
    command += ["--entrypoint", argv[0], made.image, *argv[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False)


OPEN_ALL = """
import os
for name in sorted(n for n in os.listdir("/dev") if n.startswith("xpu")):
    try:
        os.close(os.open("/dev/" + name, os.O_RDWR | os.O_NOCTTY))
        print(name, "ok")
    except OSError as exc:
        print(name, exc.strerror)
"""


def test_cards_open_in_a_container_and_faults_show_there(make_rehearsal: MakeRehearsal) -> None:
    made = make_rehearsal()
    python = vllms.standin().python
    nodes = [*(f"xpu{n}" for n in range(8)), "xpuctrl"]
    seen = in_container(made, python, "-c", OPEN_ALL)
    assert seen.stdout.splitlines() == [f"{name} ok" for name in nodes], seen.stderr
    sim.set_faults(made, ["card=6:node-missing", "card=1:dead", "card=7:open-eperm"])
    bad = {cards.MINORS[1]: "No such device or address", cards.MINORS[7]: "Operation not permitted"}
    left = [n for n in range(8) if n != cards.MINORS[6]]
    seen = in_container(made, python, "-c", OPEN_ALL)
    assert seen.stdout.splitlines() == [*(f"xpu{n} {bad.get(n, 'ok')}" for n in left), "xpuctrl ok"]
    sim.set_faults(made, [])
    assert sorted(p.name for p in made.hosts[0].device_dir.iterdir()) == nodes
    assert json.loads((made.directory / "faults.json").read_text())["specs"] == []


def test_stop_removes_everything_and_may_be_repeated(make_rehearsal: MakeRehearsal) -> None:
    made = make_rehearsal(hosts=2, transports=("ssh", "local"))
    assert made.ssh is not None
    assert made.ssh.process is not None
    assert sim.stop(made.directory)
    assert not made.directory.exists()
    assert not made.ssh.process.alive()
    assert not any(path.read_text() == str(made.directory) for path in cards.CLAIMS.iterdir())
    assert not sim.stop(made.directory)
    made.directory.mkdir()


@pytest.mark.long
def test_stop_after_the_engine_was_killed(make_rehearsal: MakeRehearsal) -> None:
    made = make_rehearsal()
    assert made.engine is not None
    if made.engine.process is None:
        pytest.skip("this machine has a Docker engine of its own, and that is not killed")
    mounts = [word for volume in image.volumes() for word in ("-v", volume)]
    made.engine.docker("run", "-d", "--network", "host", *mounts, "--entrypoint", "sleep", made.image, "600")
    os.kill(made.engine.process.pid, signal.SIGKILL)
    with pytest.raises(UsageError, match="not whole"):
        sim.running(made.directory)
    assert sim.stop(made.directory)
    assert str(made.directory) not in Path("/proc/self/mountinfo").read_text()
    made.directory.mkdir()


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="isn't a rehearsal"):
        sim.stop(tmp_path)
    with pytest.raises(UsageError, match="isn't a rehearsal"):
        sim.make(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_what_cannot_be_made_is_refused_before_anything_is(make_rehearsal: MakeRehearsal) -> None:
    directory = Path("/tmp/klops-never")
    for wrong in (
        {"hosts": 0},
        {"hosts": 200},
        {"transports": ["telnet"]},
        {"fault_specs": ["vllm=stal"]},
        {"vllm": "llama"},
    ):
        with pytest.raises(UsageError):
            sim.make(directory, **wrong)
        assert not directory.exists()
    with pytest.raises(UsageError, match="too long"):
        sim.make(Path("/tmp") / ("d" * 80))
