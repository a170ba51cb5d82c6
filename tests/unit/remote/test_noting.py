"""The script that ends a command on a host: each signal is a line in the host's audit log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from klops.errors import CommandTimeout
from klops.remote.base import ReadOnlyRemote
from klops.remote.local import LocalRemote, ProcessPipes
from klops.remote.reads import CommandRead
from klops.remote.script import Identity, end_script


def start_of(pid: int) -> int:
    """Start ticks."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
@pytest.mark.parametrize("text", ["exec sleep 300", "trap '' TERM; sleep 300; sleep 300"])
def test_each_signal_is_a_line(tmp_path: Path, shell: str, text: str) -> None:
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    log = tmp_path / "audit.jsonl"
    with subprocess.Popen(
        ["sh", "-c", f"echo on; {text}"], stdout=subprocess.PIPE, start_new_session=True
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == b"on\n"
        who = Identity(it.pid, it.pid, start_of(it.pid))
        # reaped at once: who is noted after the signal has no entry in /proc any more
        reaper = threading.Thread(target=it.wait)
        reaper.start()
        subprocess.run(words, input=end_script(who, str(log)), check=True, stdout=subprocess.DEVNULL)
        reaper.join()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    expected = ["SIGTERM", "SIGKILL"] if "trap" in text else ["SIGTERM"]
    assert [line["signal"] for line in lines] == expected
    assert {(line["pid"], line["start"], line["outcome"]) for line in lines} == {(who.pid, who.start, "sent")}
    assert lines[0]["how"] == "kill: identity of its shell checked just before"
    assert all("its group" in line["how"] for line in lines[1:])


def test_a_pid_that_is_another_s_by_now_gets_no_signal_and_no_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        who = Identity(stranger.pid, stranger.pid, start_of(stranger.pid) + 1)
        subprocess.run(["sh"], input=end_script(who, str(log)), check=True)
        assert stranger.poll() is None
        stranger.kill()
    assert not log.exists()


def test_a_command_that_is_ended_in_time_leaves_its_line(tmp_path: Path) -> None:
    remote = LocalRemote("h1", audit_log=str(tmp_path / "audit.jsonl"))
    with pytest.raises(CommandTimeout, match="was ended"):
        remote.clone().run(["sleep", "300"], timeout=0.2)
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert line["signal"] == "SIGTERM"
    assert time.time() - 60 < line["at"] <= time.time()


def test_a_dry_run_ends_its_own_command_and_leaves_the_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    remote = ReadOnlyRemote(LocalRemote("h1", audit_log=str(tmp_path / "audit.jsonl")))
    with pytest.raises(CommandTimeout, match="was ended"):
        remote.clone().read([CommandRead("slow", ("cat", str(tmp_path / "fifo")))], timeout=0.2)
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["signal"], line["why"]) == ("SIGTERM", "a command of klops is to end")


def test_a_local_shell_that_outlives_its_end_leaves_its_line_too(tmp_path: Path) -> None:
    remote = LocalRemote("h1", audit_log=str(tmp_path / "audit.jsonl"))
    pipes = remote._open(["sleep", "300"])
    assert isinstance(pipes, ProcessPipes)
    pid = pipes._process.pid
    start = start_of(pid)
    pipes.close()
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["pid"], line["start"], line["signal"], line["outcome"]) == (pid, start, "SIGKILL", "sent")
    assert line["how"] == "kill: a child of its own, not reaped yet"


def test_what_may_not_be_signalled_is_not_called_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a command under sudo: its shell is another user's."""

    def forbidden(*_: int) -> None:
        raise PermissionError(1, "not permitted")

    remote = LocalRemote("h1", audit_log=str(tmp_path / "audit.jsonl"))
    # at the end of its input it ends by itself, a moment later
    pipes = remote._open(["sh", "-c", "read -r _; sleep 1"])
    assert isinstance(pipes, ProcessPipes)
    monkeypatch.setattr("klops.remote.local.os.killpg", forbidden)
    pipes.close()
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert line["outcome"] == "refused"
