"""Two ``klops up`` of one host at a time: one works, the other names it; a killed one is taken over."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture
def one(make_rehearsal: MakeRehearsal) -> tuple[Rehearsal, RehearsalHost]:
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    return rehearsal, rehearsal.hosts[0]


def up(rehearsal: Rehearsal, host: RehearsalHost) -> Done:
    return klops("up", host.name, "-i", str(rehearsal.inventory), "-o", "json")


def start_up(rehearsal: Rehearsal, host: RehearsalHost) -> subprocess.Popen[str]:
    """The same, not waited for."""
    argv = [sys.executable, "-m", "klops", "up", host.name, "-i", str(rehearsal.inventory), "-o", "json"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def lock_of(host: RehearsalHost) -> dict[str, Any] | None:
    """The lock's content while there is one."""
    try:
        found: dict[str, Any] = json.loads((host.root / "lock").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def audit(host: RehearsalHost, *events: str) -> list[dict[str, Any]]:
    """Lines of the audit log on the host, of these kinds."""
    lines = (host.root / "audit.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] in events]


def error_of(document: Any, host: RehearsalHost) -> dict[str, str]:
    found: dict[str, str] = document["hosts"][host.name]["error"]
    return found


def names_holder(error: dict[str, str], lock: dict[str, Any]) -> None:
    """The error says who has the lock: user, machine, run."""
    assert error["code"] == "lock-held", error
    for word in (getpass.getuser(), socket.gethostname(), lock["run"]):
        assert word in error["message"]


def kill_in_the_middle(process: subprocess.Popen[str], host: RehearsalHost) -> dict[str, Any]:
    """SIGKILL a run once it holds the lock; the lock that it leaves."""
    lock = until(lambda: lock_of(host), timeout=30, what="the first run has the lock")
    until(lambda: any(host.root.glob("agent/*.pyz")), timeout=30, what="it is at work")
    process.kill()
    process.communicate(timeout=20)
    return lock


def taken_over(rehearsal: Rehearsal, host: RehearsalHost, dead: dict[str, Any], done: Done) -> None:
    """The run that came after a dead one took its lock, noted that, and completed what it had begun."""
    assert done.rc == 0, done.stdout + done.stderr
    assert models(host.port, host.api_key) == [SERVED_NAME]
    assert lock_of(host) is None
    (taken,) = audit(host, "lock-taken-over")
    assert (taken["previous"]["run"], taken["reason"]) == (dead["run"], "expired")
    begun = [line["run"] for line in audit(host, "run-begun")]
    ended = [line["run"] for line in audit(host, "run-ended")]
    assert begun == [dead["run"], taken["run"]]
    assert ended == [taken["run"]]


def test_the_second_names_the_first(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    with start_up(rehearsal, host) as first, start_up(rehearsal, host) as second:
        lock = until(lambda: lock_of(host), timeout=30, what="one of them has the lock")
        said = [process.communicate(timeout=120)[0] for process in (first, second)]
    # the one that was quicker completes, the other one changes nothing
    assert sorted((first.returncode, second.returncode)) == [0, 1], said
    loser = said[0] if first.returncode else said[1]
    names_holder(error_of(json.loads(loser), host), lock)
    assert models(host.port, host.api_key) == [SERVED_NAME]
    assert [line["run"] for line in audit(host, "run-begun", "run-ended")] == [lock["run"]] * 2


def test_a_killed_run_keeps_others_out_until_its_lock_is_dead(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    with start_up(rehearsal, host) as first:
        dead = kill_in_the_middle(first, host)
    refused = up(rehearsal, host)
    assert refused.rc == 1
    names_holder(error_of(refused.json, host), dead)
    # what the host's clock would say a minute later
    now = float(Path("/proc/uptime").read_text().split()[0])
    (host.root / "lock").write_text(json.dumps({**dead, "expires": now - 1}) + "\n")
    taken_over(rehearsal, host, dead, up(rehearsal, host))


@pytest.mark.long
def test_a_killed_run_is_taken_over_after_a_minute(one: tuple[Rehearsal, RehearsalHost]) -> None:
    rehearsal, host = one
    with start_up(rehearsal, host) as first:
        dead = kill_in_the_middle(first, host)

    def again() -> Done | None:
        done = up(rehearsal, host)
        if done.rc == 0:
            return done
        names_holder(error_of(done.json, host), dead)
        return None

    done = until(again, timeout=90, what="the dead lock is taken over")
    taken_over(rehearsal, host, dead, done)
