"""A container that somebody made by hand is adopted, and what was written in it is there ever after."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models
from tests.host.watch import holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

#: Cards by index, and the minors that the rehearsal's xpu-smi says of them.
CARDS = {4: 4, 5: 7, 6: 5, 7: 6}
#: In the container the nodes of the host have other names: xpu4 is xpu0 there, and so on.
RENAMED = {minor: place for place, minor in enumerate(sorted(CARDS.values()))}
WORK = "/root/work.txt"
#: In the environment, a label and the command line of the container: nobody's business but its maker's.
SENTINEL = "made-up-and-private"


@dataclass(frozen=True)
class Hand:
    """A host with a container that was made by hand."""

    rehearsal: Rehearsal
    host: RehearsalHost

    def klops(self, command: str, *args: str) -> Done:
        """One command; nothing of what is its maker's own is in what it says."""
        done = klops(command, self.host.name, *args, "-i", str(self.rehearsal.inventory), "-o", "json")
        assert SENTINEL not in done.stdout + done.stderr
        return done

    def done(self, command: str, *args: str) -> Any:
        """A command that must end with 0; its JSON document."""
        done = self.klops(command, *args)
        assert done.rc == 0, done.stdout + done.stderr
        return done.json

    def docker(self, *args: str) -> str:
        assert self.rehearsal.engine is not None
        where = ["-H", self.rehearsal.engine.host] if self.rehearsal.engine.host else []
        return subprocess.run(
            ["docker", *where, *args], check=True, capture_output=True, text=True
        ).stdout.strip()

    def make(
        self,
        *more: str,
        minors: dict[int, int],
        control: bool = True,
        main: Sequence[str] = ("/bin/bash", "--rcfile", f"/root/{SENTINEL}"),
    ) -> str:
        """``docker run -itd`` as somebody at the keyboard does it, with a file of theirs; its id."""
        wanted = YAML(typ="safe").load(self.rehearsal.inventory)["all"]
        shared = wanted["vars"]["klops"]["container"]
        own = wanted["children"]["rehearsal"]["hosts"][self.host.name]["klops"]["container"]
        flags = [f"--device={self.host.device_dir}/xpu{minor}:/dev/xpu{n}" for minor, n in minors.items()]
        if control:
            flags += [f"--device={self.host.device_dir}/xpuctrl:/dev/xpuctrl"]
        flags += [f"-v{volume}" for volume in own["volumes"]]
        flags += [f"-e{name}={value}" for name, value in shared["env"].items()]
        words = ["run", "-itd", "--name", self.host.container, *flags, *more]
        words += [f"-eHF_TOKEN={SENTINEL}", f"-lowner={SENTINEL}"]
        made = self.docker(*words, shared["image"], *main)
        self.docker("exec", "--user=0", self.host.container, "sh", "-c", f"echo mine >{WORK}")
        return made

    @property
    def id(self) -> str:
        return self.docker("inspect", "--format", "{{.Id}}", self.host.container)

    @property
    def status(self) -> Any:
        return self.done("status")["hosts"][self.host.name]

    @property
    def record(self) -> Path:
        return self.host.root / "adopted.json"

    def untouched(self, made: str) -> None:
        """The same container, with what was written in it."""
        assert self.id == made
        assert self.docker("exec", self.host.container, "cat", WORK) == "mine"

    def serving(self) -> None:
        assert models(self.host.port, self.host.api_key) == [SERVED_NAME]
        assert models(self.host.port, None) == 401

    def held(self) -> set[int]:
        """Minors of the cards that somebody on this machine holds: by device number, never by name."""
        nodes = {(self.host.device_dir / f"xpu{n}").stat().st_rdev: n for n in range(8)}
        return {nodes[rdev] for holder in holders(nodes) for rdev in holder.rdevs}


@pytest.fixture(scope="module")
def hand(make_rehearsal: MakeRehearsal) -> Hand:
    """A bare rehearsal host whose settings use its last four cards; no container yet."""
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"])
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    inventory["all"]["vars"]["klops"]["cards"] = {"use": list(CARDS)}
    yaml.dump(inventory, rehearsal.inventory)
    return Hand(rehearsal, rehearsal.hosts[0])


@pytest.fixture(scope="module")
def made(hand: Hand) -> str:
    """Id of the container that fits, made when the one that doesn't is gone."""
    return hand.make("--network=host", "--stop-timeout=1", minors=RENAMED)


@pytest.fixture
def adopted(hand: Hand, made: str) -> str:
    """The same once it is klops' to keep, also where the beginning of the story isn't run."""
    if not hand.record.exists():
        hand.done("up")
    return made


