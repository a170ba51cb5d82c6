"""``klops reap`` on a real host: orphans go, what is somebody else's is named and left alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models, tree
from tests.host.watch import device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

#: Opens a node, and lives until it is ended; the last word makes it known from outside.
HOLD = "exec 3<>{node}; exec sleep {seconds}"


@dataclass
class Site:
    """A rehearsal host, reached over ssh, with its service up."""

    rehearsal: Rehearsal
    host: RehearsalHost

    def docker(self, *args: str) -> str:
        assert self.rehearsal.engine is not None
        where = ["-H", self.rehearsal.engine.host] if self.rehearsal.engine.host else []
        done = subprocess.run(["docker", *where, *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def klops(self, command: str, *args: str) -> Done:
        inventory = ["-i", str(self.rehearsal.inventory), "-o", "json"]
        return klops(command, self.host.name, *args, *inventory)

    def reap(self, *args: str, rc: int = 0) -> dict[str, Any]:
        """``hosts.NAME`` of a clean-up."""
        done = self.klops("reap", *args)
        assert done.rc == rc, done.stdout + done.stderr
        found: dict[str, Any] = done.json["hosts"][self.host.name]
        return found

    def local(self, *args: str) -> dict[str, Any]:
        """``hosts.localhost`` of a clean-up by klops on the host itself."""
        assert self.rehearsal.engine is not None
        engine = {"DOCKER_HOST": self.rehearsal.engine.host} if self.rehearsal.engine.host else {}
        # nobody's inventory says where its xpu-smi is
        engine["PATH"] = f"{self.host.binaries}:{os.environ['PATH']}"
        where = ["--root", str(self.host.root), "--container", self.host.container]
        where += ["--device-dir", str(self.host.device_dir), *args, "-o", "json"]
        done = klops("reap", "--local", *where, env=engine)
        assert done.rc == 0, done.stdout + done.stderr
        found: dict[str, Any] = done.json["hosts"]["localhost"]
        return found

    def holder(self, minor: int, name: str = "sleep") -> int:
        """Pid on this machine of the process of that name that holds a card; it is waited for."""
        numbers = device_numbers(self.host.device_dir, f"xpu{minor}")
        return until(
            lambda: next((h.pid for h in holders(numbers) if h.name == name), None),
            what=f"a {name} that holds xpu{minor}",
        )

    def index(self, minor: int) -> int:
        """What xpu-smi calls the card of a node."""
        listed = self.klops("status").json["hosts"][self.host.name]["cards"]
        return next(int(card["index"]) for card in listed if card["minor"] == minor)

    def files(self) -> dict[str, tuple[int, int]]:
        """What is below the root, but for what the service that runs writes there itself."""
        found = tree(self.host.root)
        return {name: entry for name, entry in found.items() if name.split("/")[0] not in ("log", "run")}

    def plant(self, minor: int) -> int:
        """A process in the container that holds a card, and whose docker exec is over."""
        hold = HOLD.format(node=f"/dev/xpu{minor}", seconds=3600)
        self.docker("exec", self.host.container, "sh", "-c", f"setsid sh -c '{hold}' >/dev/null 2>&1 &")
        return self.holder(minor)


@pytest.fixture(scope="module")
def site(make_rehearsal: MakeRehearsal) -> Site:
    """One host with its service."""
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"])
    found = Site(rehearsal, rehearsal.hosts[0])
    up = found.klops("up")
    assert up.rc == 0, up.stdout + up.stderr
    return found


@pytest.fixture
def on_the_host(site: Site) -> Iterator[int]:
    """A process of this machine itself that holds a card."""
    child = subprocess.Popen(["sh", "-c", HOLD.format(node=site.host.device_dir / "xpu2", seconds=3601)])
    try:
        assert site.holder(2) == child.pid
        yield child.pid
    finally:
        child.kill()
        child.wait()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def pids(found: dict[str, Any], key: str) -> list[int]:
    return [process["pid"] for process in found[key]]


# The tests of this module tell one story, in this order.


def test_an_orphan_is_shown_spared_while_it_is_young_and_then_ended(site: Site) -> None:
    before = site.klops("status").json["hosts"][site.host.name]["services"][SERVICE]
    orphan = site.plant(5)
    files = site.files()
    shown = site.reap("--check", "--grace", "0")
    (one,) = shown["processes"]
    assert (one["pid"], one["start"], one["unit"]) == (orphan, start_of(orphan), None)
    assert one["cards"] == [site.index(5)]
    assert one["memory_mib"] is None, "the unit holds that card as well"
    assert shown["view"] == "host"
    assert alive(orphan), "a look ends nothing"
    assert site.files() == files, "a look writes nothing"
    spared = site.reap("--grace", "3600")
    assert [(p["pid"], p["action"], p["outcome"]) for p in spared["processes"]] == [
        (orphan, "none", "skipped")
    ]
    assert alive(orphan)
    ended = site.reap("--grace", "0")
    assert [(p["pid"], p["action"], p["outcome"]) for p in ended["processes"]] == [(orphan, "term", "gone")]
    assert not alive(orphan)
    assert models(site.host.port, site.host.api_key) == [SERVED_NAME]
    after = site.klops("status").json["hosts"][site.host.name]["services"][SERVICE]
    assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
    assert site.reap("--grace", "0")["processes"] == []


def test_who_is_outside_is_named_and_never_touched(site: Site, on_the_host: int) -> None:
    node = f"{site.host.device_dir}/xpu6"
    hold = HOLD.format(node="/dev/xpu6", seconds=3602)
    other = site.docker(
        *("run", "--detach", "--network", "none", "--device", f"{node}:/dev/xpu6"),
        *("--volumes-from", site.host.container, "--entrypoint", "sh", site.rehearsal.image, "-c", hold),
    )
    try:
        theirs = site.holder(6)
        found = site.reap("--grace", "0")
        assert found["processes"] == []
        named = {p["pid"]: p for p in found["foreign"]}
        assert set(named) == {on_the_host, theirs}
        assert (named[on_the_host]["container"], named[on_the_host]["user"]) == ("", "root")
        assert named[theirs]["container"] == other
        assert named[theirs]["cards"] == [site.index(6)]
        wanted = f"{theirs}:{start_of(theirs)}"
        refused = site.reap("--include-unowned", wanted, "--grace", "0", rc=1)
        assert refused["error"]["code"] == "reap-not-ours"
        assert alive(theirs)
        assert alive(on_the_host)
    finally:
        site.docker("rm", "--force", other)


@pytest.mark.long
def test_a_colleagues_process_in_the_container_goes_only_when_it_is_named(site: Site) -> None:
    hold = HOLD.format(node="/dev/xpu1", seconds=3603)
    site.docker("exec", "--detach", site.host.container, "sh", "-c", hold)
    pid = site.holder(1)
    found = site.reap("--grace", "0")
    assert (pids(found, "processes"), pids(found, "unowned")) == ([], [pid])
    assert alive(pid)
    text = klops("reap", site.host.name, "-i", str(site.rehearsal.inventory), "--check").stdout
    assert f"klops reap {site.host.name} --include-unowned {pid}:{start_of(pid)}" in text
    wrong = site.reap("--include-unowned", f"{pid}:{start_of(pid) + 1}")
    assert pids(wrong, "processes") == []
    assert alive(pid), "another start is another process"
    ended = site.reap("--include-unowned", f"{pid}:{start_of(pid)}")
    assert [(p["pid"], p["outcome"]) for p in ended["processes"]] == [(pid, "gone")]
    assert not alive(pid)


def test_a_container_that_was_renamed_keeps_all_that_runs_in_it(site: Site) -> None:
    before = site.klops("status").json["hosts"][site.host.name]["services"][SERVICE]
    worker = site.holder(1, "VLLM::Worker_TP")
    site.docker("rename", site.host.container, f"{site.host.container}-once")
    try:
        found = site.reap("--grace", "0")
        local = site.local("--grace", "0")
    finally:
        site.docker("rename", f"{site.host.container}-once", site.host.container)
    for one in (found, local):
        assert one["processes"] == []
        (named,) = [process for process in one["unsupervised"] if process["pid"] == worker]
        assert named["unit"] == SERVICE
        assert "in a container that lives, but is not the one that was looked for" in named["reason"]
    after = site.klops("status").json["hosts"][site.host.name]["services"][SERVICE]
    assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
    assert alive(worker)


@pytest.mark.long
def test_on_the_host_itself_klops_does_the_same_without_a_helper(site: Site) -> None:
    orphan = site.plant(3)
    assert pids(site.local("--check", "--grace", "0"), "processes") == [orphan]
    assert alive(orphan)
    assert [p["outcome"] for p in site.local("--grace", "0")["processes"]] == ["gone"]
    assert not alive(orphan)


def test_before_a_start_only_the_container_is_asked_and_a_converged_up_stays_cheap(site: Site) -> None:
    orphan = site.plant(4)
    playbook = site.rehearsal.directory / "order.yml"
    # the task of up.yml, without the grace that an orphan made just now would be spared for
    task = {"klops.reap": {"view": "container", "grace": 0}}
    playbook.write_text(json.dumps([{"hosts": site.host.name, "tasks": [task]}]))
    done = klops("play", str(playbook), "-i", str(site.rehearsal.inventory), "-o", "json")
    assert done.rc == 0, done.stdout + done.stderr
    (change,) = done.json["plays"][0]["tasks"][0]["hosts"][site.host.name]["changes"]
    assert change["what"].startswith(f"end pid {orphan} sleep")
    assert done.json["remote_commands"][site.host.name] <= 5
    assert not alive(orphan)
    again = site.klops("up")
    assert again.rc == 0, again.stdout + again.stderr
    assert again.json["remote_commands"][site.host.name] <= 2
    assert again.json["recap"][site.host.name]["changed"] == 0


def test_down_ends_what_is_left_and_names_who_still_holds_a_card(site: Site, on_the_host: int) -> None:
    orphan = site.plant(7)
    done = site.klops("down")
    assert done.rc == 0, done.stdout + done.stderr
    assert not alive(orphan)
    left = {h.pid for h in holders(device_numbers(site.host.device_dir))}
    assert left == {on_the_host}
    told = [
        text
        for task in done.json["plays"][0]["tasks"]
        for text in task["hosts"][site.host.name].get("warnings", ())
    ]
    assert any(f"pid {on_the_host} " in text for text in told), told
    again = site.klops("down")
    assert again.json["recap"][site.host.name]["changed"] == 0


@pytest.mark.long
def test_without_a_container_the_image_of_the_settings_does_for_a_look(site: Site, on_the_host: int) -> None:
    removed = site.klops("down", "--remove", "--yes")
    assert removed.rc == 0, removed.stdout + removed.stderr
    found = site.reap("--grace", "0")
    assert (found["view"], found["processes"], pids(found, "foreign")) == ("host", [], [on_the_host])
    if not found["unseen"]:  # where a process can't be looked at, nobody can tell who is alone on a card
        assert found["foreign"][0]["memory_mib"], "alone on its card, it has all that is used of it"
    assert site.docker("ps", "--all", "--quiet", "--filter", "label=io.klops.helper") == ""
    assert alive(on_the_host)
