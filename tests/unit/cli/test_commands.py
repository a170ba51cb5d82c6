"""Commands as a user types them, on this machine as the host."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from klops.cli.main import run
from klops.cli.options import Common
from klops.cli.session import Session
from klops.errors import UsageError
from klops.inventory import load
from tests.unit.cli.conftest import KEY, LocalHost


def test_exec_ends_as_the_command_did_and_passes_output_through(host: LocalHost) -> None:
    host.container()
    rc, out, err = host.klops(
        "exec", "here", "--", "sh", "-c", "printf '%s|' \"$@\"; echo oops >&2; exit 7", "sh", "a b", "$x", "'"
    )
    assert (rc, out, err) == (7, "a b|$x|'|", "oops\n")


def test_exec_of_a_command_killed_by_a_signal(host: LocalHost) -> None:
    assert host.klops("exec", "--host", "here", "--", "sh", "-c", "kill -9 $$")[0] == 137


@pytest.mark.parametrize("state", ["", "exited"])
def test_exec_without_a_running_container_is_klops_own_failure(host: LocalHost, state: str) -> None:
    if state:
        host.container(state)
    rc, out, err = host.klops("exec", "here", "--", "true")
    assert (rc, out) == (125, "")
    assert "klops up here" in err


@pytest.mark.parametrize(
    "argv", [["exec"], ["exec", "here", "--nope", "--", "true"], ["exec", "nobody", "--", "true"]]
)
def test_wrong_usage_of_exec_is_125_too(host: LocalHost, argv: list[str]) -> None:
    assert host.klops(*argv)[0] == 125


def test_exec_in_json(host: LocalHost) -> None:
    host.container()
    rc, out, _ = host.klops("exec", "here", "-o", "json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert rc == 3
    assert '"stdout": "out\\n"' in out
    assert '"stderr": "err\\n"' in out
    assert '"ok": false' in out


def test_exec_in_check_mode_runs_nothing(host: LocalHost) -> None:
    rc, _, err = host.klops("exec", "--host", "here", "--check", "--", "touch", str(host.home / "made"))
    assert rc == 0
    assert "would run touch" in err
    assert not (host.home / "made").exists()


def test_exec_in_check_mode_as_json(host: LocalHost) -> None:
    rc, out, err = host.klops("exec", "here", "--check", "-o", "json", "--", "sh", "-c", "echo a")
    assert (rc, err) == (0, "")
    assert json.loads(out) == {"ok": True, "hosts": {"here": {"would_run": ["sh", "-c", "echo a"]}}}


def test_ps_joins_the_agents_view_with_the_pids_of_the_host(host: LocalHost) -> None:
    host.container()
    host.agent()
    rc, document = host.json("ps", "here")
    assert rc == 0, document
    processes = document["hosts"]["here"]["processes"]
    own = next(p for p in processes if p["cpid"] == os.getpid())
    assert set(own) >= {
        "pid",
        "cpid",
        "start",
        "ppid",
        "name",
        "title",
        "unit",
        "state",
        "rss_mib",
        "cards",
        "user",
    }
    rc, out, _ = host.klops("ps", "here")
    assert rc == 0
    assert "title" in out


def test_ps_without_an_agent_says_how_to_get_one(host: LocalHost) -> None:
    host.container()
    rc, document = host.json("ps", "here")
    assert rc == 1
    assert document["hosts"]["here"]["error"]["code"] == "agent"
    assert document["hosts"]["here"]["error"]["hint"] == "klops up here puts the agent there"


def test_logs_shows_the_last_lines_without_secrets(host: LocalHost) -> None:
    host.container()
    host.agent()
    folder = host.root / "log"
    folder.mkdir(parents=True)
    (folder / "tiny.log").write_text("".join(f"line {n}\n" for n in range(500)) + f"key is {KEY}\n", "utf-8")
    rc, out, err = host.klops("logs", "here", "-n", "2")
    assert (rc, out) == (0, "line 499\nkey is ********\n"), err
    rc, document = host.json("logs", "here", "--lines", "1")
    assert document["hosts"]["here"] == {"service": "tiny", "lines": ["key is ********"]}


def test_logs_of_a_service_that_is_not_there(host: LocalHost) -> None:
    rc, _, err = host.klops("logs", "here", "--service", "big")
    assert rc == 2
    assert "its services: tiny" in err


def test_restart_of_a_service_that_is_not_there_runs_nothing(host: LocalHost) -> None:
    rc, document = host.json("restart", "here", "--service", "tiny,big")
    assert (rc, document["error"]["code"]) == (2, "usage")
    assert "big" in document["error"]["message"]


def test_lines_and_since_exclude_each_other(host: LocalHost) -> None:
    rc, document = host.json("logs", "here", "--since", "10m", "-n", "2")
    assert (rc, document["error"]["code"]) == (2, "usage")


def test_follow_and_json_exclude_each_other(host: LocalHost) -> None:
    rc, document = host.json("logs", "here", "--follow")
    assert (rc, document["error"]["code"]) == (2, "usage")


def test_an_unknown_host_is_an_error_with_the_nearest_name(host: LocalHost) -> None:
    rc, _, err = host.klops("up", "heer")
    assert rc == 2
    assert "did you mean here?" in err


@pytest.mark.parametrize("command", ["up", "down", "restart", "status", "ps", "logs"])
def test_no_host_is_never_all_hosts(host: LocalHost, command: str) -> None:
    rc, _, err = host.klops(command)
    assert rc == 2
    assert "HOST" in err
    rc, _, _ = host.klops(command, "")
    assert rc == 2


def test_usage_errors_are_json_when_json_is_asked_for(host: LocalHost) -> None:
    rc, document = host.json("up", "here", "--no-such-option")
    assert rc == 2
    assert (document["ok"], document["error"]["code"]) == (False, "usage")


def test_mistakes_show_file_line_column_and_a_caret(host: LocalHost) -> None:
    (host.home / "hosts.yml").write_text("all:\n  hosts:\n    here:\n      klops: {contaner: {}}\n", "utf-8")
    rc, _, err = host.klops("up", "here")
    assert rc == 2
    assert "hosts.yml:4:15" in err
    assert "\n    4 |       klops: {contaner: {}}\n      |               ^\n" in err
    assert "container" in err
    rc, document = host.json("up", "here")
    (mistake,) = document["error"]["mistakes"]
    assert (mistake["line"], mistake["column"]) == (4, 15)


def test_recreate_with_a_playbook_that_has_no_use_for_it_runs_nothing(host: LocalHost) -> None:
    folder = host.home / "playbooks"
    folder.mkdir()
    own = folder / "up.yml"
    own.write_text("- hosts: all\n  tasks:\n    - command: touch ran\n    - klops.container: {}\n")
    rc, document = host.json("up", "here", "--recreate")
    assert (rc, document["error"]["code"]) == (2, "usage")
    assert str(own) in document["error"]["message"]
    assert not (host.home / "ran").exists()
    own.write_text(
        "- hosts: all\n  tasks:\n    - block:\n"
        "        - klops.container: {recreate: '{{ recreate }}'}\n          when: false\n"
    )
    assert host.json("up", "here", "--recreate")[0] == 0


def test_remove_asks_and_nobody_can_answer(host: LocalHost) -> None:
    rc, document = host.json("down", "here", "--remove")
    assert rc == 2
    assert document["error"]["code"] == "confirmation-needed"
    assert "--yes" in document["error"]["hint"]


def write_playbook(host: LocalHost, text: str) -> str:
    file = host.home / "play.yml"
    file.write_text(text, "utf-8")
    return str(file)


PLAY = """
- name: Two files
  hosts: all
  vars: {folder: FOLDER}
  tasks:
    - name: Write one
      copy: {dest: "{{ folder }}/one", content: "hello\\n", mode: "0600"}
      tags: [files]
      register: one
    - name: Say it
      debug: {msg: "{{ greeting | default('none') }}"}
      tags: [talk]
