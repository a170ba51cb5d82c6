"""Rows A4 and A5: what a stop does about the dead that nobody reaps, and about what KILL doesn't end."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from klops.agent.units.ending import GRACE, UNKILLABLE
from klops.sim.layout import SERVICE
from tests.frozen import Frozen, freezer, state
from tests.host.support import klops
from tests.host.test_adoption import Hand, supervisors
from tests.host.watch import holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

STOP_TIMEOUT = 10
#: How the container of row A4 has its cards: all of them, named as on the host.
ALL = {minor: minor for minor in range(8)}
#: Seconds for klops itself, on a machine that has other things to do.
MARGIN = 115.0


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """What freezes processes."""
    with freezer() as made:
        yield made


def kill(pid: int) -> None:
    """SIGKILL to a process, and nobody else who may have its pid by then."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)


def workers(hand: Hand) -> dict[int, int]:
    """Minor of its card by pid of whoever holds one."""
    nodes = {(hand.host.device_dir / f"xpu{n}").stat().st_rdev: n for n in range(8)}
    return {holder.pid: nodes[min(holder.rdevs)] for holder in holders(nodes)}


def never_removes(folder: Path) -> Path:
    """A docker whose ``rm`` with force never returns; all else is docker's own."""
    real = shutil.which("docker")
    folder.mkdir()
    fake = folder / "docker"
    fake.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" rm "*" --force "*|*" rm "*" -f "*) exec sleep 3000 ;; esac\n'
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    return folder


@pytest.mark.long
def test_row_A5_what_kill_does_not_end_is_named_and_its_card_is_not_used(
    make_rehearsal: MakeRehearsal, frozen: Frozen, tmp_path: Path
) -> None:
    rehearsal = make_rehearsal(hosts=2, transports=["local"])
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    for host in inventory["all"]["children"]["rehearsal"]["hosts"].values():
        host["klops"]["services"][SERVICE]["stop_timeout"] = STOP_TIMEOUT
    yaml.dump(inventory, rehearsal.inventory)
    sick, well = (Hand(rehearsal, host) for host in rehearsal.hosts)
    where = ("-i", str(rehearsal.inventory), "-o", "json")
    up = klops("up", "all", *where)
    assert up.rc == 0, up.stdout + up.stderr
    stuck, minor = min(workers(sick).items())
    (card,) = [c["index"] for c in sick.status["cards"] if c["minor"] == minor]
    frozen.freeze(stuck)
    path = f"{never_removes(tmp_path / 'bin')}:{os.environ['PATH']}"
    began = time.monotonic()
    down = klops("down", "all", *where, env={"PATH": path})
    took = time.monotonic() - began
    assert down.rc == 1, down.stdout + down.stderr
    assert took < STOP_TIMEOUT + GRACE + UNKILLABLE + MARGIN
    tasks = {task["name"]: task["hosts"] for task in down.json["plays"][0]["tasks"]}
    error = tasks["Stop the services"][sick.host.name]["error"]
    assert error["code"] == "unkillable", error
    # what others have left is ended all the same, and this one is met again
    last = down.json["hosts"][sick.host.name]["error"]
    assert (last["code"], f"card {card} (unkillable, state D)" in last["message"]) == ("reap-alive", True), (
        last
    )
    for text in ("in state D", f"card {card}", "reset", "reboot"):
        assert text in error["message"], error
    assert "error" not in down.json["hosts"][well.host.name]
    assert down.json["hosts"][well.host.name]["services"][SERVICE]["state"] == "stopped"
    assert set(workers(sick)) == {stuck}
    assert workers(well) == {}
    # seen by everybody, and no start uses the card
    kept_out = {c["index"]: c["quarantine"] for c in sick.status["cards"] if c["quarantine"]}
    assert list(kept_out) == [card]
    assert kept_out[card]["kind"] == "unkillable"
    again = sick.klops("up")
    assert again.rc == 1
    assert set(workers(sick)) == {stuck}
    # as soon as the driver lets go
    frozen.thaw()
    until(lambda: not state(stuck), what="it has ended")
    assert not any(c["quarantine"] for c in sick.status["cards"])


@pytest.mark.long
def test_row_A4_the_dead_that_nobody_reaps_are_gone_for_all_that_matters(
    make_rehearsal: MakeRehearsal,
) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    hand = Hand(rehearsal, rehearsal.hosts[0])
    hand.make("--network=host", minors=ALL, main=("sleep", "infinity"))
    hand.done("up")
    # the launcher is the supervisor's parent; without both of them the unit's orphans come to PID 1
    (supervisor,) = supervisors(hand)
    launcher = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
    everybody = hand.docker("top", hand.host.container, "-eo", "pid").split()[1:]
    main = hand.docker("inspect", "--format", "{{.State.Pid}}", hand.host.container)
    members = {int(pid) for pid in everybody} - {int(main), launcher, supervisor}
    assert len(members) > len(workers(hand))
    kill(launcher)
    kill(supervisor)
    for pid in members:
        kill(pid)
    until(lambda: all(state(pid) == "Z" for pid in members), what="they are dead, and stay")
    began = time.monotonic()
    hand.done("down")
    assert time.monotonic() - began < MARGIN
    inside = hand.docker("exec", hand.host.container, "cat", f"{hand.host.root}/audit.jsonl")
    assert '"event":"signal"' not in inside  # the dead are asked nothing
    (fault,) = [text for text in hand.status["container"]["faults"] if "defunct" in text]
    assert "under the container's main process (sleep), which does not reap" in fault
    assert "--init" in fault
    hand.done("up")
    hand.serving()
    assert all(state(pid) == "Z" for pid in members)
