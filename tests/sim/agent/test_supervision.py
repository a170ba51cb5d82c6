"""Units under a real supervisor and launcher, with the stand-in server: what dies, lives and comes back."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from klops.agent.digests import secret_digest
from klops.agent.processes import procs
from klops.remote import agentpackage
from tests.sim.agent.site import KEY, STANDIN, Site, alive
from tests.sim.agent.test_package import interpreters
from tests.waiting import until

#: This interpreter, the oldest and the newest that this machine has.
SOME = list(dict.fromkeys([interpreters()[0], *interpreters()[1:2], interpreters()[-1]]))


def get(port: int, key: str = KEY) -> int:
    """Status of ``GET /v1/models``; 0 when nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models")
    request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def roots(port: int) -> list[int]:
    """Living API servers of a port, looked for from outside."""
    return [
        p.pid
        for p in procs.table().values()
        if p.alive and f"--port {port} " in procs.title(p.pid) and p.pid == p.session
    ]


@contextmanager
def one_at_a_time(port: int) -> Iterator[None]:
    """Watch from outside that no API server runs beside anything of an earlier one."""
    ended, wrong = threading.Event(), []
    sessions: set[int] = set()

    def watch() -> None:
        while not ended.is_set():
            sessions.update(roots(port))
            living = {p.session for p in procs.table().values() if p.alive and p.session in sessions}
            if len(living) > 1:
                wrong.append(living)
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
    assert not wrong


@pytest.mark.parametrize(
    "python",
    [SOME[0], *(pytest.param(one, marks=pytest.mark.long) for one in SOME[1:])],
    ids=[f"python{number}" for number in range(len(SOME))],
)
def test_a_life(site: Site, python: str) -> None:
    site.python = python
    hold = site.hold()
    site.supervisor()
    spec = site.spec()
    began = site.start(spec)
    assert (began["state"], began["desired"]) == ("starting", "running")
    with one_at_a_time(spec["port"]):
        lines = subprocess.run(
            site.command("wait", "llm", "--timeout", "30"), capture_output=True, text=True, check=True
        )
        first, last = (json.loads(lines.stdout.splitlines()[n]) for n in (0, -1))
        assert (first["state"], last["state"]) == ("starting", "ready")
        assert (get(spec["port"]), get(spec["port"], "wrong")) == (200, 401)
        unit = site.unit()
        secret = unit["secret"]
        assert secret["digest"] == secret_digest(secret["salt"], {"VLLM_API_KEY": KEY})
        assert (unit["digest"], unit["generation"], unit["restarts"]) == (spec["digest"], 1, 0)
        assert len(unit["lineage"]) == 5
        # the same again changes nothing
        assert site.start(spec)["cpid"] == unit["cpid"]

        os.kill(unit["cpid"], signal.SIGKILL)
        second = site.ready_again(1)
        assert second["restarts"] == 1
        assert not any(alive(member["cpid"]) for member in unit["lineage"])

        before = site.supervisor()
        os.kill(before, signal.SIGKILL)
        killed = time.clock_gettime(time.CLOCK_BOOTTIME)
        until(lambda: site.supervisor() != before, what="another supervisor")
        # by when it was started: how long a verb needs to find it says nothing of the launcher
        born = int(site.verb("status")["supervisor"]["start"]) / os.sysconf("SC_CLK_TCK")
        assert born - killed < 1.5
        same = until(lambda: (u := site.unit())["health"]["ok"] and u, what="it is checked again")
        for key in ("cpid", "start", "generation", "restarts", "state", "since"):
            assert same[key] == second[key]

        engine = next(m for m in same["lineage"] if m["name"].startswith("VLLM::Engine"))
        os.kill(engine["cpid"], signal.SIGKILL)
        third = site.ready_again(2)
        assert third["restarts"] == 2

    stopped = site.verb("stop", "llm")
    assert (stopped["state"], stopped["desired"], stopped["lineage"]) == ("stopped", "stopped", [])
    assert (roots(spec["port"]), get(spec["port"])) == ([], 0)
    assert not any(alive(member["cpid"]) for member in third["lineage"])
    hold.send_signal(signal.SIGTERM)
    assert hold.wait(20) == 0
    assert site.verb("status")["units"]["llm"]["state"] == "stopped"


