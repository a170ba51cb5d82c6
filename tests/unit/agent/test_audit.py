"""The audit log: bounded, and no reason to fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klops.agent import audit
from klops.agent.audit import Audit
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
