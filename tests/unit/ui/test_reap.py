"""What people read of a clean-up."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from klops.errors import HostUnreachable, KlopsError, TaskFailed
from klops.ui.reap import reap_view

LISTS = ("processes", "unowned", "foreign", "unsupervised", "unseen", "observers", "zombies", "shm")
WORKER: dict[str, Any] = {
    "pid": 4711,
    "cpid": 31,
    "start": 77,
    "name": "VLLM::Worker_TP1",
    "user": "root",
    "container": "c0ffee" + "0" * 58,
    "unit": "main",
    "cards": [0, 1, 3],
    "memory_mib": 90440,
    "state": "S",
    "reason": "of unit main: the unit is stopped",
    "action": "kill",
    "outcome": "gone",
}


def found(**lists: Any) -> dict[str, Any]:
    return {"view": "host", "freed_mib": 0, **{name: [] for name in LISTS}, **lists}


def shown(hosts: dict[str, Any], errors: dict[str, KlopsError] | None = None, *, check: bool = False) -> str:
    console = Console(file=io.StringIO(), width=220, color_system=None)
    console.print(
        reap_view(hosts, lambda text: text.replace("s3cret", "********"), errors=errors, check=check)
    )
    output: io.StringIO = console.file  # type: ignore[assignment]  # the one it was made with
    return output.getvalue()


def test_what_was_ended_how_and_what_that_gave_back() -> None:
    text = shown({"a": found(processes=[WORKER], freed_mib=90440)})
    row = next(line for line in text.splitlines() if "4711" in line)
    for cell in ("left behind", "77", "VLLM::Worker_TP1", "c0ffee000000 ", "main", "0-1,3", "90440"):
        assert cell in row
    assert row.endswith("gone (KILL): of unit main: the unit is stopped")
    assert "freed: 90440 MiB" in text
    assert "no process is left behind" not in text


def test_an_unowned_process_comes_with_the_command_that_ends_it() -> None:
    other = {**WORKER, "unit": None, "memory_mib": None, "action": "none", "outcome": "skipped"}
    text = shown({"a": found(unowned=[other], foreign=[{**other, "pid": 5}])})
    assert "to end VLLM::Worker_TP1 (pid 4711) as well: klops reap a --include-unowned 4711:77" in text
    assert "5:77" not in text
    assert "no process is left behind" in text


def test_files_that_stay_are_counted_and_zombies_named() -> None:
    shm = [
        {"path": "/dev/shm/psm_1", "bytes": 9, "kind": "shm", "action": "removed", "why": "of unit main"},
        {"path": "/dev/shm/psm_2", "bytes": 9, "kind": "shm", "action": "none", "why": "in use"},
    ]
    text = shown({"a": found(shm=shm, zombies=[{"cpid": 1, "name": "sleep", "count": 40}])})
    assert "removed: /dev/shm/psm_1 (9 bytes): of unit main" in text
    assert "psm_2" not in text
    assert "1 other files of shared memory and sockets" in text
    assert "40 zombies that sleep (pid 1 in the container) does not reap" in text


def test_a_host_that_failed_shows_what_was_seen_and_why_it_failed() -> None:
    stuck = {**WORKER, "name": "s3cret", "outcome": "unkillable", "state": "D"}
    error = TaskFailed("still there", hint="reboot", code="reap-alive")
    text = shown({"a": found(processes=[stuck]), "b": HostUnreachable("gone")}, errors={"a": error})
    assert "unkillable (KILL): of unit main" in text
    assert "error: still there" in text
    assert "fix: reboot" in text
    assert "error: gone" in text
    assert "s3cret" not in text


def test_where_only_the_container_was_seen_that_is_said() -> None:
    assert "only the container was looked at" in shown({"a": {**found(), "view": "container"}})


YOUNG = {
    **WORKER,
    "pid": 4712,
    "reason": "of unit main: the unit is stopped; only 3 s old: it may belong to something that begins",
    "action": "none",
    "outcome": "skipped",
}


def test_who_would_be_ended_and_who_is_spared_are_told_apart() -> None:
    due = {**WORKER, "action": "term", "outcome": "skipped"}
    text = shown({"a": found(processes=[due, YOUNG])}, check=True)
    rows = {line.split()[2]: line for line in text.splitlines() if "VLLM" in line}
    assert rows["4711"].endswith("would be ended (TERM): of unit main: the unit is stopped")
    assert "spared: only 3 s old: it may belong" in rows["4712"]
    assert rows["4712"].count("only 3 s old") == 1
    assert "1 too young to be ended; whatever its age: klops reap a --grace 0" in text


def test_who_was_sent_term_and_then_taken_over_is_not_told_as_to_be_ended() -> None:
    taken = {
        **WORKER,
        "reason": "of unit main; no longer left behind",
        "action": "term",
        "outcome": "skipped",
    }
    assert "would be" not in shown({"a": found(processes=[taken])})


def test_beside_what_is_pending_or_unknown_nobody_says_that_nothing_is_left() -> None:
    clean = "no process is left behind"
    file = {"path": "/dev/shm/psm_1", "bytes": 9, "kind": "shm", "action": "none"}
    due = shown({"a": found(shm=[{**file, "why": "left behind by main; would be removed"}])}, check=True)
    assert "would be removed: /dev/shm/psm_1 (9 bytes)" in due
    assert "other files" not in due
    unseen = shown({"a": found(unseen=[WORKER])})
    failed = shown({"a": found()}, errors={"a": TaskFailed("held", code="cards-unseen")})
    assert clean not in due + unseen + failed
    assert clean in shown({"a": found(shm=[{**file, "why": "in use"}])})


def test_a_card_without_a_number_is_called_by_its_node() -> None:
    text = shown({"a": found(foreign=[{**WORKER, "cards": [], "nodes": ["xpu3", "xpu4"]}])})
    assert "xpu3,xpu4" in text