def supervisors(hand: Hand) -> list[int]:
    """Pids on this machine of those in the container."""
    listed = (
        line.split(None, 1)
        for line in hand.docker("top", hand.host.container, "-eo", "pid,args").splitlines()
    )
    return [int(pid) for pid, args in listed if "supervise" in args.split()]


# The tests of this module tell one story, in this order.


def test_one_that_does_not_fit_is_refused_with_all_reasons_and_left_as_it_is(hand: Hand) -> None:
    few = {minor: place for minor, place in RENAMED.items() if minor != 5}
    made = hand.make("--network=none", "--user=1000", "-v/tmp", minors=few, control=False)
    changed = sorted(hand.docker("diff", hand.host.container).splitlines())
    done = hand.klops("up")
    assert done.rc == 1, done.stdout + done.stderr
    error = done.json["hosts"][hand.host.name]["error"]
    assert error["code"] == "container-unfit"
    for reason in ("xpu5", "xpuctrl", "network", "1000"):
        assert reason in error["message"], error
    assert hand.id == made
    assert sorted(hand.docker("diff", hand.host.container).splitlines()) == changed
    assert not hand.record.exists()
    hand.docker("rm", "--force", "--volumes", made)


def test_one_that_fits_is_adopted_and_serves_on_the_cards_that_are_meant(hand: Hand, made: str) -> None:
    hand.done("up", "--check")
    assert not hand.record.exists()
    done = hand.done("up")
    told = [
        change["what"]
        for task in done["plays"][0]["tasks"]
        for change in task["hosts"][hand.host.name].get("changes", ())
    ]
    what = f"adopt container {hand.host.container} ({made[:12]}), which klops did not make"
    assert what in told, told
    hand.serving()
    hand.untouched(made)
    # index 5 is the host's xpu7, which the container has as xpu3
    assert hand.held() == set(CARDS.values())
    inside = hand.docker("exec", hand.host.container, "cat", f"{hand.host.root}/log/{SERVICE}.log")
    assert "XPU_VISIBLE_DEVICES=0,3,1,2" in inside
    assert stat.S_IMODE(hand.record.stat().st_mode) == 0o644


def test_the_second_up_changes_nothing_in_two_remote_commands(hand: Hand, made: str) -> None:
    root = hand.host.root.stat().st_mtime_ns
    done = hand.done("up")
    recap = done["recap"][hand.host.name]
    assert recap["changed"] == recap["failed"] == 0
    assert done["remote_commands"][hand.host.name] <= 2
    assert hand.host.root.stat().st_mtime_ns == root
    hand.untouched(made)
    status = done["hosts"][hand.host.name]
    assert status["services"][SERVICE]["restarts"] == 0
    container = status["container"]
    assert (container["id"], container["adopted"], container["faults"]) == (made, True, [])
    assert any("restart policy no" in text for text in container["weaker"]), container
    numbers = {card["index"]: card["container_index"] for card in status["cards"]}
    assert {index: numbers[index] for index in CARDS} == {4: 0, 5: 3, 6: 1, 7: 2}
    assert numbers[0] is None


def test_looking_into_it_works_as_in_any_other(hand: Hand) -> None:
    inventory = ["-i", str(hand.rehearsal.inventory)]
    shown = klops("status", hand.host.name, *inventory).stdout
    assert "adopted" in shown
    assert "host 6 = container 1" in shown
    assert klops("exec", hand.host.name, *inventory, "--", "cat", WORK).stdout == "mine\n"


def test_after_kill_9_of_the_supervisor_the_launcher_has_another_one(hand: Hand, made: str) -> None:
    before = hand.status["services"][SERVICE]
    (supervisor,) = supervisors(hand)
    handle = os.pidfd_open(supervisor)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)
    until(lambda: [pid for pid in supervisors(hand) if pid != supervisor], what="another supervisor")
    after = until(lambda: (s := hand.status["services"][SERVICE])["state"] == "ready" and s, what="ready")
    assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
    hand.untouched(made)


@pytest.mark.long
def test_down_and_up_again(hand: Hand, adopted: str) -> None:
    down = hand.done("down")
    assert down["hosts"][hand.host.name]["services"][SERVICE]["state"] == "stopped"
    assert hand.held() == set()
    hand.untouched(adopted)
    hand.done("up")
    hand.serving()
    hand.untouched(adopted)


