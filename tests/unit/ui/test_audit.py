"""The audit log of this user: what is in it, where it is, and that it keeps nobody from working."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Change
from klops.errors import HostUnreachable
from klops.log import get_logger
from klops.playbook.events import Event, RunFinished, RunStarted, TaskFinished
from klops.playbook.results import RunResult, Status, TaskResult
from klops.remote.audit import LONGEST
from klops.secret import Redactor, Secret
from klops.ui import auditfile
from klops.ui.audit import AuditSink
from klops.ui.auditfile import AuditFile, audit_path
from tests.logged import logged

KEY = "obviously-a-secret"


def written(path: Path, *events: Event) -> list[dict[str, Any]]:
    redactor = Redactor()
    redactor.add(Secret(KEY))
    sink = AuditSink(AuditFile(redactor, str(path)), ["up", "all"], "ada", "desk")
    for event in events:
        sink.handle(event)
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def finished(status: Status, *changes: str) -> TaskFinished:
    return TaskFinished("h1", "a task", "copy", TaskResult(status, tuple(map(Change, changes))))


def test_a_run_is_told_from_beginning_to_end(tmp_path: Path) -> None:
    result = RunResult("up.yml", hosts=("h1", "h2"), errors={"h2": HostUnreachable("gone")}, seconds=2.0)
    begun, task, ended = written(
        tmp_path / "new" / "audit.jsonl",
        RunStarted("up.yml", ("h1", "h2"), False, "r1"),
        finished(Status.OK),
        finished(Status.CHANGED, f"set key {KEY}"),
        RunFinished(result),
    )
    assert (begun["event"], begun["who"], begun["from"], begun["argv"]) == (
        "run-begun",
        "ada",
        "desk",
        ["up", "all"],
    )
    assert (begun["run"], begun["hosts"], begun["check"]) == ("r1", ["h1", "h2"], False)
    assert (task["event"], task["run"], task["host"], task["action"]) == ("task", "r1", "h1", "copy")
    assert task["changes"] == ["set key ********"]
    assert (ended["event"], ended["run"], ended["outcome"]) == ("run-ended", "r1", "failed")
    assert ended["errors"] == {"h2": "unreachable"}
    assert all(line["by"] == "klops" and line["at"] > 0 for line in (begun, task, ended))
    assert (tmp_path / "new" / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_check_did_nothing(tmp_path: Path) -> None:
    lines = written(
        tmp_path / "audit.jsonl",
        RunStarted("up.yml", ("h1",), True, "r1"),
        finished(Status.CHANGED, "write /a"),
        RunFinished(RunResult("up.yml", check=True)),
    )
    assert [line["event"] for line in lines] == ["run-begun", "run-ended"]


@pytest.mark.parametrize(
    ("env", "windows", "path"),
    [
        ({}, False, "/home/ada/.local/state/klops/audit.jsonl"),
        ({"XDG_STATE_HOME": "/state"}, False, "/state/klops/audit.jsonl"),
        ({"XDG_STATE_HOME": "state"}, False, "/home/ada/.local/state/klops/audit.jsonl"),
        ({"LOCALAPPDATA": "D:\\Local"}, True, "D:\\Local\\klops\\audit.jsonl"),
        ({"KLOPS_AUDIT": "/there/mine.jsonl", "XDG_STATE_HOME": "/state"}, False, "/there/mine.jsonl"),
        ({"KLOPS_AUDIT": "off"}, False, ""),
    ],
)
def test_where_it_is(env: dict[str, str], windows: bool, path: str) -> None:
    assert audit_path(env, windows=windows, home=lambda: "/home/ada") == path


def test_without_a_folder_of_its_own_on_windows() -> None:
    found = audit_path({}, windows=True, home=lambda: "C:\\Users\\ada")
    assert found == "C:\\Users\\ada\\AppData\\Local\\klops\\audit.jsonl"


def test_a_log_that_can_t_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = AuditFile(str, str(tmp_path / "file" / "audit.jsonl"))
    # whatever an earlier test left to be configured is configured now, not within
    get_logger(__name__)
    with logged() as said_by_klops:
        file.note("one", {})
        file.note("two", {})
    (said,) = said_by_klops
    assert said["log_level"] == "warning"
    assert "KLOPS_AUDIT" in said["fix"]


def test_a_disk_that_does_not_answer_keeps_nobody_from_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditfile, "PATIENCE", 0.05)
    pipe = tmp_path / "audit.jsonl"
    os.mkfifo(pipe)  # opening it for writing waits for a reader, as on a file server that is gone
    file = AuditFile(str, str(pipe))
    get_logger(__name__)
    with logged() as said_by_klops:
        for event in ("one", "two", "three"):
            file.note(event, {})
    (said,) = said_by_klops
    assert "no answer within" in said["why"]
    found: list[str] = []
    while len(found) < 3:
        with pipe.open() as reader:
            found += [json.loads(line)["event"] for line in reader]
    assert found == ["one", "two", "three"]


def test_a_fresh_log_does_not_take_the_place_of_the_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    with path.open("wb") as long:
        long.truncate(LONGEST)
    write = os.write

    def written_while_another_makes_room(fd: int, data: bytes) -> int:
        count = write(fd, data)
        path.rename(tmp_path / "audit.jsonl.1")
        path.write_text('{"event": "of another"}\n')
        return count

    monkeypatch.setattr(os, "write", written_while_another_makes_room)
    AuditFile(str, str(path)).note("one", {})
    assert (tmp_path / "audit.jsonl.1").stat().st_size > LONGEST
    assert "of another" in path.read_text()


def test_switched_off_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLOPS_AUDIT", "off")
    monkeypatch.setenv("HOME", str(tmp_path))
    AuditFile(str).note("one", {})
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_got_long_makes_room(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with path.open("wb") as file:
        file.truncate(LONGEST)
    file_ = AuditFile(str, str(path))
    file_.note("one", {})
    file_.note("two", {})
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["two"]
    assert (tmp_path / "audit.jsonl.1").stat().st_size > LONGEST
