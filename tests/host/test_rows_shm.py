"""Row A8: files that a hard end leaves in /dev/shm, in a real container with a small one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

MIB = 1 << 20
STALE = [f"nccl-{number:06d}" for number in range(40)]
BIG = "vllm_offload_4f1c.mmap"
#: Leaves what engines leave that were killed, as old as after some minutes; one file is a stranger's.
LITTER = f"""
import os, sys
os.chdir("/dev/shm")
sizes = {{name: 128 << 10 for name in {STALE}}}
sizes.update({{"{BIG}": 20 << 20, "nccl-live": 1 << 20, "other_user.dat": 1 << 20, "nccl-theirs": 1 << 20}})
for name, size in sizes.items():
    with open(name, "wb") as file:
        file.write(bytes(size))
for name in ("other_user.dat", "nccl-theirs"):
    os.chown(name, 4242, 4242)
"""
#: Has a file open until it is killed.
HOLD = "import time; kept = open('/dev/shm/nccl-live', 'r+b'); time.sleep(3600)"
FILL = """
import os
room = os.statvfs("/dev/shm")
with open("/dev/shm/other_user.dat", "ab") as file:
    file.write(bytes(room.f_bavail * room.f_frsize - (10 << 20)))
"""


@dataclass(frozen=True)
class Small:
    """A host whose container has a small /dev/shm."""

    rehearsal: Rehearsal
    host: RehearsalHost

    def klops(self, command: str, *args: str) -> Done:
        return klops(command, self.host.name, *args, "-i", str(self.rehearsal.inventory), "-o", "json")

    def inside(self, *argv: str, detach: bool = False) -> str:
        """A command in the container, as klops itself runs them there."""
        assert self.rehearsal.engine is not None
        where = ["-H", self.rehearsal.engine.host] if self.rehearsal.engine.host else []
        flags = ["-d"] if detach else []
        done = subprocess.run(
            ["docker", *where, "exec", *flags, self.host.container, *argv],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def python(self, program: str, *, detach: bool = False) -> str:
        return self.inside("python3", "-S", "-c", program, detach=detach)

    def agent(self, *verb: str) -> dict[str, Any]:
        """A verb of the agent, run in the container."""
        root = str(self.host.root)
        text = self.inside("python3", "-I", "-S", f"{root}/agent/current", *verb, "--root", root)
        found: dict[str, Any] = json.loads(text.splitlines()[-1])
        return found

    def reap(self, *flags: str) -> dict[str, Any]:
        """The agent's clean-up, seen from the container; things by path."""
        found = self.agent("reap", "--kind", "made", "--grace", "0", *flags)
        return {one["path"]: one for one in found["shm"]}

    def memory(self) -> set[str]:
        """Names in /dev/shm."""
        return set(self.inside("ls", "/dev/shm").split())

    def service(self) -> dict[str, Any]:
        """What status says of the service."""
        done = self.klops("status")
        assert done.rc == 0, done.stdout + done.stderr
        found: dict[str, Any] = done.json["hosts"][self.host.name]["services"][SERVICE]
        return found


@pytest.fixture(scope="module")
def small(make_rehearsal: MakeRehearsal) -> Small:
    """A host whose service runs, in a container with 48 MiB of shared memory, of which a start wants 32."""
    rehearsal = make_rehearsal(hosts=1)
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    settings = inventory["all"]["vars"]["klops"]
    settings["container"]["shm"] = "48m"
    yaml.dump(inventory, rehearsal.inventory)
    found = Small(rehearsal, rehearsal.hosts[0])
    done = found.klops("up")
    assert done.rc == 0, done.stdout + done.stderr
    return found


@pytest.mark.long
def test_row_A8_files_of_an_earlier_generation_are_gone_before_the_next(small: Small) -> None:
    before = until(lambda: {n for n in small.memory() if n.startswith("vllm_dist_")}, what="it shares memory")
    assert {one["action"] for one in small.reap().values()} <= {"none"}, "what runs has all of it"
    members = " ".join(str(one["cpid"]) for one in small.agent("status")["units"][SERVICE]["lineage"])
    # stopped before, else some may end in order between the first and the last
    small.inside("sh", "-c", f"kill -STOP {members}; kill -KILL {members} || true")
    until(lambda: small.service()["restarts"] == 1, what="it was started again")
    until(lambda: small.service()["state"] == "ready", what="it is ready again")
    assert not before & small.memory()
    removed = [
        json.loads(line)
        for line in (small.host.root / "audit.jsonl").read_text().splitlines()
        if json.loads(line)["event"] == "remove"
    ]
    assert before <= {line["path"].rpartition("/")[2] for line in removed}
    assert {line["unit"] for line in removed} == {SERVICE}


def test_row_A8_only_own_files_go_that_nobody_has_open(small: Small) -> None:
    small.agent("stop", SERVICE)
    small.reap()
    assert small.memory() == set()
    small.python(LITTER)
    small.python(HOLD, detach=True)
    until(
        lambda: small.reap("--check")["/dev/shm/nccl-live"]["why"].partition("in use by ")[2],
        what="it is held open",
    )
    everything = {*STALE, BIG, "nccl-live", "other_user.dat", "nccl-theirs"}
    shared = small.reap("--shared-ipc")
    assert {one["action"] for one in shared.values()} == {"none"}
    planned = small.reap("--check")
    assert small.memory() == everything
    found = small.reap()
    assert set(planned) == set(found)
    assert {path for path, one in found.items() if one["action"] == "removed"} == {
        f"/dev/shm/{name}" for name in (*STALE, BIG)
    }
    assert found[f"/dev/shm/{BIG}"]["bytes"] == 20 * MIB
    assert "in use by pid" in found["/dev/shm/nccl-live"]["why"]
    assert "belongs to user 4242" in found["/dev/shm/nccl-theirs"]["why"]
    assert small.memory() == {"nccl-live", "nccl-theirs", "other_user.dat"}


def test_row_A8_a_start_without_room_fails_and_names_what_takes_it(small: Small) -> None:
    small.python(FILL)
    done = small.klops("up")
    assert done.rc == 1, done.stdout + done.stderr
    message = json.dumps(done.json["hosts"][small.host.name])
    assert "/dev/shm has 10 MiB of 48 MiB free, and min_shm asks for 32 MiB" in message
    assert "/dev/shm/other_user.dat 36 MiB (open: nobody in this container)" in message
    assert small.service()["restarts"] == 0
    small.inside("rm", "/dev/shm/other_user.dat")
    done = small.klops("up")
    assert done.rc == 0, done.stdout + done.stderr
    assert models(small.host.port, small.host.api_key) != []
