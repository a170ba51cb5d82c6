"""Looking where something is missing or isn't klops': what is said, and what to do next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from klops.cli.main import program, run
from klops.remote.base import Remote
from klops.remote.local import LocalRemote
from tests.unit.cli.conftest import LocalHost

EXEC = ["exec", "here", "--", "true"]


@pytest.fixture
def no_key(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    """A running container, and a shell in which the service's key is not set."""
    host.container()
    host.agent()
    (host.root / "log").mkdir()
    (host.root / "log" / "tiny.log").write_text("one line\n", "utf-8")
    monkeypatch.delenv("TINY_KEY")
    return host


@pytest.mark.parametrize("argv", [["ps", "here"], ["logs", "here"], EXEC, ["exec", "--host", *EXEC[1:]]])
def test_looking_needs_no_key(no_key: LocalHost, argv: list[str]) -> None:
    rc, _, err = no_key.klops(*argv)
    assert (rc, err) == (0, "")


@pytest.mark.parametrize("argv", [["ps", "here"], ["logs", "here"], EXEC])
def test_a_container_that_klops_did_not_make_is_left_alone(host: LocalHost, argv: list[str]) -> None:
    host.container(labels={})
    host.agent()
    rc, _, err = host.klops(*argv)
    assert rc == (125 if argv is EXEC else 1)
    if argv[0] == "ps":
        rc, document = host.json(*argv)
        error = document["hosts"]["here"]["error"]
        assert (rc, error["code"]) == (1, "container-foreign")
    else:
        assert "container klops (0123456789ab) was neither made nor adopted by klops" in err
        assert "klops.container.name" in err


@pytest.mark.parametrize(("known", "rc"), [("0123456789ab", 0), ("another", 1), ("0123456789", 1), ("", 1)])
def test_one_that_klops_adopted_is_known_by_its_id(host: LocalHost, known: str, rc: int) -> None:
    host.container(labels={})
    host.agent()
    record = {"schema": 1, "id": known, "name": "klops", "who": "ann", "at": 1.0} if known else {}
    (host.root / "adopted.json").write_text(json.dumps(record))
    assert host.klops("ps", "here")[0] == rc


def test_a_container_whose_id_begins_like_the_name_is_another_one(host: LocalHost) -> None:
    host.container()
    host.agent()
    known = (host.home / "state.json").read_text()
    (host.home / "state.json").write_text(known.replace("/klops", "/another"))
    rc, document = host.json("ps", "here")
    assert (rc, document["hosts"]["here"]["error"]["code"]) == (1, "container-absent")


@pytest.mark.parametrize("known", ['{"schema": 1}', "[]"])
def test_a_damaged_record_is_told_as_that(host: LocalHost, known: str) -> None:
    host.container(labels={})
    host.agent()
    (host.root / "adopted.json").write_text(known)
    rc, document = host.json("ps", "here")
    assert (rc, document["hosts"]["here"]["error"]["code"]) == (1, "damaged")


@pytest.mark.parametrize("argv", [["exec", "here", "ls", "-d", "/"], ["exec", "here"]])
def test_exec_without_dashes_tells_where_they_belong(host: LocalHost, argv: list[str]) -> None:
    rc, _, err = host.klops(*argv)
    assert rc == 125
    assert "fix: write -- before the command, as in: klops exec p800-01 -- ls -l /" in err
    rc, document = host.json(*argv)
    assert document["error"]["hint"].startswith("write -- before the command")


def test_a_command_for_one_host_names_those_to_choose_from(host: LocalHost) -> None:
    names = [f"h{n}" for n in range(7)]
    (host.home / "hosts.yml").write_text(json.dumps({"all": {"hosts": dict.fromkeys(names)}}), "utf-8")
    rc, document = host.json("logs", "all")
    assert rc == 2
    assert document["error"]["message"] == "all names 7 hosts; this command takes one"
    assert document["error"]["hint"] == "name one of h0, h1, h2, h3, h4, ..."