"""


def test_play_checks_changes_and_then_finds_nothing_to_do(host: LocalHost) -> None:
    file = write_playbook(host, PLAY.replace("FOLDER", str(host.home)))
    rc, out, _ = host.klops("play", file, "--check", "--diff", "--detailed-exitcode")
    assert rc == 3, out
    assert "+hello" in out
    assert not (host.home / "one").exists()
    rc, document = host.json("play", file, "-e", "greeting='good morning'")
    assert rc == 0, document
    assert (host.home / "one").read_text("utf-8") == "hello\n"
    assert document["recap"]["here"]["changed"] == 1
    assert document["hosts"] == {"here": {}}
    assert set(document) >= {"ok", "plays", "recap", "remote_commands", "seconds"}
    rc, document = host.json("play", file)
    assert document["recap"]["here"]["changed"] == 0


def test_play_lists_without_running(host: LocalHost) -> None:
    file = write_playbook(host, PLAY.replace("FOLDER", str(host.home)))
    rc, out, _ = host.klops("play", file, "--list-tasks", "--list-hosts", "--tags", "files")
    assert rc == 0
    assert [line.strip() for line in out.splitlines()] == [
        "play: Two files",
        "hosts (1):",
        "here",
        "tasks:",
        "Write one (copy)  [files]",
    ]
    rc, out, _ = host.klops("play", file, "--list-tags")
    assert (rc, out) == (0, "play: Two files\n  tags: files, talk\n")
    assert not (host.home / "one").exists()


def test_a_failing_play_exits_1_and_says_what_and_where(host: LocalHost) -> None:
    file = write_playbook(host, "- hosts: all\n  tasks:\n    - name: No\n      fail: {msg: not today}\n")
    rc, out, _ = host.klops("play", file)
    assert rc == 1
    assert "not today" in out
    assert out.rstrip().splitlines()[-1].startswith("failed: 1 of 1 host (here)")
    rc, document = host.json("play", file)
    assert document["hosts"]["here"]["error"]["message"] == "not today"


def test_a_playbook_that_is_not_there(host: LocalHost) -> None:
    assert host.klops("play", "none.yml")[0] == 2


def test_an_exception_nobody_expected_is_a_fault_of_klops(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"broken with {KEY}")

    monkeypatch.setattr("klops.remote.factory.open_remote", broken)
    rc, out, err = host.klops("ps", "here")
    assert (rc, out) == (1, "")
    assert "this is a fault of klops: RuntimeError: broken with ********" in err
    assert "Traceback" not in err
    rc, _, err = host.klops("ps", "here", "-v")
    assert "Traceback" in err
    assert KEY not in err
    rc, document = host.json("ps", "here")
    assert (rc, document["error"]["code"]) == (1, "internal")


def test_an_interrupt_is_130(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("klops.inventory.load", interrupted)
    for argv in (["ps", "here"], ["exec", "here", "--", "true"]):
        rc, _, err = host.klops(*argv)
        assert rc == 130
        assert "interrupted" in err


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(host: LocalHost, number: signal.Signals) -> None:
    kill = ["sh", "-c", f"kill -{int(number)} {os.getpid()}; echo on"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        rc, out, _ = host.klops("exec", "--host", "here", "--", *kill)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert (rc, out) == (0, "on\n")


def test_a_usage_error_ends_hosts_at_work_and_those_not_begun(host: LocalHost) -> None:
    inventory = host.home / "three.yml"
    local = {"ansible_connection": "local"}
    inventory.write_text(json.dumps({"all": {"hosts": {"a": local, "b": local, "c": local}}}), "utf-8")
    session = Session(Common(forks=1), load([str(inventory)]), {})
    begun = []

    def work(name: str) -> None:
        begun.append(name)
        if name == "a":
            raise UsageError("wrong")
        with session.remote(name) as remote:
            remote.run(["sleep", "985.31"])

    with pytest.raises(UsageError, match="wrong"):
        session.each(["a", "b", "c"], work)
    assert "c" not in begun


def test_version_and_help() -> None:
    assert run(["--version"]) == 0
    assert run(["--help"]) == 0
