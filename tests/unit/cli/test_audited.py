"""What commands leave in the audit log of this user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.secret import MASK
from tests.unit.cli.conftest import KEY, LocalHost


@pytest.fixture
def log(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = host.home / "state" / "audit.jsonl"
    monkeypatch.setenv("KLOPS_AUDIT", str(path))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_exec_is_noted_with_its_status_and_without_the_key(host: LocalHost, log: Path) -> None:
    rc, _, _ = host.klops("exec", "here", "--host", "--", "sh", "-c", "exit 7", KEY)
    assert rc == 7
    begun, ended = lines(log)
    assert (begun["event"], begun["hosts"], begun["on_host"]) == ("exec-begun", ["here"], True)
    assert begun["command"] == ["sh", "-c", "exit 7", MASK]
    assert (ended["event"], ended["run"], ended["rc"]) == ("exec-ended", begun["run"], 7)


def test_what_klops_could_not_do_is_noted_by_its_code(host: LocalHost, log: Path) -> None:
    assert host.klops("exec", "here", "--", "true")[0] == 125
    _, ended = lines(log)
    assert ended["code"] == "container-absent"


def test_looking_leaves_nothing(host: LocalHost, log: Path) -> None:
    assert host.klops("exec", "here", "--host", "--check", "--", "true")[0] == 0
    assert host.klops("lock", "status", "here")[0] == 0
    assert host.klops("lock", "break", "here", "--check")[0] == 1
    assert not log.exists()


def test_a_run_is_noted_with_its_command_line(host: LocalHost, log: Path) -> None:
    book = host.home / "one.yml"
    task = {"name": "a file", "copy": {"dest": str(host.home / "f"), "content": "x"}}
    # JSON is YAML
    book.write_text(json.dumps([{"hosts": "all", "tasks": [task]}]))
    argv = ["play", str(book), "-e", "colour=blue"]
    assert host.klops(*argv)[0] == 0
    begun, done, ended = lines(log)
    assert begun["argv"] == ["play", str(book), "-e", f"colour={MASK}", "-i", str(host.home / "hosts.yml")]
    assert (done["task"], done["outcome"], done["run"]) == ("a file", "changed", begun["run"])
    assert ended["outcome"] == "done"
    # the host's own log speaks of the same run
    assert {line["run"] for line in lines(host.root / "audit.jsonl")} == {begun["run"]}
    assert host.klops(*argv)[0] == 0
    assert [line["event"] for line in lines(log)[3:]] == ["run-begun", "run-ended"]
    assert len(lines(host.root / "audit.jsonl")) == 2
