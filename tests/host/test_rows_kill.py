"""Rows A1, A2, B10: what a clean-up ends, by what it is and never by what it is called.

The tests of this module share two hosts: one whose container klops made, over ssh, and one that somebody made
by hand and klops adopted. Each leaves the service as the next one needs it.
"""

from __future__ import annotations

import getpass
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.agent.processes import procs
from klops.sim import cards
from klops.sim.layout import SERVICE
from tests.host.likenesses import Crowd, Likeness
from tests.host.support import klops
from tests.host.watch import GenerationWatch, device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

#: Title and short name of what vLLM of one time or another calls its processes.
FORMS = [
    ("python3 -m vllm.entrypoints.openai.api_server --model m", "pt_main_thread"),
    ("python -m vllm.entrypoints.openai.api_server --model m", "python"),
    ("python -c from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=9)", "python"),
    ("VLLM::APIServer_0", "VLLM::APIServer"),
    ("VLLM::EngineCoreProc_0", "VLLM::EngineCor"),
    ("VLLM::Worker_TP0_DP0", "VLLM::Worker_TP"),
    ("VLLM::EngineCore_DP0", "VLLM::EngineCor"),
    ("VLLM::Worker_DP0_PP0_TP1_EP1", "VLLM::Worker_DP"),
    ("VLLM::DPCoordinator", "VLLM::DPCoordin"),
    ("KL::EngineCore", "KL::EngineCore"),
]
#: Who has nothing to do with it.
BYSTANDERS = [("vim VLLM_notes.md", "vim"), ("tail -f vllm.log", "tail"), ("python train.py", "python")]


@pytest.fixture(scope="module")
def crowds(make_rehearsal: MakeRehearsal) -> list[Crowd]:
    """Both hosts; their service wants the first two cards."""
    rehearsal = make_rehearsal(hosts=2, transports=["ssh", "local"])
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    for host in inventory["all"]["children"]["rehearsal"]["hosts"].values():
        host["klops"]["services"][SERVICE].update(
            tp=2, cards=[0, 1], env={"KLOPS_SIM_LOAD_SECONDS": "0.2"}, restart={"policy": "never"}
        )
    yaml.dump(inventory, rehearsal.inventory)
    return [Crowd(rehearsal, host) for host in rehearsal.hosts]


@pytest.fixture(scope="module")
def made(crowds: list[Crowd]) -> Crowd:
    """The host whose container klops makes; its service is up."""
    crowds[0].done("up")
    return crowds[0]


@pytest.fixture(scope="module")
def adopted(crowds: list[Crowd]) -> Crowd:
    """The host whose container somebody made; its service is up."""
    crowds[1].make("--network=host", "--stop-timeout=1", minors={n: n for n in range(cards.CARDS)})
    crowds[1].done("up")
    return crowds[1]


@pytest.fixture
def bystanders(request: pytest.FixtureRequest) -> Iterator[list[Likeness]]:
    """In the container of the host that the test is about; none of them may be harmed."""
    host = "made" if "made" in request.fixturenames else "adopted"
    crowd: Crowd = request.getfixturevalue(host)
    found = [crowd.left(title, comm) for title, comm in BYSTANDERS]
    yield found
    harmed = [one.title for one in found if not one.lives()]
    for one in found:
        one.kill()
    assert not harmed


def ended(found: dict[str, object]) -> dict[int, str]:
    """Outcome by pid in the container."""
    rows = found["processes"]
    assert isinstance(rows, list)
    return {row["cpid"]: row["outcome"] for row in rows}


@pytest.mark.long
def test_row_A2_whatever_a_holder_of_a_card_calls_itself(made: Crowd, bystanders: list[Likeness]) -> None:
    before = made.service
    left = [made.left(title, comm, f"/dev/xpu{4 + n % 4}") for n, (title, comm) in enumerate(FORMS)]
    shown = made.reap("--check")
    assert {row["cpid"] for row in shown["processes"]} == {one.cpid for one in left}
    assert all(one.lives() for one in left)
    assert ended(made.reap()) == {one.cpid: "gone" for one in left}
    assert not any(one.lives() for one in left)
    after = made.service
    assert (after["cpid"], after["restarts"]) == (before["cpid"], before["restarts"])