def test_two_storms_of_kills(held: Site) -> None:
    spec = held.spec(
        env={"KLOPS_SIM_LOAD_SECONDS": "0.3"}, restart={"limit": 100, "delay": 0.05, "max_delay": 0.1}
    )
    held.start(spec)
    port = spec["port"]
    hit: set[int] = set()
    with one_at_a_time(port):
        # API servers, then supervisors too, each a while after it is there: while it begins, loads, or serves
        for supervisors in (False, True):
            for phase in (0.0, 0.1, 0.3, 0.6):
                until(lambda: not hit.issuperset(roots(port)), what="another API server is there")
                time.sleep(phase)
                for pid in roots(port):
                    hit.add(pid)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if supervisors:
                    found = held.verb("status")["supervisor"]
                    if found:
                        with suppress(ProcessLookupError):
                            os.kill(found["cpid"], signal.SIGKILL)
        unit = held.reaches("ready", timeout=60)
    assert unit["generation"] > len(hit) >= 8
    assert unit["restarts"] == unit["generation"] - 1
    held.verb("stop", "llm")
    assert roots(spec["port"]) == []


def test_the_key_is_in_no_command_line_log_or_readable_file(held: Site) -> None:
    held.start(held.spec())
    held.reaches("ready")
    for pid in procs.pids():
        assert KEY.encode() not in procs.slurp(f"/proc/{pid}/cmdline")
    shown = [json.dumps(held.verb(verb), ensure_ascii=False) for verb in ("status", "ps")]
    shown += [(held.root / "log" / "llm.log").read_text(), (held.root / "audit.jsonl").read_text()]
    for text in shown:
        assert KEY not in text
        assert json.dumps(KEY)[1:-1] not in text
    for path in held.root.rglob("*"):
        if "agent" not in path.relative_to(held.root).parts and not path.is_symlink():
            assert path.stat().st_mode & 0o077 == 0, path
    assert (held.root / "agent" / "current").stat().st_mode & 0o444 == 0o444


def test_supervisor_told_to_stop_keeps_what_is_wanted_and_a_new_container_takes_it_up(site: Site) -> None:
    hold = site.hold()
    site.start(site.spec())
    first = site.reaches("ready")
    hold.send_signal(signal.SIGTERM)
    assert hold.wait(30) == 0
    down = site.unit()
    assert (down["state"], down["desired"], down["cpid"]) == ("stopped", "running", None)
    assert down["error"].startswith("it is wanted, but no supervisor answers")
    assert not any(alive(member["cpid"]) for member in first["lineage"])
    # what a container that was killed leaves: a state that says ready, of another pid 1
    path = site.root / "run" / "llm.state.json"
    state = json.loads(path.read_text())
    state.update(state="ready", root=[os.getpid(), 1], home="another", was_ready=True)
    path.write_text(json.dumps(state))
    site.hold()
    again = site.ready_again(1)
    assert (again["restarts"], again["generation"]) == (0, 2)


def test_a_start_that_takes_too_long_fails_and_a_restart_clears_it(held: Site) -> None:
    slow = held.spec(
        env={"KLOPS_SIM_LOAD_SECONDS": "60"},
        health={"start_timeout": 1.5},
        restart={"limit": 0},
        stop={"timeout": 1},
    )
    held.start(slow)
    done = subprocess.run(
        held.command("wait", "llm", "--timeout", "60"), capture_output=True, text=True, check=False
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["state"]) == (1, "failed")
    assert "not ready after 1.5 s" in last["error"]
    assert "1 failure(s)" in last["error"]
    assert any("vLLM API server" in line for line in last["log"])
    assert roots(slow["port"]) == []
    held.start(held.spec(port=slow["port"]))
    held.reaches("ready")


def test_a_failed_start_quotes_the_first_error_and_the_log(held: Site) -> None:
    held.start(held.spec(argv=["vllm", "serve", "/no/such/model", "--port", "1"], restart={"limit": 1}))
    unit = held.reaches("failed")
    assert "ended with status 1" in unit["error"]
    assert "HFValidationError" in unit["error"]
    assert any("HFValidationError" in line for line in unit["log"])
    generation = unit["generation"]
    held.verb("restart", "llm")
    until(lambda: held.unit()["generation"] > generation, what="it is tried again")


