"""The scheduled pass as the shells of hosts run it: what it brings back, and what it leaves to be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from klops.commands.agent import hold, verb
from klops.commands.hostpass import passscript
from tests.unit.commands.passes import (
    ID,
    NAME,
    PYTHON,
    Host,
    in_one_shell,
    lock,
)
from tests.waiting import until


def test_nothing_to_do_is_told_in_a_line_and_leaves_nothing(host: Host) -> None:
    host.nothing()
    assert host.did == ["inspect", "run", "exec"]
    assert host.asked[0][-1] == NAME
    assert host.left == set()
    assert host.audit == []


def test_a_failed_start_is_repeated_once_the_nodes_are_there(host: Host) -> None:
    host.container("exited", error="failed")
    host.node.unlink()
    host.nothing(f"container {NAME}: device nodes of it are missing")
    assert host.did == ["inspect"]
    host.node.touch()
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert NAME in out
    assert ["start", ID] in host.asked
    (line,) = host.audit
    assert line["event"] == "container-started"
    assert (line["container"], line["id"], line["by"]) == (NAME, ID, "pass")
    assert abs(line["at"] - time.time()) < 60
    assert host.left == set()
    again = len(host.did)
    host.nothing()
    assert host.did[again:] == ["inspect", "run", "exec"]


@pytest.mark.parametrize("args", [["--help"], ["--log", "x"], [""]])
def test_words_that_it_does_not_know_are_refused_before_anything_is_done(host: Host, args: list[str]) -> None:
    rc, out, err = host.go(*args)
    assert (rc, out) == (2, "")
    assert err.startswith("usage: sh ")
    assert host.did == []
    assert {path.name for path in host.root.iterdir()} <= {"pass", "adopted.json"}


@in_one_shell
def test_a_container_without_devices_needs_none(host: Host) -> None:
    host.container("created", error="failed")
    lines = (host.fake / "inspect").read_text().splitlines()
    (host.fake / "inspect").write_text("\n".join(lines[:2]) + "\n")
    assert host.go()[0] == 0
    assert ["start", ID] in host.asked


@in_one_shell
@pytest.mark.parametrize(
    ("state", "policy", "error", "made", "told"),
    [
        ("exited", "always", "clean", "made", "stopped by hand, left alone"),
        ("exited", "no", "failed", "made", "its restart policy is no, left alone"),
        ("created", "always", "clean", "made", "never started, left alone"),
        ("exited", "always", "failed", "other", "not klops', left alone"),
        ("running", "always", "clean", "other", "not klops', left alone"),
        ("paused", "always", "failed", "made", "paused, left alone"),
        ("restarting", "always", "failed", "made", "restarting, left alone"),
        ("dead", "always", "failed", "made", "dead, left alone"),
    ],
)
def test_what_is_left_alone(host: Host, state: str, policy: str, error: str, made: str, told: str) -> None:
    host.container(state, policy=policy, error=error, made=made)
    host.nothing(f"container {NAME}: {told}")
    assert host.did == ["inspect"]


@in_one_shell
def test_a_container_whose_id_begins_like_the_name_is_another_one(host: Host) -> None:
    host.container("exited", error="failed", name="another")
    host.nothing(f"container {NAME}: there is none")
    assert host.did == ["inspect"]


@in_one_shell
def test_no_container(host: Host) -> None:
    (host.fake / "inspect").unlink()
    host.nothing(f"container {NAME}: there is none")


@in_one_shell
def test_a_recreation_is_left_to_the_next_up(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "recreation.json").write_text("{}")
    assert host.go()[0] == 0
    assert host.ended == ("skipped", "the container is just being made anew")
    assert host.asked == []


def test_an_adopted_container_gets_its_supervisor(host: Host) -> None:
    host.container("running", policy="no", made="other")
    host.adopt()
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert NAME in out
    inside = verb((), ID, PYTHON, str(host.root), "status")
    assert inside in host.asked
    (started,) = [words for words in host.asked if words[:2] == ["exec", "-d"]]
    assert started[2:5] == [ID, "sh", "-c"]
    assert started[6] == f"{host.root}/log/launcher.log"
    assert started[7:] == hold(PYTHON, str(host.root), beside=True)
    assert [line["event"] for line in host.audit] == ["supervisor-started"]
    count = len(host.did)
    host.nothing()
    assert host.did[count:] == ["inspect", "exec", "run", "exec"]


@in_one_shell
def test_an_adopted_container_is_known_by_its_id(host: Host) -> None:
    host.container("running", made="other")
    host.adopt("d" * 64)
    host.nothing(f"container {NAME}: not klops', left alone")
    assert host.did == ["inspect"]


@in_one_shell
def test_an_adopted_container_whose_start_failed_gets_both(host: Host) -> None:
    host.container("exited", error="failed", made="other")
    host.adopt()
    assert host.go()[0] == 0
    assert [line["event"] for line in host.audit] == ["container-started", "supervisor-started"]


@in_one_shell
def test_a_supervisor_that_does_not_come_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passscript, "WAIT", 1)
    host.container("running", made="other")
    host.adopt()
    (host.fake / "deaf").touch()
    rc, out, err = host.go()
    assert (rc, out) == (1, "")
    assert "does not answer" in err
    assert host.left == {"pass.last"}


@in_one_shell
def test_an_agent_that_can_t_be_asked(host: Host) -> None:
    host.container("running", made="other")
    host.adopt()
    (host.fake / "status").write_text("something else\n")
    rc, _, err = host.go()
    assert rc == 1
    assert "can't be asked" in err
    assert "exec -d" not in host.did


def test_the_same_trouble_is_noted_once(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "refuse").write_text('Error: port "80" \\ is \x1b[1mtaken\nError: failed to start\n')
    rc, _, err = host.go()
    assert rc == 1
    assert err.count("\n") == 1
    assert 'port "80" \\ is [1mtaken Error: failed to start' in err
    assert host.go()[0] == 1
    (line,) = host.audit
    assert line["event"] == "container-not-started"
    assert 'port "80" \\ is' in line["error"]
    (host.fake / "refuse").unlink()
    assert host.go()[0] == 0
    assert host.left == set()


@in_one_shell
def test_a_message_that_is_cut_is_not_cut_within_a_character(host: Host) -> None:
    if host.shell[0] == "busybox":  # with the tools that come with such a shell
        for tool in ("tr", "cut", "sed"):
            (host.fake / tool).symlink_to(str(shutil.which("busybox")))
    host.container("exited", error="failed")
    said = "没有空间了é🂡"
    for more in range(len(said.encode())):
        (host.fake / "refuse").write_text("x" * more + said * 60)
        assert host.go()[0] == 1
    for line in (host.root / "pass.jsonl").read_bytes().splitlines():
        why = json.loads(line.decode())["why"]
        assert 300 - 3 <= len(why.encode()) <= 300
        # nothing but the broken end is missing
        assert why.rstrip(said).rstrip("x").endswith("does not start: ")
    assert all("没有空间了" in line["error"] for line in host.audit)


def test_an_audit_log_that_can_t_be_written(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "audit.jsonl").mkdir()
    rc, _, err = host.go()
    assert rc == 0
    assert json.loads(err[err.index("{") :])["event"] == "container-started"


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM"], ids=["ends", "ignores TERM"])
def test_a_docker_that_hangs_is_left_in_time(
    host: Host, monkeypatch: pytest.MonkeyPatch, stubborn: str
) -> None:
    monkeypatch.setattr(passscript, "ASK", 1)
    monkeypatch.setattr(passscript, "GRACE", 0)
    (host.fake / "hang").write_text(stubborn + "\n")
    rc, out, err = host.go()
    assert (rc, out) == (1, "")
    assert "no answer within 1 s" in err
    assert not Path("/proc", (host.fake / "pid").read_text().strip()).exists()
    assert err.count("\n") == 1
    assert host.left == {"pass.last"}


def test_ended_in_the_middle_it_leaves_neither_lock_nor_docker(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    process = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[:1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert not Path("/proc", child).exists()
    assert host.left == set()


@in_one_shell
def test_numbers_for_a_node_exporter(host: Host) -> None:
    host.nothing()
    (path,) = (host.root / "metrics").iterdir()
    assert path.name == "klops_pass.prom"
    assert path.stat().st_mode & 0o777 == 0o644
    label = str(host.root).replace('"', r"\"")
    lines = dict(line.rsplit(" ", 1) for line in path.read_text().splitlines() if line[0] != "#")
    assert lines[f'klops_pass_outcome{{root="{label}",outcome="ok"}}'] == "1"
    assert lines[f'klops_pass_outcome{{root="{label}",outcome="failed"}}'] == "0"
    assert abs(int(lines[f'klops_pass_timestamp_seconds{{root="{label}"}}']) - time.time()) < 60


@in_one_shell
def test_row_G46_logs_stay_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passscript, "LONGEST", 300)
    (host.root / "lock").write_text(lock("", 600))  # the shortest way through
    for _ in range(12):
        assert host.go("--log") == (0, "", "")
    for name in ("log/pass.log", "pass.jsonl"):
        old, new = host.root / f"{name}.1", host.root / name
        assert max(old.stat().st_size, new.stat().st_size) < 1000
    log = host.root / "log" / "pass.log"
    assert log.read_text().count("skipped") >= 1
    assert log.stat().st_mode & 0o777 == 0o600
    assert {one["outcome"] for one in host.records} == {"skipped"}


@in_one_shell
def test_what_killed_passes_left_is_removed(host: Host) -> None:
    own = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    (host.root / "metrics").mkdir()
    gone = [".pass.4194400.out", "lock.pass-4194400-7", f"lock.pass-{os.getpid()}-7"]
    gone.append("metrics/klops_pass.prom.4194400")  # no pid is that large
    living = [f".pass.{os.getpid()}.err", f"lock.pass-{os.getpid()}-{own}"]
    living.append(f"metrics/klops_pass.prom.{os.getpid()}")
    for name in (*gone, *living):
        (host.root / name).touch()
    host.nothing()
    assert not [name for name in gone if (host.root / name).exists()]
    assert not [name for name in living if not (host.root / name).exists()]


@in_one_shell
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_as_such(host: Host) -> None:
    host.go()
    # what a pass writes to is named by its pid
    link = 'ln -s /dev/full "$0/.pass.$$.out"; exec "$@"'
    argv = ["sh", "-c", link, str(host.root), *host.shell, str(host.root / "pass")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert host.ended == ("failed", f"nothing can be written in {host.root}: is the disk full?")
    assert host.left == set()