@pytest.mark.long
def test_a_restart_of_the_service_and_one_of_the_container(hand: Hand, adopted: str) -> None:
    assert hand.done("restart")["recap"][hand.host.name]["changed"] == 1
    hand.serving()
    hand.untouched(adopted)
    hand.docker("restart", "-t", "0", hand.host.container)
    hand.done("up")
    hand.serving()
    hand.untouched(adopted)


@pytest.mark.long
def test_while_it_does_not_run_a_down_is_written_down_in_its_own_layer(hand: Hand, adopted: str) -> None:
    hand.docker("stop", "-t", "0", hand.host.container)
    down = hand.done("down")
    assert down["recap"][hand.host.name]["changed"] == 1
    hand.docker("start", hand.host.container)
    state = f"{hand.host.root}/run/{SERVICE}.state.json"
    known = json.loads(hand.docker("exec", hand.host.container, "cat", state))
    assert (known["desired"], known["state"]) == ("stopped", "stopped")
    hand.done("up")
    hand.serving()
    hand.untouched(adopted)


def test_under_another_name_it_is_found_by_its_id_and_nothing_is_made_beside_it(
    hand: Hand, made: str
) -> None:
    hand.docker("rename", made, "work")
    try:
        for command in ("up", "down"):
            done = hand.klops(command)
            error = done.json["hosts"][hand.host.name]["error"]
            assert (done.rc, error["code"]) == (1, "container-renamed"), done.stderr
            assert f"docker rename work {hand.host.container}" in error["hint"]
        status = hand.status
        assert status["services"][SERVICE]["state"] == "unknown"
        assert "is called work now" in status["container"]["faults"][0]
        hand.serving()
        assert hand.docker("ps", "--all", "--format", "{{.Names}}").split() == ["work"]
    finally:
        hand.docker("rename", made, hand.host.container)
    hand.untouched(made)


@pytest.mark.long
def test_a_new_one_that_does_not_serve_makes_way_for_it_again(hand: Hand, adopted: str) -> None:
    kept = hand.rehearsal.inventory.read_text()
    yaml = YAML(typ="safe")
    wanted = yaml.load(kept)
    wanted["all"]["vars"]["klops"]["container"]["env"]["PATH"] = "/usr/bin"  # there is no vllm
    own = wanted["all"]["children"]["rehearsal"]["hosts"][hand.host.name]["klops"]
    own["services"][SERVICE]["restart"] = {"policy": "never"}  # so that it fails at once
    yaml.dump(wanted, hand.rehearsal.inventory)
    try:
        done = hand.klops("up", "--recreate")
    finally:
        hand.rehearsal.inventory.write_text(kept)
    assert done.rc == 1, done.stdout + done.stderr
    assert done.json["hosts"][hand.host.name]["error"]["code"] == "recreate-failed", done.stderr
    hand.serving()
    hand.untouched(adopted)
    assert hand.docker("ps", "--all", "--format", "{{.Names}}").split() == [hand.host.container]
    again = hand.done("up")
    assert again["recap"][hand.host.name]["changed"] == 0
    assert again["hosts"][hand.host.name]["container"]["adopted"]


def test_removing_leaves_it_as_it_is_without_anything_of_ours_running(hand: Hand, made: str) -> None:
    down = hand.klops("down", "--remove", "--yes")
    assert down.rc == 0, down.stdout + down.stderr
    assert "did not make it" in down.stderr
    audited = hand.docker("exec", hand.host.container, "cat", f"{hand.host.root}/audit.jsonl")
    assert SENTINEL not in audited + (hand.host.root / "audit.jsonl").read_text()
    assert not hand.record.exists()
    hand.untouched(made)
    assert hand.docker("top", hand.host.container, "-eo", "pid,comm").split()[3::2] == ["bash"]


def test_a_name_that_its_id_begins_with_is_not_its_name(hand: Hand, made: str) -> None:
    kept = hand.rehearsal.inventory.read_text()
    assert hand.docker("inspect", "--format", "{{.Id}}", made[:10]) == made  # docker takes it for that
    yaml = YAML(typ="safe")
    wanted = yaml.load(kept)
    own = wanted["all"]["children"]["rehearsal"]["hosts"][hand.host.name]["klops"]
    own["container"]["name"] = made[:10]
    yaml.dump(wanted, hand.rehearsal.inventory)
    try:
        container = hand.status["container"]
        down = hand.done("down", "--remove", "--check")
    finally:
        hand.rehearsal.inventory.write_text(kept)
    assert (container["state"], container["id"]) == ("absent", None)
    assert down["recap"][hand.host.name]["changed"] == 0
    hand.untouched(made)
