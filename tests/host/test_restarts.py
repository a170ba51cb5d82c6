"""Restarts of containers and of the engine, card nodes that come late, access to devices that is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.sim import cards, engine
from klops.sim.layout import SERVICE
from tests.host.test_adoption import Hand
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

DEVICES_CGROUP = Path("/sys/fs/cgroup/devices")


class Machine(Hand):
    """A rehearsal host whose engine can be ended and whose card nodes can be taken away."""

    def end_engine(self, number: signal.Signals) -> None:
        """End the engine, which is our child, and wait until it is gone."""
        found = self.rehearsal.engine
        assert found is not None
        assert found.process is not None
        if number == signal.SIGTERM:
            assert found.process.end(seconds=60)
            return
        assert found.process.alive()
        handle = os.pidfd_open(found.process.pid)
        signal.pidfd_send_signal(handle, number)
        os.close(handle)
        os.waitpid(found.process.pid, 0)

    def start_engine(self) -> None:
        """Start it again in the same folder, and have it on record."""
        self.rehearsal.engine = engine.start(self.rehearsal.directory / "docker")
        self.rehearsal.save()

    @property
    def inspected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.docker("inspect", self.host.container))[0]
        return found

    def failed(self) -> bool:
        """Whether docker tried to start the container, and could not."""
        state = self.inspected["State"]
        return not state["Running"] and "no such file" in state["Error"]

    def ready(self) -> dict[str, Any]:
        """Its status, once the service is ready: nobody asks for a start here."""

        def look() -> dict[str, Any] | None:
            now = self.klops("status")
            if now.rc:
                return None
            found: dict[str, Any] = now.json["hosts"][self.host.name]
            return found if found["services"].get(SERVICE, {}).get("state") == "ready" else None

        found = until(look, what="ready by itself")
        self.serving()
        return found

    def scheduled(self) -> tuple[int, str, str]:
        """The scheduled pass: status, output and error."""
        argv = ["sh", str(self.host.root / "pass")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def nothing_to_do(self, down: str = "") -> None:
        """A scheduled pass that finds nothing to do, and says only that; and why it leaves one down."""
        also = f"; container {self.host.container}: {down}" if down else ""
        rc, out, err = self.scheduled()
        assert (rc, err) == (0, "")
        assert out.endswith(f" klops: ok: nothing to do{also}\n")
        assert out.count("\n") == 1

    def left_in_order(self) -> None:
        """A pass that removes what went down with the container, if anything; the next one finds nothing."""
        rc, out, err = self.scheduled()
        assert (rc, err) == (0, "")
        assert re.search(r" klops: (ok: nothing to do|did: leftovers removed: \d+)\n\Z", out), out
        self.nothing_to_do()
        self.serving()

    def passes(self) -> list[str]:
        """What passes have noted that they did."""
        lines = (self.host.root / "audit.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [event["event"] for event in events if event.get("by") == "pass"]

    def without_node(self) -> None:
        """Take a card's node away, as in a boot in which the driver is late."""
        (self.host.device_dir / "xpu3").unlink()

    def with_node(self) -> None:
        cards.make_nodes(self.host.device_dir, self.host.numbers, {})


