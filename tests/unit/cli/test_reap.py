"""``klops reap`` as it is typed."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klops.actions.own.hostview import HostView
from klops.actions.own.reap import here as reaping
from klops.actions.own.records import parse_adoption
from klops.agent.reaping import verb
from klops.cli import reap
from klops.cli.main import run
from klops.remote.base import Reply
from tests.unit.cli.conftest import LocalHost

EMPTY: dict[str, Any] = {"processes": [], "unowned": [], "foreign": [], "shm": []}
WORKER: dict[str, Any] = {"pid": 4711, "cpid": None, "start": 77, "name": "train", "cards": [], "user": "bob"}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "name hosts, or say --local"),
        (["here", "--local"], "exclude each other"),
        (["here", "--include-unowned", "4711"], "'4711' is not PID:START"),
        (["here", "--include-unowned", "4711:77,x:1"], "'x:1' is not PID:START"),
        (["here", "--grace", "-1"], "grace"),
        (["here", "--root", "/r", "--device-dir", "/d"], "only with --local: --root, --device-dir"),
        (["here", "--container", "c"], "only with --local: --container"),
        (["--local", "--diff", "--detailed-exitcode"], "not with --local: --inventory, --diff, --detailed-"),
        (["--local", "-e", "a=1"], "not with --local: --inventory, --extra-vars"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage_and_nothing_runs(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch, argv: list[str], told: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    rc, document = host.json("reap", *argv)
    assert (rc, document["error"]["code"]) == (2, "usage"), document
    assert told in document["error"]["message"]


def local(*argv: str) -> int:
    """Exit status of ``klops reap --local``."""
    return run(["reap", "--local", *argv])


@pytest.mark.parametrize(
    ("root", "told"),
    [("relative", "root"), ("/", "root"), ("/nothing/of/klops", "nothing of klops' is there")],
)
def test_a_root_that_is_not_klops_is_wrong_usage(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch, root: str, told: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert local("--root", root) == 2
    assert told in host.capfd.readouterr().err
    assert not Path("/nothing").exists()


def test_what_is_not_given_the_playbook_and_the_inventory_tell(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(reap, "_reap", lambda hosts, extra, common, detailed: seen.append(extra))
    assert host.klops("reap", "here")[0] == 0
    assert host.klops("reap", "here", "--grace", "5", "--include-unowned", "4711:77")[0] == 0
    assert seen == [{}, {"grace": 5.0, "include_unowned": ["4711:77"]}]


def test_a_host_without_an_engine_has_its_error_and_no_result(host: LocalHost) -> None:
    rc, document = host.json("reap", "here", "--check")
    assert rc == 1
    assert document["hosts"]["here"]["error"]["code"].startswith("docker")
    assert "processes" not in document["hosts"]["here"]


def test_where_services_can_t_be_stopped_what_others_left_is_ended_all_the_same(host: LocalHost) -> None:
    rc, document = host.json("down", "here")
    assert rc == 1
    done = {task["name"]: task["hosts"]["here"]["status"] for task in document["plays"][0]["tasks"][:3]}
    assert done["Stop the services"] == "failed"
    # here for the same reason: there is no engine
    assert done["End what units left behind, and see that the cards are free"] == "failed"


def test_only_root_can_look_here(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert local() == 2
    assert "only root" in host.capfd.readouterr().err


@pytest.fixture
def asked(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the agent's module is asked for on this machine; it sees a stranger."""
    seen: list[Any] = []

    def reap(options: Any) -> dict[str, Any]:
        seen.append(options)
        return {**EMPTY, "foreign": [WORKER]}

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(verb, "reap", reap)
    host.agent()
    return seen


def document(host: LocalHost, *argv: str) -> tuple[int, Any]:
    """Exit status and the JSON document of ``klops reap --local`` of the host's root."""
    rc = local("--root", str(host.root), *argv, "-o", "json")
    return rc, json.loads(host.capfd.readouterr().out)


