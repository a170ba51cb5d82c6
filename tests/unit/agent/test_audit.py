"""The audit log: bounded, and no reason to fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from klops.agent import audit, store
from klops.agent.audit import Audit
from klops.agent.processes import identity
from klops.agent.trouble import Troubles


def test_it_is_rotated_once_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LONGEST", 1000)
    log = Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles())
    for number in range(100):
        log.note("start", "llm", number=number)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    kept = [
        json.loads(line)["number"]
        for name in ("audit.jsonl.1", "audit.jsonl")
        for line in (tmp_path / name).read_text().splitlines()
    ]
    assert kept == list(range(kept[0], 100))
    assert all(entry.stat().st_size < 1200 for entry in tmp_path.iterdir())


def test_of_two_that_find_it_too_long_one_rotates_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_text("old\n" * 100)
    real = os.replace

    def overtaken(*args: str) -> None:
        store.rotate(str(path), 100)  # another process, at the worst moment
        real(*args)
        path.write_text("new\n")

    monkeypatch.setattr(os, "replace", overtaken)
    store.rotate(str(path), 100)
    monkeypatch.undo()
    assert (path.read_text(), (tmp_path / "log.1").read_text()) == ("new\n", "old\n" * 100)
    # who opened it before that and gets the lock now: it is another file
    path.write_text("new\n" * 100)
    fstat = os.fstat
    moved: list[bool] = []

    def meanwhile(fd: int) -> os.stat_result:
        found = fstat(fd)
        if not moved:
            moved.append(True)
            real(path, tmp_path / "log.1")
            path.write_text("newer\n")
        return found

    monkeypatch.setattr(os, "fstat", meanwhile)
    store.rotate(str(path), 100)
    assert (path.read_text(), (tmp_path / "log.1").read_text()) == ("newer\n", "new\n" * 100)


def test_a_full_disk_is_said_once_and_again_when_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.jsonl"
    path.symlink_to("/dev/full")
    log = Audit(str(path), "a test", Troubles())
    log.note("start", "llm")
    log.note("start", "llm")
    assert capsys.readouterr().err.count("No space left on device") == 1
    path.unlink()
    log.note("start", "llm")
    assert "works again" in capsys.readouterr().err
    assert len(path.read_text().splitlines()) == 1


def test_a_signal_to_an_own_child_is_a_line(tmp_path: Path) -> None:
    log = Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles())
    with subprocess.Popen(["sleep", "300"]) as child:
        who = identity.of_pid(child.pid)
        assert log.signal_child(child.pid, signal.SIGTERM, "it is over") == "sent"
    assert log.signal_child(child.pid, signal.SIGTERM, "again") == "gone"
    assert who is not None
    # of one that is gone nothing was sent, to nobody who could be named
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert {
        key: line[key] for key in ("event", "boot", "ns", "pid", "start", "signal", "why", "outcome")
    } == {
        "event": "signal",
        "boot": who.boot,
        "ns": who.ns,
        "pid": who.pid,
        "start": who.start,
        "signal": "SIGTERM",
        "why": "it is over",
        "outcome": "sent",
    }