@pytest.fixture(scope="module")
def machines(make_rehearsal: MakeRehearsal) -> Iterator[list[Machine]]:
    """Two hosts with an engine of their own, whatever engine this machine has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # no engine on another machine is taken
        rehearsal = make_rehearsal(hosts=2, transports=["local"])
        yield [Machine(rehearsal, host) for host in rehearsal.hosts]


@pytest.fixture(scope="module")
def machine(machines: list[Machine]) -> Machine:
    """The host whose container klops makes; its service is up."""
    machines[0].done("up")
    return machines[0]


@pytest.fixture(scope="module")
def adopted(machines: list[Machine]) -> Machine:
    """The host whose container somebody made by hand, in a restless way; adopted, its service is up."""
    machine = machines[1]
    machine.make("--network=host", "--restart=always", minors={n: n for n in range(cards.CARDS)})
    machine.done("up")
    return machine


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="kill"),
        pytest.param(signal.SIGTERM, id="term", marks=pytest.mark.long),
    ],
)
def test_after_an_engine_restart_all_comes_back_by_itself(machine: Machine, number: signal.Signals) -> None:
    before = machine.ready()
    machine.end_engine(number)
    machine.start_engine()
    begun = time.monotonic()
    after = machine.ready()
    print(f"engine {number.name}: ready again {time.monotonic() - begun:.1f} s after it was back")
    assert after["container"]["id"] == before["container"]["id"]
    assert after["services"][SERVICE]["pid"] != before["services"][SERVICE]["pid"]
    assert after["container"]["faults"] == []
    machine.left_in_order()


def test_a_node_that_comes_late_after_a_boot(machine: Machine) -> None:
    before = machine.inspected["Id"]
    machine.docker("stop", machine.host.container)
    machine.nothing_to_do("stopped by hand, left alone")
    assert not machine.inspected["State"]["Running"], "it was stopped by hand: the pass leaves it alone"
    machine.end_engine(signal.SIGTERM)
    machine.without_node()
    machine.start_engine()
    until(machine.failed, what="the engine has tried to start the container")
    machine.nothing_to_do("device nodes of it are missing")
    assert machine.failed()
    machine.with_node()
    assert machine.failed(), "docker doesn't try again by itself"
    rc, out, err = machine.scheduled()
    assert (rc, err) == (0, "")
    assert machine.host.container in out
    after = machine.ready()
    assert after["container"]["id"] == before
    assert after["lock"] is None
    assert machine.passes() == ["container-started"]
    machine.nothing_to_do()


@pytest.mark.long
def test_an_adopted_container_gets_its_supervisor_back(adopted: Machine) -> None:
    made = adopted.id
    adopted.ready()
    adopted.docker("restart", "--time", "1", adopted.host.container)
    assert not adopted.klops("status").json["hosts"][adopted.host.name]["services"][SERVICE]["pid"]
    rc, out, err = adopted.scheduled()
    assert (rc, err) == (0, "")
    assert adopted.host.container in out
    adopted.ready()
    adopted.untouched(made)
    assert adopted.passes() == ["supervisor-started"]
    adopted.nothing_to_do()


@pytest.mark.skipif(not DEVICES_CGROUP.is_dir(), reason="takes access away by a devices group of cgroup v1")
def test_access_lost_inside_is_the_container_s_fault(machine: Machine) -> None:
    before = machine.inspected
    number = (machine.host.device_dir / "xpu3").stat().st_rdev
    lines = Path(f"/proc/{before['State']['Pid']}/cgroup").read_text().splitlines()
    group = next(line.split(":", 2)[2] for line in lines if line.split(":")[1] == "devices")
    assert before["Id"] in group
    deny = DEVICES_CGROUP / group.lstrip("/") / "devices.deny"
    deny.write_text(f"c {os.major(number)}:{os.minor(number)} rwm\n")

    def told() -> list[str]:
        faults: list[str] = machine.status["container"]["faults"]
        return faults

    (fault,) = until(told, what="status tells of it")
    assert "/dev/xpu3" in fault
    assert "fault of the container" in fault
    done = machine.klops("up")
    assert done.rc == 1, done.stdout + done.stderr
    error = done.json["hosts"][machine.host.name]["error"]
    assert error["code"] == "device-access-lost"
    assert "xpu3" in error["message"]
    assert "not at fault" in error["message"]
    assert machine.inspected["Id"] == before["Id"]
    machine.docker("restart", machine.host.container)
    after = machine.ready()
    assert after["container"]["id"] == before["Id"]
    assert after["container"]["faults"] == []


@pytest.mark.long
def test_an_adopted_container_whose_node_comes_late(adopted: Machine) -> None:
    made = adopted.id
    adopted.ready()
    done = adopted.passes()
    adopted.without_node()
    with pytest.raises(subprocess.CalledProcessError):
        adopted.docker("restart", "--time", "1", adopted.host.container)
    assert adopted.failed()
    adopted.nothing_to_do("device nodes of it are missing")
    adopted.with_node()
    assert adopted.scheduled()[0] == 0
    adopted.ready()
    adopted.untouched(made)
    assert adopted.passes() == [*done, "container-started", "supervisor-started"]