def test_stop_cancels_a_start_in_which_term_is_lost(held: Site) -> None:
    spec = held.spec(env={"KLOPS_SIM_LOAD_SECONDS": "60"}, stop={"timeout": 1})
    held.start(spec)
    until(lambda: len(held.unit()["lineage"]) == 5, what="it loads")
    began = time.monotonic()
    assert held.verb("stop", "llm")["state"] == "stopped"
    assert time.monotonic() - began < 15
    assert roots(spec["port"]) == []
    assert held.unit()["restarts"] == 0


def test_stopped_workers_without_parents_are_ended(held: Site) -> None:
    held.start(held.spec())
    unit = held.reaches("ready")
    workers = [m["cpid"] for m in unit["lineage"] if m["name"].startswith("VLLM::Worker")]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    engine = next(m["cpid"] for m in unit["lineage"] if m["name"].startswith("VLLM::Engine"))
    os.kill(unit["cpid"], signal.SIGKILL)
    os.kill(engine, signal.SIGKILL)
    held.ready_again(1)
    assert not any(alive(pid) for pid in workers)


def test_a_helper_that_ends_takes_no_server_with_it_and_an_engine_that_dies_does(
    held: Site, nodes: Path
) -> None:
    (held.devices / "xpu0").symlink_to(nodes / "xpu0")
    (held.devices / "xpuctrl").symlink_to(nodes / "xpuctrl")
    # it holds the card from the start, like a forked child that inherited the descriptors
    program = held.devices.parent / "bin" / "vllm"
    program.write_text(
        f'#!/bin/sh\nsleep 1000 9<>{held.devices}/xpu0 &\nexec {held.python} -S {STANDIN} "$@"\n'
    )
    card = {"index": 0, "minor": 0, "node": "/dev/xpu0", "bdf": "", "uuid": "", "serial": ""}
    held.start(held.spec(cards=[card], tp=1, env={"KLOPS_SIM_DEVICE_DIR": str(held.devices)}))
    before = held.reaches("ready")
    helper = next(m["cpid"] for m in before["lineage"] if m["name"] == "sleep")
    state = held.root / "run" / "llm.state.json"

    def vital() -> list[int]:
        return [pid for pid, _, _ in json.loads(state.read_text())["vital"]]

    until(lambda: helper in vital(), what="the helper is taken for a part of the engine")
    os.kill(helper, signal.SIGTERM)
    until(lambda: helper not in vital(), what="the server has shown that it can do without")
    engine = next(m["cpid"] for m in before["lineage"] if m["name"].startswith("VLLM::Engine"))
    assert engine in vital()
    unit = held.unit()
    assert (unit["cpid"], unit["state"], unit["generation"]) == (before["cpid"], "ready", 1)

    began = time.monotonic()
    os.kill(engine, signal.SIGKILL)
    until(lambda: held.unit()["state"] != "ready", what="it isn't called ready")
    assert time.monotonic() - began < 2
    assert held.ready_again(1)["restarts"] == 1
    (why,) = {
        line["why"] for line in held.audit("state") if (line["was"], line["state"]) == ("ready", "unhealthy")
    }
    assert why == f"a part of the engine is gone: pid {engine} (VLLM::EngineCor)"


def test_a_server_that_hangs_is_unhealthy_and_not_killed(held: Site) -> None:
    held.start(held.spec(health={"timeout": 0.3, "interval": 0.1}))
    unit = held.reaches("ready")
    os.kill(unit["cpid"], signal.SIGSTOP)
    held.reaches("unhealthy")
    began = time.monotonic()
    held.verb("status")
    assert time.monotonic() - began < 1.0
    checks: set[float] = set()

    def many() -> bool:
        checks.add(held.unit()["health"]["checked"] or 0)
        return len(checks) > 6  # twice as many failures as make a unit unhealthy, and none makes it end

    until(many, what="it is checked over and over")
    os.kill(unit["cpid"], signal.SIGCONT)
    assert held.reaches("ready")["cpid"] == unit["cpid"]