@pytest.mark.long
def test_row_A2_a_card_in_use_and_nothing_of_ours_is_said(made: Crowd) -> None:
    made.done("down")
    stranger, client = made.attended("python train.py", made.node(0))
    try:
        listed = made.reap()
        assert listed["processes"] == []
        assert [(row["cpid"], row["start"]) for row in listed["unowned"]] == [(stranger.cpid, stranger.start)]
        failed = made.klops("up")
        assert failed.rc == 1, failed.stdout
        error = failed.json["hosts"][made.host.name]["error"]
        assert (error["code"], f"pid {stranger.pid} " in error["message"]) == ("cards-foreign", True), error
        assert stranger.lives()
        named = made.reap("--include-unowned", f"{stranger.pid}:{stranger.start}")
        assert ended(named) == {stranger.cpid: "gone"}
        assert not stranger.lives()
    finally:
        stranger.kill()
        client.communicate(timeout=20)
    made.done("up")


@pytest.mark.long
def test_row_A2_what_is_on_record_is_ended_whatever_it_is_called(
    adopted: Crowd, bystanders: list[Likeness]
) -> None:
    adopted.done("down")
    adopted.without_keepers()
    ours = [
        adopted.left(title, comm, f"/dev/xpu{n % 4}" if n % 3 else "")
        for n, (title, comm) in enumerate(FORMS)
    ]
    adopted.put_on_record(*ours)
    # in a container that somebody made, one of the same name that nobody has on record is somebody's
    other = adopted.left("VLLM::EngineCore", "VLLM::EngineCor", "/dev/xpu7")
    try:
        found = adopted.reap()
        assert ended(found) == {one.cpid: "gone" for one in ours}
        assert [row["cpid"] for row in found["unowned"]] == [other.cpid]
        assert not any(one.lives() for one in ours)
        assert other.lives()
    finally:
        other.kill()
    adopted.done("up")


def orphaned(adopted: Crowd) -> list[int]:
    """Kill who keeps the unit, then its API server; pids on this machine of those that hold its cards."""
    unit = adopted.service
    assert unit["state"] == "ready"
    adopted.without_keepers()
    api = adopted.found("the API server", f"{unit['cpid']} {_start(unit['pid'])}")
    api.kill()
    until(lambda: not api.lives(), what="the API server is gone")
    left = [one.pid for one in holders(device_numbers(adopted.host.device_dir))]
    assert len(left) >= 2
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", adopted.host.port)) != 0, "the port is free at once"
    return left


