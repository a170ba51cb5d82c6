"""The lock on a real host: one holder at a time, renewed, taken over when dead, never somebody else's."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from klops.errors import CommandFailed, KlopsError, LockHeld
from klops.remote.base import Remote
from klops.remote.local import LocalRemote, ProcessPipes
from klops.remote.lock import HostLock, LockOwner, parse_lock
from tests.logged import logged
from tests.waiting import until

pytestmark = pytest.mark.host


def owner(run: str) -> LockOwner:
    return LockOwner("ada", "desk", run)


def test_one_holder_at_a_time(remote: Remote, tmp_path: Path) -> None:
    root = str(tmp_path / "new" / "root")
    with HostLock(remote, root, who=owner("first")):
        found = parse_lock(Path(root, "lock").read_text())
        assert found is not None
        assert (found.who, found.origin, found.run) == ("ada", "desk", "first")
        assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        with pytest.raises(LockHeld, match="run first"):
            HostLock(LocalRemote(), root, who=owner("second")).acquire()
    assert list(Path(root).iterdir()) == []
    HostLock(remote, root, who=owner("second")).release()


def test_one_machine_by_two_names_is_locked_once_by_a_run(tmp_path: Path) -> None:
    first, second = (HostLock(LocalRemote(), str(tmp_path), who=owner("run")) for _ in range(2))
    first.acquire()
    second.acquire()
    with pytest.raises(LockHeld):
        HostLock(LocalRemote(), str(tmp_path), who=owner("other")).acquire()
    second.release()
    assert (tmp_path / "lock").exists()
    first.release()
    assert list(tmp_path.iterdir()) == []


def test_it_outlives_a_restart_that_did_not_come(tmp_path: Path) -> None:
    lock = HostLock(LocalRemote(), str(tmp_path), who=owner("run"), lifetime=2, renewal=0.3)
    lock.acquire()

    def left() -> float:
        found = parse_lock((tmp_path / "lock").read_text())
        assert found is not None
        return found.expires - float(Path("/proc/uptime").read_text().split()[0])

    lock.pause(100)
    assert left() > 90
    lock.resume()
    assert left() < 3
    renewed = (tmp_path / "lock").stat().st_mtime_ns
    until(lambda: (tmp_path / "lock").stat().st_mtime_ns > renewed, timeout=5, what="it is renewed again")
    assert not (tmp_path / "audit.jsonl").exists()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_somebody_who_took_it_during_a_restart_keeps_it(tmp_path: Path) -> None:
    lock = HostLock(LocalRemote(), str(tmp_path), who=owner("run"))
    lock.acquire()
    lock.pause(100)
    # the next boot came, and another run was quicker
    (tmp_path / "lock").unlink()
    with HostLock(LocalRemote(), str(tmp_path), who=owner("other")):
        with pytest.raises(LockHeld, match="run other"):
            lock.resume()
        lock.release()
        assert (tmp_path / "lock").exists()


def test_it_is_renewed_beside_a_running_command(remote: Remote, tmp_path: Path) -> None:
    with HostLock(remote, str(tmp_path), who=owner("a"), lifetime=2, renewal=0.3) as lock:
        remote.run(["sleep", "3"])
        with pytest.raises(LockHeld):
            HostLock(LocalRemote(), str(tmp_path), who=owner("b")).acquire()
        assert lock.held


@pytest.mark.parametrize("change", [{"boot_id": "another"}, {"expires": 1.0}])
def test_a_dead_one_is_taken_over_and_that_is_noted(tmp_path: Path, change: dict[str, object]) -> None:
    lock = HostLock(LocalRemote(), str(tmp_path), who=owner("old"))
    lock.acquire()
    content = json.loads((tmp_path / "lock").read_text()) | change
    lock.release()
    (tmp_path / "lock").write_text(json.dumps(content) + "\n")
    with HostLock(LocalRemote(), str(tmp_path), who=owner("new")):
        audit = json.loads((tmp_path / "audit.jsonl").read_text())
        assert (audit["event"], audit["run"], audit["previous"]["run"]) == ("lock-taken-over", "new", "old")
        found = parse_lock((tmp_path / "lock").read_text())
        assert found is not None
        assert found.run == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["audit.jsonl"]


def test_many_after_a_dead_one_and_one_has_it(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(
        json.dumps(
            {
                "schema": 1,
                "who": "x",
                "from": "y",
                "run": "dead",
                "boot_id": "gone",
                "expires": 1e9,
                "taken": 0,
            }
        )
        + "\n"
    )
    locks = [HostLock(LocalRemote(), str(tmp_path), who=owner(f"run{n}")) for n in range(6)]

    def attempt(lock: HostLock) -> bool:
        try:
            lock.acquire()
        except LockHeld:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, locks)) == 1
    (winner,) = (lock for lock in locks if lock.held)
    winner.release()
    assert [p.name for p in tmp_path.iterdir()] == ["audit.jsonl"]


def test_a_lock_lost_in_the_middle_is_reported(tmp_path: Path) -> None:
    told: list[KlopsError] = []
    heard = threading.Event()

    def lost(why: KlopsError) -> None:
        told.append(why)
        heard.set()

    lock = HostLock(LocalRemote(), str(tmp_path), who=owner("a"), on_lost=lost, renewal=0.2)
    lock.acquire()
    text = (tmp_path / "lock").read_text().replace('"run": "a"', '"run": "b"')
    (tmp_path / "lock").write_text(text)
    assert heard.wait(5)
    assert "took the lock over" in told[0].message
    assert not lock.held
    lock.release()
    assert (tmp_path / "lock").read_text() == text


def test_a_file_left_empty_by_a_crash(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with pytest.raises(LockHeld):
        HostLock(LocalRemote(), str(tmp_path), who=owner("a")).acquire()
    long_ago = time.time() - 200
    os.utime(tmp_path / "lock", (long_ago, long_ago))
    HostLock(LocalRemote(), str(tmp_path), who=owner("a")).acquire()


def test_an_audit_file_that_can_t_be_written_does_not_keep_a_dead_lock_alive(
    remote: Remote, tmp_path: Path
) -> None:
    dead = {"schema": 1, "who": "x", "from": "y", "run": "dead", "boot_id": "gone", "expires": 9, "taken": 0}
    (tmp_path / "lock").write_text(json.dumps(dead) + "\n")
    # root may write any file, but no folder
    (tmp_path / "audit.jsonl").mkdir()
    with logged() as said_by_klops, HostLock(remote, str(tmp_path), who=owner("new")) as lock:
        assert lock.held
        found = parse_lock((tmp_path / "lock").read_text())
        assert found is not None
        assert found.run == "new"
    (line,) = said_by_klops
    assert line["log_level"] == "warning"
    assert "audit.jsonl" in line["why"]
    assert line["previous"]["run"] == "dead"
    assert [p.name for p in tmp_path.iterdir()] == ["audit.jsonl"]


def test_what_is_no_lock_is_left_to_its_owner(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine\n")
    with pytest.raises(LockHeld, match="not a lock of klops") as caught:
        HostLock(LocalRemote(), str(tmp_path), who=owner("a")).acquire()
    assert f"rm {tmp_path}/lock" in caught.value.hint
    assert (tmp_path / "lock").read_text() == "mine\n"


def test_a_place_that_can_t_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandFailed, match="can't be written"):
        HostLock(LocalRemote(), str(tmp_path / "file" / "root"), who=owner("a")).acquire()


class Nobody(LocalRemote):
    """This machine for a user who owns nothing on it."""

    def _open(self, argv: Sequence[str]) -> ProcessPipes:
        rights = ["--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        return super()._open(["setpriv", *rights, "--", *argv])


@pytest.mark.parametrize("mode", [0o555, 0o1777])
def test_a_dead_one_that_this_user_may_not_remove(mode: int) -> None:
    if mode == 0o1777 and os.geteuid() != 0:
        pytest.skip("takes a file of another user, which only root can make")
    # the folders of tmp_path are this user's alone
    with tempfile.TemporaryDirectory() as root:
        dead = {"schema": 1, "who": "x", "from": "y", "run": "d", "boot_id": "gone", "expires": 9, "taken": 0}
        Path(root, "lock").write_text(json.dumps(dead) + "\n")
        Path(root).chmod(mode)
        with pytest.raises(CommandFailed, match="can't be written") as caught:
            HostLock(Nobody(), root, who=owner("new")).acquire()
        assert "may write" in caught.value.hint
        assert [p.name for p in Path(root).iterdir()] == ["lock"]