def test_strangers_on_port_and_card_are_named_and_left_alone(held: Site, nodes: Path) -> None:
    (held.devices / "xpu0").symlink_to(nodes / "xpu0")
    card = {"index": 2, "minor": 0, "node": "/dev/xpu0", "bdf": "", "uuid": "", "serial": ""}
    spec = held.spec(cards=[card], restart={"limit": 1000, "delay": 0.1, "max_delay": 0.1})
    with socket.create_server(("127.0.0.1", spec["port"])):
        held.start(spec)
        unit = held.reaches("backoff")
        assert f"port {spec['port']} is taken by pid {os.getpid()}" in unit["error"]
        assert unit["generation"] == 0
    held.verb("stop", "llm")
    card_of_mine = os.open(nodes / "xpu0", os.O_RDWR | os.O_NOCTTY)
    try:
        held.verb("start", "llm")
        unit = held.reaches("backoff")
        assert f"pid {os.getpid()} (" in unit["error"]
        assert f"holds {held.devices}/xpu0" in unit["error"]
    finally:
        os.close(card_of_mine)
    assert held.reaches("ready")["cards"] == [2]
    assert "XPU_VISIBLE_DEVICES=0" in (held.root / "log" / "llm.log").read_text()


def test_a_stranger_that_goes_by_itself_is_waited_for(held: Site) -> None:
    spec = held.spec()
    with socket.create_server(("127.0.0.1", spec["port"])):
        held.start(spec)
        for _ in range(5):
            unit = held.unit()
            assert (unit["state"], unit["generation"]) == ("starting", 0)
    assert held.reaches("ready")["restarts"] == 0
    assert held.audit("start-refused") == []


def test_a_missing_card_is_told_at_once_and_counts_nothing(held: Site) -> None:
    held.start(held.spec(cards=[{"index": 3, "minor": 5, "node": "/dev/xpu5"}]))
    unit = held.reaches("backoff")
    assert unit["error"] == f"card 3 (minor 5, {held.devices}/xpu5) is not in this container"
    assert (unit["restarts"], unit["waits"]) == (0, True)
    assert held.verb("stop", "llm")["state"] == "stopped"


def test_a_stop_that_a_start_was_to_follow_is_told_as_such_until_it_comes(held: Site) -> None:
    held.start(held.spec())
    held.reaches("ready")
    held.verb("stop", "llm", "--resumes")
    stopped = held.unit()
    assert (stopped["state"], stopped["desired"], stopped["resumes"]) == ("stopped", "stopped", True)
    assert "cut short" in stopped["error"]
    held.start(held.spec())
    again = held.reaches("ready")
    assert (again["resumes"], again["error"]) == (False, "")
    assert not held.verb("stop", "llm")["resumes"]


def test_a_changed_specification_stops_first_then_starts(held: Site) -> None:
    spec = held.spec()
    held.start(spec)
    first = held.reaches("ready")
    with one_at_a_time(spec["port"]):
        changed = held.start(held.spec(port=spec["port"], model="other"))
        assert changed["state"] == "starting"
        second = held.ready_again(1)
    assert (second["model"], second["restarts"]) == ("other", 0)
    assert not alive(first["cpid"])
    # another key is a change too
    third = held.verb(
        "start", "llm", given={"spec": held.spec(port=spec["port"], model="other"), "secrets": {}}
    )
    assert third["state"] == "starting"


def test_remove_forgets_the_unit_and_keeps_its_log(held: Site) -> None:
    spec = held.spec()
    held.start(spec)
    held.reaches("ready")
    assert held.verb("remove", "llm")["state"] == "stopped"
    assert held.verb("status")["units"] == {}
    assert sorted(path.name for path in (held.root / "units").iterdir()) == []
    assert (held.root / "log" / "llm.log").exists()
    assert held.verb("stop", "llm")["error"]["code"] == "no-unit"


def test_a_new_agent_takes_over_at_the_next_restart_and_not_before(held: Site) -> None:
    held.start(held.spec())
    unit = held.reaches("ready")
    old = held.verb("status")["supervisor"]
    files = agentpackage.sources(Path(agentpackage.__file__).parents[1])
    newer = agentpackage.pack({**files, "klops/agent/newer.py": b"# another version\n"})
    held.install(newer)
    status = held.verb("status")
    assert (status["agent"], status["supervisor"]) == (newer.digest, old)
    assert held.start(held.spec(port=unit["port"]))["cpid"] == unit["cpid"]
    held.verb("restart", "llm")
    again = held.ready_again(1)
    assert held.verb("status")["supervisor"]["agent"] == newer.digest
    assert again["restarts"] == 0