def test_an_account_that_may_not_log_in(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLogin(LocalRemote):
        def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
            return self

        def _open(self, argv: Sequence[str]) -> object:  # type: ignore[override]  # whatever it is
            said = "echo This account is currently not available.; echo Could not chdir to /nonexistent >&2"
            return super()._open(["sh", "-c", f"{said}; exit 1"])

    monkeypatch.setattr("klops.remote.factory.open_remote", lambda _, **__: NoLogin("here"))
    rc, document = host.json("ps", "here")
    error = document["hosts"]["here"]["error"]
    assert (rc, error["code"]) == (1, "shell")
    assert "This account is currently not available." in error["message"]
    assert "Could not chdir" in error["message"]
    assert "another ansible_user" in error["hint"]


def test_a_command_that_fails_shows_all_that_it_said(host: LocalHost) -> None:
    command = {"argv": ["sh", "-c", "echo out; echo first >&2; echo last >&2; exit 4"]}
    playbook = host.home / "site.yml"
    playbook.write_text(json.dumps([{"hosts": "all", "tasks": [{"command": command}]}]), "utf-8")
    rc, out, _ = host.klops("play", str(playbook))
    lines = [line.strip() for line in out.splitlines()]
    assert rc == 1
    assert lines[lines.index("stdout:") :][:5] == ["stdout:", "out", "stderr:", "first", "last"]
    assert "klops exec --host here -- sh -c" in out
    assert "next: klops status" not in out
    rc, document = host.json("play", str(playbook))
    (task,) = document["plays"][0]["tasks"]
    shown = task["hosts"]["here"]
    assert (shown["rc"], shown["stdout"], shown["stderr"]) == (4, "out\n", "first\nlast\n")
    assert shown["error"]["hint"]


def commands(command: object, name: str = "") -> list[str]:
    below = getattr(command, "commands", None)
    if below is None:
        return [name.strip()]
    return [found for key, value in below.items() for found in commands(value, f"{name} {key}")]


@pytest.mark.parametrize("command", commands(program()))
def test_help_pages(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run([*command.split(), "--help"]) == 0
    page = capsys.readouterr().out
    assert "<bool>" not in page
    assert not re.search(r"--verbose .*<int>", page)
    if command.split()[0] not in ("inventory", "demo"):
        assert f"Example: klops {command} " in page
    if command in ("status", "ps", "logs", "shell"):
        assert not {"--check", "--diff", "--yes"} & set(page.split())


def test_what_help_hides_is_taken_all_the_same(no_key: LocalHost) -> None:
    assert no_key.klops("ps", "here", "--check", "--diff", "--yes")[0] == 0


def test_graph_in_json(host: LocalHost) -> None:
    (host.home / "hosts.yml").write_text(
        "all: {children: {g: {hosts: {a: , b: }, children: {k: }}}}", "utf-8"
    )
    rc, document = host.json("inventory", "graph", "g")
    assert (rc, document) == (
        0,
        {"g": {"children": {"k": {"children": {}, "hosts": []}}, "hosts": ["a", "b"]}},
    )


def test_explain_shows_what_several_mappings_give_together(host: LocalHost) -> None:
    (host.home / "hosts.yml").write_text(
        "all:\n  vars: {klops: {services: {s: {model: /m, args: {a: '1', b: '1'}}}}}\n"
        "  hosts: {h: {klops: {services: {s: {args: {b: '2'}}}}}}\n",
        "utf-8",
    )
    rc, out, _ = host.klops("inventory", "explain", "h", "klops.services.s.args")
    assert rc == 0
    assert [line.split()[0] for line in out.splitlines()][:2] == ["+", "+"]
    assert out.splitlines()[-1] == '= merged    {"b": "2", "a": "1"}'
    _, document = host.json("inventory", "explain", "h", "klops.services.s.args")
    assert document["merged"] == {"a": "1", "b": "2"}
    assert not any(row["wins"] for row in document["values"])
