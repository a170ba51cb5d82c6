"""A host comes up: over ssh and locally, real sshd, Docker engine and containers; the stand-in vLLM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, get, klops, models, tree
from tests.host.watch import GenerationWatch, device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


def on(rehearsal: Rehearsal, command: str, *args: str, **options: Any) -> Done:
    """A host command with the rehearsal's inventory and JSON output."""
    return klops(command, *args, "-i", str(rehearsal.inventory), "-o", "json", **options)


def docker(rehearsal: Rehearsal, *args: str) -> str:
    """The docker CLI on the rehearsal's engine."""
    assert rehearsal.engine is not None
    host = ["-H", rehearsal.engine.host] if rehearsal.engine.host else []
    return subprocess.run(["docker", *host, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=["ssh", pytest.param("local", marks=pytest.mark.long)])
def one(request: pytest.FixtureRequest, make_rehearsal: MakeRehearsal) -> tuple[Rehearsal, RehearsalHost]:
    """A bare rehearsal host, reached in each of the two ways."""
    rehearsal = make_rehearsal(hosts=1, transports=[request.param])
    return rehearsal, rehearsal.hosts[0]


def service(rehearsal: Rehearsal, host: RehearsalHost) -> dict[str, Any]:
    """The service as ``klops status`` has it."""
    done = on(rehearsal, "status", host.name)
    assert done.rc == 0, done.stderr
    found: dict[str, Any] = done.json["hosts"][host.name]["services"][SERVICE]
    return found


def kill(pid: int) -> None:
    """SIGKILL, to the process that is meant and to no other."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: with the pid, its identity."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def concerned_with(host: RehearsalHost) -> set[int]:
    """Pids of this machine whose command line names the host's folder or its container."""
    words = (str(host.directory).encode(), host.container.encode())
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            line = (entry / "cmdline").read_bytes()
            if any(word in line for word in words):
                found.add(int(entry.name))
    return found


# The tests of this module tell one story a transport, in this order.


def test_check_and_diff_on_a_bare_host_list_every_change_and_touch_nothing(
    one: tuple[Rehearsal, RehearsalHost],
) -> None:
    rehearsal, host = one
    files, containers = tree(host.directory), docker(rehearsal, "ps", "-a")
    processes = concerned_with(host)
    done = on(rehearsal, "up", host.name, "--check", "--diff")
    assert done.rc == 0, done.stdout + done.stderr
    assert tree(host.directory) == files
    assert docker(rehearsal, "ps", "-a") == containers
    assert concerned_with(host) == processes
    assert holders(device_numbers(host.device_dir)) == []
    changed = {
        task["name"]: [c["what"] for c in task["hosts"][host.name]["changes"]]
        for task in done.json["plays"][0]["tasks"]
        if task["hosts"][host.name]["status"] == "changed"
    }
    told = "\n".join(line for lines in changed.values() for line in lines)
    for expected in (host.container, "agent/", "README", f"start {SERVICE}", "vllm serve"):
        assert expected in told, told
    detailed = on(rehearsal, "up", host.name, "--check", "--detailed-exitcode")
    assert detailed.rc == 3


def test_the_first_up_ends_with_the_model_answering_with_the_key(
    one: tuple[Rehearsal, RehearsalHost],
) -> None:
    rehearsal, host = one
    done = on(rehearsal, "up", host.name)
    assert done.rc == 0, done.stdout + done.stderr
    assert models(host.port, host.api_key) == [SERVED_NAME]
    assert models(host.port, None) == 401
    assert models(host.port, host.api_key + "x") == 401
    status = done.json["hosts"][host.name]
    assert status["services"][SERVICE]["state"] == "ready"
    assert status["container"]["state"] == "running"
    assert status["lock"] is None
    assert Path(f"/proc/{status['services'][SERVICE]['pid']}").exists()
    asked = {"model": SERVED_NAME, "prompt": "hello", "max_tokens": 4}
    code, answer = get(host.port, "/v1/completions", host.api_key, asked)
    assert code == 200
    assert answer["choices"]


def test_the_second_up_changes_nothing_in_two_remote_commands_without_a_lock(
    one: tuple[Rehearsal, RehearsalHost],
) -> None:
    rehearsal, host = one
    before = on(rehearsal, "status", host.name).json["hosts"][host.name]
    # a lock is a file made in this folder: its time stamp tells whether there ever was one
    root = host.root.stat().st_mtime_ns
    done = on(rehearsal, "up", host.name)
    assert done.rc == 0, done.stdout + done.stderr
    recap = done.json["recap"][host.name]
    assert recap["changed"] == recap["failed"] == 0
    assert done.json["remote_commands"][host.name] <= 2
    print(f"converged up over {host.transport}: {done.json['remote_commands'][host.name]} remote commands")
    assert host.root.stat().st_mtime_ns == root
    after = done.json["hosts"][host.name]
    assert after["container"]["id"] == before["container"]["id"]
    assert after["services"][SERVICE]["pid"] == before["services"][SERVICE]["pid"]


@pytest.mark.parametrize("victim", ["api", "engine", "supervisor"])
def test_after_kill_9_it_is_ready_again_by_itself_and_never_twice(
    one: tuple[Rehearsal, RehearsalHost], victim: str
) -> None:
    rehearsal, host = one
    before = service(rehearsal, host)
    started = start_ticks(before["pid"])
    inside = on(rehearsal, "ps", host.name).json["hosts"][host.name]["processes"]
    supervisors = [p for p in inside if "supervise" in p["title"].split()]
    engines = [p for p in inside if p["name"].startswith("VLLM::EngineCor")]
    assert len(supervisors) == len(engines) == 1, inside
    pid = {"api": before["pid"], "engine": engines[0]["pid"], "supervisor": supervisors[0]["pid"]}[victim]
    with GenerationWatch(device_numbers(host.device_dir), host.root) as watch:
        kill(pid)

        def again() -> dict[str, Any] | None:
            now = service(rehearsal, host)
            fresh = victim == "supervisor" or now["pid"] != before["pid"]
            return now if now["state"] == "ready" and fresh else None

        if victim == "supervisor":
            until(
                lambda: any(
                    "supervise" in p["title"].split() and p["pid"] != pid
                    for p in on(rehearsal, "ps", host.name).json["hosts"][host.name]["processes"]
                ),
                what="another supervisor",
            )
        now = until(again, what=f"ready again after kill -9 of the {victim}")
    assert watch.samples > 10
    assert watch.doubles == []
    if victim == "supervisor":
        assert now["pid"] == before["pid"]
        assert start_ticks(now["pid"]) == started
        assert now["restarts"] == before["restarts"]
        assert len(watch.sessions) == 1
    else:
        assert now["restarts"] == before["restarts"] + 1
    assert models(host.port, host.api_key) == [SERVED_NAME]


def test_a_killed_container_brings_the_service_back(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    before = on(rehearsal, "status", host.name).json["hosts"][host.name]
    docker(rehearsal, "restart", host.container)
    now = until(
        lambda: (s := service(rehearsal, host))["state"] == "ready" and s,
        what="ready again after docker restart",
    )
    assert now["pid"] != before["services"][SERVICE]["pid"]
    again = on(rehearsal, "status", host.name).json["hosts"][host.name]
    assert again["container"]["id"] == before["container"]["id"]


def test_logs_exec_and_restart(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    inventory = ["-i", str(rehearsal.inventory)]
    assert "Application startup complete" in klops("logs", host.name, *inventory).stdout
    for code in (0, 7):
        assert klops("exec", host.name, *inventory, "--", "sh", "-c", f"exit {code}").rc == code
    assert klops("exec", host.name, *inventory, "--", "sh", "-c", "kill -9 $$").rc == 137
    assert klops("exec", host.name, *inventory, "--", "echo", "a b", "$HOME").stdout == "a b $HOME\n"
    before = service(rehearsal, host)
    done = on(rehearsal, "restart", host.name)
    assert done.rc == 0, done.stdout + done.stderr
    after = done.json["hosts"][host.name]["services"][SERVICE]
    assert after["state"] == "ready"
    assert after["pid"] != before["pid"]


def test_down_leaves_no_process_on_a_card_and_up_comes_back(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    assert holders(device_numbers(host.device_dir))
    done = on(rehearsal, "down", host.name)
    assert done.rc == 0, done.stdout + done.stderr
    assert holders(device_numbers(host.device_dir)) == []
    assert done.json["hosts"][host.name]["services"][SERVICE]["state"] == "stopped"
    again = on(rehearsal, "down", host.name)
    assert again.json["recap"][host.name]["changed"] == 0
    up = on(rehearsal, "up", host.name)
    assert up.rc == 0, up.stdout + up.stderr
    assert models(host.port, host.api_key) == [SERVED_NAME]
    removed = on(rehearsal, "down", host.name, "--remove", "--yes")
    assert removed.rc == 0, removed.stdout + removed.stderr
    assert host.container not in docker(rehearsal, "ps", "-a")