def test_two_supervisors_of_one_root_are_one_too_many(held: Site) -> None:
    second = subprocess.run(
        held.command("supervise"), capture_output=True, text=True, timeout=20, check=False
    )
    assert second.returncode == 73
    assert "another supervisor" in second.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"schema": 2}, "newer-schema"),
        ({"name": "other"}, "bad-spec"),
        ({"argv": []}, "bad-spec"),
        ({"env": {"A": 1}}, "bad-spec"),
        ({"port": "8000"}, "bad-spec"),
    ],
)
def test_a_bad_specification_is_refused_and_nothing_written(
    held: Site, change: dict[str, Any], code: str
) -> None:
    given = {"spec": {**held.spec(), **change}, "secrets": {"VLLM_API_KEY": KEY}}
    assert held.verb("start", "llm", given=given)["error"]["code"] == code
    assert list((held.root / "units").iterdir()) == []


@contextmanager
def waiting(site: Site, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A ``wait`` for ever whose standard input and output are held."""
    command = site.command("wait", "llm", "--timeout", "600", *more)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiter:
        assert waiter.stdout is not None
        assert json.loads(waiter.stdout.readline())["state"] == "starting"
        yield waiter


def test_a_wait_ends_when_nobody_waits_for_it_any_more(held: Site) -> None:
    held.start(held.spec(env={"KLOPS_SIM_LOAD_SECONDS": "600"}, stop={"timeout": 1}))
    with waiting(held, "--while-stdin") as waiter:
        assert waiter.stdin is not None
        waiter.stdin.close()
        assert waiter.wait(10) == 4
    with waiting(held) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.close()
        assert waiter.wait(10) == 4
    with waiting(held) as waiter:
        assert waiter.stdin is not None
        waiter.stdin.close()  # as that of a plain docker exec is
        with pytest.raises(subprocess.TimeoutExpired):
            waiter.wait(1)
        waiter.terminate()


def test_a_full_disk_ends_no_supervisor_and_starts_nothing_that_is_not_on_record(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own needs root")
    run = site.root / "run"
    run.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "small", run], check=True)
    try:
        full_disk(site, run)
    finally:
        site.close()
        subprocess.run(["umount", run], check=True)


def full_disk(site: Site, run: Path) -> None:
    (site.root / "audit.jsonl").symlink_to("/dev/full")
    site.hold()
    supervisor = site.supervisor()
    site.start(site.spec(restart={"limit": 1000}))
    first = site.reaches("ready")
    filler = run / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 512):
            pass
    os.kill(first["cpid"], signal.SIGKILL)
    unit = until(
        lambda: (u := site.unit())["error"].startswith("it can't be started") and u,
        what="it can't be started",
    )
    assert "No space left" in unit["error"]
    assert roots(unit["port"]) == []
    assert site.verb("restart", "llm")["error"]["code"] == "not-written"
    stopped = site.verb("stop", "llm")
    assert (stopped["state"], stopped["desired"]) == ("stopped", "stopped")
    assert "No space left" in stopped["error"]
    filler.unlink()
    until(
        lambda: json.loads((run / "llm.state.json").read_text())["desired"] == "stopped", what="it is written"
    )
    assert site.unit()["error"] == ""
    site.verb("start", "llm")
    again = site.ready_again(1)
    assert site.supervisor() == supervisor
    assert json.loads((run / "llm.state.json").read_text())["generation"] == again["generation"]


def test_logs_follow_until_standard_input_closes(held: Site) -> None:
    held.start(held.spec(log={"max_bytes": 2000}))
    unit = held.reaches("ready")
    command = held.command("logs", "llm", "--lines", "1", "--follow", "--while-stdin")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as follower:
        until((held.root / "log" / "llm.log.1").exists, what="the log was rotated")
        assert get(unit["port"]) == 200
        assert follower.stdin is not None
        follower.stdin.close()
        assert follower.stdout is not None
        assert b"GET /health" in follower.stdout.read()
        assert follower.wait(10) == 0
    assert held.verb("logs", "nobody")["error"]["code"] == "no-log"
