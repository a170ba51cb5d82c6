"""The agent's ``reap`` from inside a container and from the host: the same orphans, by other numbers."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.commands import helper
from klops.commands.agent import PYTHON_FLAGS, agent_path
from klops.remote import agentpackage
from klops.sim.layout import Rehearsal
from tests.host.watch import device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

#: Puts a process on record that begets another in a session of its own, and ends before that: what is left
#: has pid 1 for its parent. Its own root is the second word, the node it holds the third.
_LEAVE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from klops.agent import store
from klops.agent.processes import procs
from klops.agent.units.lineage import Lineage
paths = store.Paths(sys.argv[2])
paths.make()
lineage = Lineage(paths.lineage("llm"))
if os.fork():
    os.wait()
    sys.exit()
os.setsid()
lineage.record(procs.read(os.getpid()), 1)
told, tell = os.pipe()
if not os.fork():
    os.setsid()
    lineage.record(procs.read(os.getpid()), 1)
    os.set_inheritable(os.open(sys.argv[3], os.O_RDWR), True)
    for fd in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    os.write(tell, b".")
    os.execvp("sleep", ["sleep", "3600"])
os.read(told, 1)
os._exit(0)
"""


@dataclass(frozen=True)
class Hand:
    """A container that was made by hand: its root is its own, and its first card has another name there."""

    rehearsal: Rehearsal
    container: str
    image: str
    python: str

    def docker(self, *args: str) -> str:
        assert self.rehearsal.engine is not None
        where = ["-H", self.rehearsal.engine.host] if self.rehearsal.engine.host else []
        return subprocess.run(
            ["docker", *where, *args], check=True, capture_output=True, text=True
        ).stdout.strip()

    @property
    def root(self) -> str:
        return str(self.rehearsal.hosts[0].root)

    def inside(self, *words: str) -> Any:
        """The verb by docker exec."""
        flags = ["reap", "--root", self.root, "--kind", "adopted", *words]
        said = self.docker("exec", self.container, self.python, *PYTHON_FLAGS, agent_path(self.root), *flags)
        return json.loads(said)

    def outside(self, *words: str) -> Any:
        """The verb in a helper container."""
        device_dir, engine = str(self.rehearsal.hosts[0].device_dir), self.rehearsal.engine
        assert engine is not None
        argv = helper.helper(
            ["docker", *(["-H", engine.host] if engine.host else [])],
            self.image,
            self.python,
            self.root,
            device_dir,
            *("reap", "--host", "--container", self.container, "--kind", "adopted", *words),
            like=self.container,
            writable="--check" not in words,
        )
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def leave(self, node: str) -> int:
        """Something a unit left behind; its pid on this machine."""
        self.docker("exec", self.container, self.python, "-c", _LEAVE, agent_path(self.root), self.root, node)
        numbers = device_numbers(self.rehearsal.hosts[0].device_dir)
        return until(lambda: next((h.pid for h in holders(numbers) if h.name == "sleep"), None))


@pytest.fixture(scope="module")
def hand(make_rehearsal: MakeRehearsal) -> Hand:
    """A container by hand on a rehearsal host, with the agent in it and on the host."""
    rehearsal = make_rehearsal(hosts=1)
    host, engine = rehearsal.hosts[0], rehearsal.engine
    assert engine is not None
    wanted = YAML(typ="safe").load(rehearsal.inventory)["all"]
    shared = wanted["vars"]["klops"]["container"]
    own = wanted["children"]["rehearsal"]["hosts"][host.name]["klops"]["container"]
    package = agentpackage.build()
    folder = Path(host.root, "agent")
    folder.mkdir(parents=True)
    (folder / f"{package.digest}.pyz").write_bytes(package.data)
    (folder / "current").symlink_to(f"{package.digest}.pyz")
    flags = [f"--device={host.device_dir}/xpu4:/dev/xpu0", *(f"-v{volume}" for volume in own["volumes"])]
    flags += [f"-v{folder}:{folder}:ro", "--network=none", "--init"]
    where = ["docker", *(["-H", engine.host] if engine.host else [])]
    argv = [*where, "run", "--detach", *flags, shared["image"], "sleep", "infinity"]
    made = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    image = subprocess.run(
        [*where, "inspect", "--format", "{{.Image}}", made], check=True, capture_output=True, text=True
    ).stdout.strip()
    return Hand(rehearsal, made, image, shared["python"])


def identities(found: Any) -> list[tuple[int, int, str]]:
    """What both views call the same."""
    return [(one["cpid"], one["start"], one["unit"]) for one in found["processes"]]


@pytest.mark.long
def test_both_views_find_the_same_orphan_and_the_host_ends_it(hand: Hand) -> None:
    pid = hand.leave("/dev/xpu0")
    inside, outside = hand.inside("--check", "--grace", "0"), hand.outside("--check", "--grace", "0")
    assert identities(inside) == identities(outside) != []
    [mine], [one] = inside["processes"], outside["processes"]
    assert (mine["pid"], one["pid"]) == (None, pid)
    # each by the name that its viewer has for the node
    assert (mine["cards"], one["cards"]) == (["xpu0"], ["xpu4"])
    assert (one["container"], one["action"], one["user"]) == (hand.container, "term", "root")
    assert not Path(hand.root, "run").exists(), "a look writes nothing"

    [ended] = hand.outside("--grace", "0")["processes"]
    assert (ended["pid"], ended["action"], ended["outcome"]) == (pid, "term", "gone")
    lines = [json.loads(line) for line in Path(hand.root, "audit.jsonl").read_text().splitlines()]
    assert [(line["pid"], line["signal"], line["unit"]) for line in lines] == [(pid, "SIGTERM", "llm")]
    assert hand.outside("--grace", "0")["processes"] == []


@pytest.mark.long
def test_from_inside_it_is_ended_by_its_number_there(hand: Hand) -> None:
    hand.leave("/dev/xpu0")
    [one] = hand.inside("--grace", "0")["processes"]
    assert (one["pid"], one["action"], one["outcome"]) == (None, "term", "gone")
    assert holders(device_numbers(hand.rehearsal.hosts[0].device_dir)) == []


@pytest.mark.long
def test_in_a_container_that_is_nothing_of_klops_nothing_is_ended(hand: Hand) -> None:
    pid = hand.leave("/dev/xpu0")
    found = hand.outside("--grace", "0", "--kind", "other")
    assert (found["processes"], [one["pid"] for one in found["foreign"]]) == ([], [pid])
    assert [one["outcome"] for one in hand.outside("--grace", "0")["processes"]] == ["gone"]
