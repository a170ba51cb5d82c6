"""The lock of the host as the agent takes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import identity
from klops.agent.reaping import hostlock
from klops.agent.reaping.hostlock import HostLock
from klops.agent.trouble import Troubles

BOOT = identity.here()[0]


def uptime() -> float:
    """Seconds since this machine's boot."""
    return float(Path("/proc/uptime").read_text().split()[0])


def lock_of(root: Path, run: str = "") -> HostLock:
    """A lock that isn't taken yet."""
    return HostLock(str(root), run, Audit(str(root / "audit.jsonl"), "a test", Troubles()))


def write(root: Path, run: str, left: float, boot: str = BOOT) -> str:
    """Somebody's lock with so many seconds left; what stands in it."""
    head = {"schema": 1, "who": "ann", "from": "her-laptop", "run": run, "boot_id": boot}
    text = json.dumps({**head, "expires": uptime() + left, "taken": 1}) + "\n"
    (root / "lock").write_text(text)
    return text


def content(root: Path) -> Any:
    """What stands in the lock."""
    return json.loads((root / "lock").read_text())


def test_it_is_made_whole_and_goes_away_again(tmp_path: Path) -> None:
    with lock_of(tmp_path) as lock:
        found = content(tmp_path)
        assert list(found) == ["schema", "who", "from", "run", "boot_id", "expires", "taken"]
        assert (found["run"], found["boot_id"]) == (lock.run, BOOT)
        assert 80 < found["expires"] - uptime() <= hostlock.LIFETIME
        # runs of klops wait a while for a scheduled pass
        assert lock.run.startswith("pass-")
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == []


def test_somebodys_lock_is_respected_and_named(tmp_path: Path) -> None:
    text = write(tmp_path, "r1", 30)
    with pytest.raises(VerbError, match=r"ann on her-laptop \(run r1\) has the host's lock") as caught:
        lock_of(tmp_path).__enter__()
    assert caught.value.code == "host-locked"
    assert (tmp_path / "lock").read_text() == text


@pytest.mark.parametrize(("left", "boot"), [(-1.0, BOOT), (30.0, "another-boot")])
def test_a_dead_one_is_taken_over_and_that_is_noted(tmp_path: Path, left: float, boot: str) -> None:
    text = write(tmp_path, "r1", left, boot)
    with lock_of(tmp_path) as lock:
        assert content(tmp_path)["run"] == lock.run
    note = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (note["event"], note["previous"]) == ("lock-taken-over", text.strip())
    assert [path.name for path in tmp_path.iterdir()] == ["audit.jsonl"]


def test_one_left_empty_by_a_crash_counts_once_it_is_old(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    with pytest.raises(VerbError, match="somebody is taking the host's lock"):
        lock_of(tmp_path).__enter__()
    before = lock.stat().st_mtime - hostlock.EMPTY - 1
    os.utime(lock, (before, before))
    with lock_of(tmp_path) as mine:
        assert content(tmp_path)["run"] == mine.run


def test_a_file_that_is_no_lock_is_nobodys_to_remove(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("keep out\n")
    with pytest.raises(VerbError, match="has the host's lock"):
        lock_of(tmp_path).__enter__()
    assert (tmp_path / "lock").read_text() == "keep out\n"


def test_a_dead_one_is_left_to_whoever_is_after_it_already(tmp_path: Path) -> None:
    text = write(tmp_path, "r1", -1)
    guard = tmp_path / "lock.takeover"
    guard.symlink_to(f"{BOOT}.{int(uptime()) - 2}")
    with pytest.raises(VerbError):
        lock_of(tmp_path).__enter__()
    assert (tmp_path / "lock").read_text() == text
    # a guard that a crash has left is nobody's after a while, nor is one of another boot
    for stale in (f"{BOOT}.{int(uptime()) - hostlock.GUARDED - 2}", f"another-boot.{int(uptime())}"):
        write(tmp_path, "r1", -1)
        guard.unlink(missing_ok=True)
        guard.symlink_to(stale)
        with lock_of(tmp_path):
            assert not guard.is_symlink()


def test_the_lock_of_a_run_is_enough_and_stays(tmp_path: Path) -> None:
    text = write(tmp_path, "r1", 30)
    with lock_of(tmp_path, "r1") as lock:
        lock.confirm()
        write(tmp_path, "r2", 30)
        with pytest.raises(VerbError, match="r2"):
            lock.confirm()
        (tmp_path / "lock").write_text(text)
    assert (tmp_path / "lock").read_text() == text
    write(tmp_path, "r1", -1)
    with pytest.raises(VerbError):
        lock_of(tmp_path, "r1").__enter__()
    (tmp_path / "lock").unlink()
    with pytest.raises(VerbError, match="there is none"):
        lock_of(tmp_path, "r1").__enter__()


def test_it_is_renewed_before_each_round_and_a_loss_is_seen(tmp_path: Path) -> None:
    with lock_of(tmp_path) as lock:
        write(tmp_path, lock.run, 30)
        lock.confirm()
        assert content(tmp_path)["expires"] - uptime() > 80
        # nearly dead it is renewed behind the guard, and not while somebody else has that
        text = write(tmp_path, lock.run, 5)
        guard = tmp_path / "lock.takeover"
        guard.symlink_to(f"{BOOT}.{int(uptime())}")
        with pytest.raises(VerbError):
            lock.confirm()
        assert (tmp_path / "lock").read_text() == text
        guard.unlink()
        lock.confirm()
        theirs = write(tmp_path, "r1", 30)
        with pytest.raises(VerbError, match="r1"):
            lock.confirm()
    assert (tmp_path / "lock").read_text() == theirs


def test_a_folder_where_no_lock_can_be_made_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(VerbError) as caught:
        lock_of(tmp_path / "missing").__enter__()
    assert caught.value.code == "lock-failed"


def test_of_two_that_find_a_stale_guard_the_second_leaves_the_firsts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "r1", -1)
    guard, fresh = tmp_path / "lock.takeover", f"{BOOT}.{int(uptime())}"
    guard.symlink_to("another-boot.5")
    read = os.readlink

    def late(path: str) -> str:
        found = read(path)
        if found == "another-boot.5" and path == str(guard):
            guard.unlink()
            guard.symlink_to(fresh)  # the first has just put its own there
        return found

    monkeypatch.setattr(os, "readlink", late)
    with pytest.raises(VerbError):
        lock_of(tmp_path).__enter__()
    assert read(guard) == fresh
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "lock.takeover"]
