"""The agent's clean-up and the runs of klops exclude one another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.reaping.hostlock import HostLock
from klops.agent.trouble import Troubles
from klops.remote import lockscripts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent runs on Linux")

HEAD = json.dumps({"schema": 1, "who": "ann", "from": "her-laptop", "run": "r1"})[:-1]


def script(text: str, root: Path, *args: str) -> int:
    """Exit status of one of the scripts."""
    argv = ["sh", "-c", text, "klops-lock", str(root), *args]
    return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode


def lock_of(root: Path, run: str = "") -> HostLock:
    """The agent's."""
    return HostLock(str(root), run, Audit(str(root / "audit.jsonl"), "a test", Troubles()))


def test_a_run_does_not_get_the_lock_of_a_clean_up(tmp_path: Path) -> None:
    with lock_of(tmp_path) as lock:
        assert script(lockscripts.ACQUIRE, tmp_path, HEAD, "60", "") == lockscripts.HELD
        assert script(lockscripts.RENEW, tmp_path, HEAD, "60", "r1") == lockscripts.NOT_OURS
        # what the scripts look for in it
        assert script(lockscripts.RENEW, tmp_path, HEAD, "60", lock.run) == 0
        assert json.loads((tmp_path / "lock").read_text())["run"] == "r1"
        assert script(lockscripts.RELEASE, tmp_path, "r1", "") == 0
    assert script(lockscripts.ACQUIRE, tmp_path, HEAD, "60", "") == 0


def test_a_clean_up_does_not_get_the_lock_of_another_run_but_works_under_its_own(tmp_path: Path) -> None:
    assert script(lockscripts.ACQUIRE, tmp_path, HEAD, "60", "") == 0
    with pytest.raises(VerbError, match="ann on her-laptop"):
        lock_of(tmp_path).__enter__()
    with pytest.raises(VerbError):
        lock_of(tmp_path, "r2").__enter__()
    with lock_of(tmp_path, "r1") as lock:
        assert script(lockscripts.RENEW, tmp_path, HEAD, "60", "r1") == 0
        lock.confirm()
        assert script(lockscripts.RELEASE, tmp_path, "r1", "") == 0
        with pytest.raises(VerbError):
            lock.confirm()


def test_an_expired_lock_of_a_run_is_taken_over_once(tmp_path: Path) -> None:
    assert script(lockscripts.ACQUIRE, tmp_path, HEAD, "0", "") == 0
    with lock_of(tmp_path) as lock:
        assert json.loads((tmp_path / "lock").read_text())["run"] == lock.run
        assert script(lockscripts.RENEW, tmp_path, HEAD, "60", "r1") == lockscripts.NOT_OURS
    assert not (tmp_path / "lock").exists()
