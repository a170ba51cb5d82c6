"""``klops play --syntax-check`` and ``klops schema``: neither needs an inventory or a host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klops.cli.main import run


@pytest.fixture
def playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A playbook in a folder without an inventory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KLOPS_INVENTORY", str(tmp_path / "none"))
    file = tmp_path / "site.yml"
    file.write_text("- hosts: all\n  tasks: [{import_tasks: more.yml}, {debug: }]\n- {hosts: b, tasks: []}\n")
    (tmp_path / "more.yml").write_text("- debug:\n")
    return file


def test_a_right_playbook_is_ok(playbook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "--syntax-check", "site.yml"]) == 0
    assert capsys.readouterr().out == "site.yml: ok (2 plays, 2 tasks)\n"
    assert run(["play", "--syntax-check", "site.yml", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"ok": True, "playbook": "site.yml", "plays": 2, "tasks": 2, "warnings": []}


def test_every_mistake_is_told(playbook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (playbook.parent / "more.yml").write_text("- debug: {mgs: a}\n- {debug: , when: }\n")
    assert run(["play", "--syntax-check", "site.yml"]) == 2
    told = capsys.readouterr().err
    assert "more.yml:1:11: debug has no parameter 'mgs'" in told
    assert "more.yml:2:13" in told
    assert run(["play", "--syntax-check", "site.yml", "-o", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["error"]["code"]) == (False, "source")
    assert "more.yml:2:13" in document["error"]["message"]


def test_what_is_read_as_a_secret_under_klops_only_is_told(
    playbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    playbook.write_text(
        "- hosts: all\n  vars: {pw: {env: DB}, klops: {stack: {pw: {env: A}}}}\n  vars_files: [v.yml]\n"
    )
    (playbook.parent / "v.yml").write_text("db: {password: {file: a}}\nx: {command: {a: b}, env: c}\n")
    assert run(["play", "--syntax-check", "site.yml"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: site.yml:2:14: pw: {env: ...} is a mapping here")
    assert "lookup('env', 'NAME')" in first
    assert "v.yml:1:16: db: {file: ...} is a mapping here" in second


@pytest.mark.parametrize("subject", ["playbook", "inventory"])
def test_schemas_are_printed(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", subject]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