def test_here_the_agents_module_is_asked_without_docker(host: LocalHost, asked: list[Any]) -> None:
    rc, told = document(host, "--check", "--grace", "5")
    found = told["hosts"]["localhost"]
    assert (rc, told["ok"]) == (0, True), told
    assert (found["view"], found["freed_mib"], found["foreign"][0]["pid"]) == ("host", 0, 4711)
    (options,) = asked
    assert options.flags == {"--check", "--host"}
    assert options.values == {"--root": str(host.root), "--device-dir": "/dev", "--grace": 5.0}
    assert local("--root", str(host.root)) == 0
    out = host.capfd.readouterr().out
    assert "no process is left behind" in out
    assert "left alone: pid 4711 train, user bob" in out


def test_what_is_not_to_be_ended_here_is_refused(host: LocalHost, asked: list[Any]) -> None:
    rc, told = document(host, "--include-unowned", "4711:77")
    found = told["hosts"]["localhost"]
    assert (rc, told["ok"], found["error"]["code"]) == (1, False, "reap-not-ours")
    assert found["foreign"]
    (options,) = asked
    assert options.lists == {"--include": ["4711:77"]}
    assert "--check" in options.flags, "nothing else is ended either"


def test_the_words_of_a_clean_up_that_is_busy_are_told(
    host: LocalHost, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from klops.agent.errors import VerbError

    def busy(_options: Any) -> dict[str, Any]:
        raise VerbError("reap-busy", "another clean-up is at work", "look again later")

    monkeypatch.setattr(verb, "reap", busy)
    rc, told = document(host)
    assert (rc, told["hosts"]["localhost"]["error"]["code"]) == (1, "reap-busy")
    assert reaping.Here(grace=1.0, check=True).args == ["--grace", "1", "--check"]


def test_what_the_system_refuses_here_is_told_as_that(
    host: LocalHost, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_options: Any) -> dict[str, Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "/k/run")

    monkeypatch.setattr(verb, "reap", full)
    rc, told = document(host)
    error = told["hosts"]["localhost"]["error"]
    assert (rc, error["code"], error["message"]) == (1, "system", "/k/run: No space left on device")


def test_the_command_that_ends_one_more_is_the_one_that_was_typed(
    host: LocalHost, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "reap", lambda _: {**EMPTY, "unowned": [WORKER]})
    assert local("--check", "--root", str(host.root)) == 0
    out = host.capfd.readouterr().out
    ends = f"klops reap --local --root {host.root} --include-unowned 4711:77"
    assert out.replace("\n", " ").count(ends) == 2, "below the table, and in the warning"
    assert reaping.Here().command == "klops reap --local"


def test_what_this_machine_does_not_tell_is_said_beside_the_answer(host: LocalHost, asked: list[Any]) -> None:
    assert local("--check", "--root", str(host.root), "-o", "json") == 0
    out, err = host.capfd.readouterr()
    assert json.loads(out)["ok"] is True
    assert "xpu-smi was not found or gives no answer, so cards are called by their nodes" in err


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("pass", "root=/r\nname='their own'\n", "--container 'their own'"),
        ("pass", "root=/r\n", "--container NAME"),
        ("pass", "name='torn\n", "--container NAME"),
        (
            "adopted.json",
            '{"schema": 1, "id": "c0", "name": "vllm", "who": "ann", "at": 1}',
            "--container vllm",
        ),
    ],
)
def test_where_the_container_has_another_name_that_is_named(
    tmp_path: Path, name: str, line: str, told: str
) -> None:
    (tmp_path / name).write_text(line, "utf-8")
    adoption = None
    if name == "adopted.json":
        adoption = parse_adoption(Reply(0, line.encode(), b""))
    here = reaping.Here(root=str(tmp_path))
    seen = HostView(engine=None, container=None, adoption=adoption, cards_from="host")
    (text,) = reaping.unclear(here, seen)
    assert text.startswith("no container klops is here")
    assert text.endswith(told)
    assert reaping.unclear(here, replace(seen, container_error="no answer")) == []
