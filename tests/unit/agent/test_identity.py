"""A signal reaches exactly the process that was meant, or nobody."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.audit import Audit
from klops.agent.processes import identity, procs
from klops.agent.trouble import Troubles


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process to signal."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_name_with_parentheses_and_blanks_is_read_to_its_last_parenthesis() -> None:
    rest = " ".join(["S", "7", "8", "9", *["0"] * 13, "3", "0", "4711", "0"])
    process = procs.parse_stat(f"42 (a) S 1 (b c)) {rest}".encode())
    assert process == procs.Process(42, 7, 8, 9, "S", 4711, "a) S 1 (b c)", 3)


def test_a_process_of_another_start_time_is_another(sleeper: subprocess.Popen[bytes]) -> None:
    mine = identity.of_pid(sleeper.pid)
    assert mine is not None
    assert identity.alive(mine)
    for other in (
        mine._replace(start=mine.start - 1),
        mine._replace(boot="00000000-0000-0000-0000-000000000000"),
        mine._replace(ns=mine.ns + 1),
    ):
        assert not identity.alive(other)
        assert identity.hold(other) is None
    assert sleeper.poll() is None


def test_nobody_holds_pid_1() -> None:
    init = identity.of_pid(1)
    assert init is not None
    assert identity.hold(init) is None


@pytest.mark.parametrize("wrappers", [True, False], ids=["of-python", "by-syscall"])
def test_a_signal_through_a_pidfd(
    sleeper: subprocess.Popen[bytes], wrappers: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not wrappers:
        monkeypatch.delattr(os, "pidfd_open", raising=False)  # 3.8 has neither
        monkeypatch.delattr(signal, "pidfd_send_signal", raising=False)
    who = identity.of_pid(sleeper.pid)
    assert who is not None
    handle = identity.hold(who)
    assert handle is not None
    assert handle.fd >= 0
    assert not os.get_inheritable(handle.fd)
    audit = Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles())
    assert audit.signal("llm", handle, "sleep", signal.SIGTERM, "to see") == "sent"
    assert sleeper.wait(10) == -signal.SIGTERM
    assert handle.send(signal.SIGTERM) == "gone"
    handle.close()
    line = (tmp_path / "audit.jsonl").read_text()
    assert '"signal":"SIGTERM","why":"to see","how":"pidfd","outcome":"sent"' in line
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_without_pidfd_the_identity_is_checked_again_and_the_audit_says_so(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(identity, "_pidfd_open", absent)
    who = identity.of_pid(sleeper.pid)
    assert who is not None
    handle = identity.hold(who)
    assert handle is not None
    assert "no pidfd" in handle.how
    stranger = identity.Handle(who._replace(start=who.start + 1), -1)
    assert stranger.send(signal.SIGKILL) == "gone"
    assert sleeper.poll() is None
    assert handle.send(signal.SIGTERM) == "sent"
    assert sleeper.wait(10) == -signal.SIGTERM


def test_a_process_whose_first_thread_has_ended_still_runs() -> None:
    assert procs.Process(9, 1, 9, 9, "Z", 90, "vllm", threads=2).alive
    assert not procs.Process(9, 1, 9, 9, "Z", 90, "vllm", threads=1).alive


def test_a_zombie_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    who = identity.of_pid(sleeper.pid)
    assert who is not None
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert procs.read(sleeper.pid) is not None
    assert not identity.alive(who)
    assert identity.hold(who) is None