def _start(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def alive(pid: int) -> bool:
    """Whether it runs; a zombie doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_row_A1_a_a_clean_up_ends_the_orphans(adopted: Crowd, bystanders: list[Likeness]) -> None:
    left = orphaned(adopted)
    found = adopted.reap()
    assert set(left) <= {row["pid"] for row in found["processes"]}
    assert set(ended(found).values()) == {"gone"}
    assert not any(alive(pid) for pid in left)
    assert adopted.held() == set()
    adopted.done("up")


@pytest.mark.long
def test_row_A1_b_a_stop_ends_the_orphans(adopted: Crowd, bystanders: list[Likeness]) -> None:
    left = orphaned(adopted)
    down = adopted.done("down")
    assert down["hosts"][adopted.host.name]["services"][SERVICE]["state"] == "stopped"
    assert not any(alive(pid) for pid in left)
    assert adopted.held() == set()
    adopted.done("up")


@pytest.mark.long
def test_row_A1_c_a_start_ends_the_orphans_first(adopted: Crowd, bystanders: list[Likeness]) -> None:
    left = orphaned(adopted)
    with GenerationWatch(device_numbers(adopted.host.device_dir), adopted.host.root) as watch:
        adopted.done("up")
    assert not watch.doubles
    assert not any(alive(pid) for pid in left)
    adopted.serving()


#: A shell that orphans come to: the kernel keeps that over exec. It waits for whoever does, for ever.
_SUBREAPER = r"""
import ctypes, os
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
os.execvp("sh", ["sh", "-c", 'eval "$LAUNCHER"; while :; do sleep 3600; done'])
"""


@pytest.mark.long
def test_row_A1_d_orphans_whose_parent_is_a_living_shell(adopted: Crowd, bystanders: list[Likeness]) -> None:
    """As of a launcher that somebody started by hand: where they are in the tree says nothing of them."""
    adopted.without_keepers()
    python, root = adopted.settings("container")["python"], adopted.host.root
    launcher = f"{python} -I -S {root}/agent/current hold --root {root} --beside"
    words = ["exec", "-d", "-e", f"LAUNCHER={launcher}", adopted.host.container, python, "-ISc", _SUBREAPER]
    adopted.docker(*words)
    until(lambda: adopted.inside("supervise"), what="its supervisor is there")
    adopted.done("restart")
    left = orphaned(adopted)
    (parent,) = adopted.inside('"$LAUNCHER";')
    assert all(parent in procs.ancestors(pid, procs.table()) for pid in left)
    inner = Path(f"/proc/{parent}/status").read_text().partition("\nNSpid:")[2].split("\n")[0].split()[-1]
    shell = adopted.found("sh", f"{inner} {_start(parent)}")
    try:
        found = adopted.reap()
        assert set(left) <= {row["pid"] for row in found["processes"]}
        assert set(ended(found).values()) == {"gone"}
        assert not any(alive(pid) for pid in left)
        assert adopted.held() == set()
        assert shell.lives()
    finally:
        shell.kill()
    adopted.done("up")


PLAY = """
- hosts: all
  tasks:
    - name: Clean up pr-970
      klops.reap:
        grace: 0
    - name: Go on
      command: echo VLLM::EngineCore {service}
"""


@pytest.mark.parametrize("service", ["svc.v1+(x)", pytest.param("/opt/svc/pr-970", marks=pytest.mark.long)])
def test_row_B10_only_the_target_ends_and_the_task_after_it_runs(
    made: Crowd, tmp_path: Path, service: str
) -> None:
    """Over a real sshd: the words of the target are in the command lines of what klops runs there."""
    before = made.service
    play = tmp_path / "VLLM::EngineCore svc.v1+(x).yml"
    play.write_text(PLAY.format(service=service))
    inventory = ["-i", str(made.rehearsal.inventory), "--limit", made.host.name, "-o", "json"]
    target = made.left(f"vllm serve {service}", "VLLM::EngineCor", "/dev/xpu6")
    done = klops("play", str(play), *inventory)
    assert done.rc == 0, done.stdout + done.stderr
    reaped, went_on = done.json["plays"][0]["tasks"]
    assert (
        reaped["hosts"][made.host.name]["status"] == went_on["hosts"][made.host.name]["status"] == "changed"
    )
    assert not target.lives()
    # nothing runs: nothing to do
    done = klops("play", str(play), *inventory)
    assert done.rc == 0, done.stdout + done.stderr
    assert done.json["plays"][0]["tasks"][0]["hosts"][made.host.name]["status"] == "ok"
    assert made.reap()["processes"] == []
    assert made.service["cpid"] == before["cpid"]


@pytest.mark.parametrize("name", ["svc.v1+(x)", "a|b", ".*", "^llm$"])
def test_row_B10_a_name_with_signs_of_a_pattern_is_refused(made: Crowd, tmp_path: Path, name: str) -> None:
    yaml = YAML(typ="safe")
    inventory = yaml.load(made.rehearsal.inventory)
    own = inventory["all"]["children"]["rehearsal"]["hosts"][made.host.name]["klops"]
    own["services"][name] = own["services"].pop(SERVICE)
    yaml.dump(inventory, tmp_path / "inventory.yml")
    done = klops("down", made.host.name, "-i", str(tmp_path / "inventory.yml"))
    assert done.rc == 2, done.stdout + done.stderr
    assert name in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["int", "kill"])
def test_the_end_of_a_command_in_the_container_is_a_line(made: Crowd, number: int) -> None:
    """Whether klops ends it, or it finds that klops is gone."""
    words = ["exec", made.host.name, "-i", str(made.rehearsal.inventory), "--", "sh", "-c"]
    text = "read -r s </proc/$$/stat; set -- $s; echo $5; exec sleep 300"
    argv = [sys.executable, "-m", "klops", *words, text]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        ns = made.found("its shell", f"{group} {_start_inside(made, group)}").ns
        process.send_signal(number)

        def lines() -> list[dict[str, Any]]:
            read = (made.host.root / "audit.jsonl").read_text().splitlines()
            return [one for one in map(json.loads, read) if (one.get("ns"), one.get("group")) == (ns, group)]

        found = until(lines, timeout=30, what="its line is there")
    assert {(line["event"], line["signal"], line["who"]) for line in found} >= {
        ("signal", "SIGTERM", getpass.getuser())
    }


def _start_inside(made: Crowd, cpid: int) -> int:
    stat = made.docker("exec", made.host.container, "cat", f"/proc/{cpid}/stat")
    return int(stat.rpartition(")")[2].split()[19])
