"""The lock where things go wrong: late renewals, guards left behind, disks without room, a pass at work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from klops.errors import ChangedMeanwhile, KlopsError, LockHeld
from klops.remote import lock as locks
from klops.remote import lockscripts
from klops.remote.base import DEFAULT_TIMEOUT, Completed
from klops.remote.local import LocalRemote
from klops.remote.lock import HostLock, LockOwner, parse_lock
from klops.remote.locklook import break_lock, look
from tests.latelinks import put_readlink
from tests.logged import logged
from tests.waiting import until

pytestmark = pytest.mark.host

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def fill(place: Path) -> None:
    """Leave no room there."""
    free = os.statvfs(place)
    with (place / "filler").open("wb") as filler:
        filler.write(b"x" * (free.f_bavail * free.f_frsize))
    assert os.statvfs(place).f_bavail == 0


def uptime() -> int:
    return int(float(Path("/proc/uptime").read_text().split()[0]))


def content(run: str, left: int) -> str:
    """A lock of this boot that expires in ``left`` seconds."""
    head = {"schema": 1, "who": "ada", "from": "desk", "run": run}
    return json.dumps({**head, "boot_id": BOOT, "expires": uptime() + left + 0.5, "taken": 1795966936}) + "\n"


def script(shell: Sequence[str], text: str, root: Path, *args: str) -> tuple[int, str]:
    """One of the lock's scripts; its status and what it complains of."""
    argv = [*shell, "-c", text, "klops-lock", str(root), *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr


def renew(shell: Sequence[str], root: Path) -> tuple[int, str]:
    head = json.dumps({"schema": 1, "who": "ada", "from": "desk", "run": "a"})[:-1]
    return script(shell, lockscripts.RENEW, root, head, "60", "a")


def owner(run: str) -> LockOwner:
    return LockOwner("ada", "desk", run)


def test_a_dead_lock_is_its_owner_s_only_behind_the_guard(shell: list[str], tmp_path: Path) -> None:
    lock, guard = tmp_path / "lock", tmp_path / "lock.takeover"
    guard.symlink_to(f"{BOOT}.{uptime()}")  # somebody is about to take it over
    for left in (-5, 5):
        lock.write_text(dying := content("a", left))
        assert renew(shell, tmp_path)[0] == lockscripts.HELD
        assert script(shell, lockscripts.RELEASE, tmp_path, "a", "")[0] == lockscripts.HELD
        assert lock.read_text() == dying
    # far from its end nobody else is after it
    lock.write_text(content("a", 40))
    assert renew(shell, tmp_path)[0] == 0
    guard.unlink()
    lock.write_text(content("a", -5))
    assert renew(shell, tmp_path)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert script(shell, lockscripts.RELEASE, tmp_path, "a", "")[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left_behind", ["other boot", "long ago", "the future", "no mark", "a folder"])
def test_a_guard_that_a_crash_left_is_nobody_s(shell: list[str], tmp_path: Path, left_behind: str) -> None:
    guard, future = tmp_path / "lock.takeover", time.time() + 10**7
    marks = {
        "other boot": f"gone.{uptime()}",
        "long ago": f"{BOOT}.{max(0, uptime() - 100)}",
        "the future": f"{BOOT}.{uptime() + 1000}",
        "no mark": "x",
    }
    if left_behind == "a folder":
        guard.mkdir()
    else:
        guard.symlink_to(marks[left_behind])
    os.utime(guard, (future, future), follow_symlinks=False)
    (tmp_path / "lock").write_text(content("a", -5))
    assert script(shell, lockscripts.BREAK, tmp_path, "a", "")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["audit.jsonl"] or not list(tmp_path.iterdir())


def test_of_two_that_find_a_guard_of_a_crash_the_second_leaves_the_first_s_alone(
    shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    guard, stale, fresh = root / "lock.takeover", "gone.5", f"{BOOT}.{uptime()}"
    put_readlink(tmp_path, guard, stale, fresh)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (root / "lock").write_text(dead := content("a", -5))
    guard.symlink_to(stale)
    assert script(shell, lockscripts.BREAK, root, "a", "")[0] == lockscripts.HELD
    assert str(guard.readlink()) == fresh
    assert (root / "lock").read_text() == dead
    assert {path.name for path in root.iterdir()} == {"lock", "lock.takeover"}


def test_whoever_is_after_the_lock_is_named_by_the_guard(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(content("a", -5))
    guard = tmp_path / "lock.takeover"
    guard.symlink_to(f"{BOOT}.{uptime()}")
    with pytest.raises(LockHeld, match="others are after the lock too") as held:
        HostLock(LocalRemote(), str(tmp_path), who=owner("b")).acquire()
    assert str(guard) in held.value.message
    found = look(LocalRemote(), str(tmp_path))
    assert found is not None
    with pytest.raises(ChangedMeanwhile) as changed:
        break_lock(LocalRemote(), str(tmp_path), found, owner("b"))
    assert str(guard) in changed.value.message


def test_without_room_a_lock_is_renewed_in_place(shell: list[str], small: Path) -> None:
    lock = small / "lock"
    long = content("a", 40).replace('"ada"', '"ada of a long name"')
    lock.write_text(long)
    fill(small)
    rc, said = renew(shell, small)
    assert rc == 0, said
    found = parse_lock(lock.read_text())
    assert found is not None
    assert found.expires > uptime() + 50
    assert {path.name for path in small.iterdir()} == {"lock", "filler"}


def test_without_room_a_new_lock_says_so(shell: list[str], small: Path) -> None:
    fill(small)
    rc, said = script(shell, lockscripts.ACQUIRE, small, '{"run": "a"', "60", "")
    assert rc == 74
    assert "No space left" in said
    assert {path.name for path in small.iterdir()} == {"filler"}


def test_a_root_that_is_mounted_read_only(shell: list[str], small: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    rc, said = script(shell, lockscripts.ACQUIRE, small, '{"run": "a"', "60", "")
    assert rc == 74
    assert "Read-only" in said


class Silent(LocalRemote):
    """A host whose clones get no session, as where other commands have them all."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._until_closed = ended

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> LocalRemote:
        return SilentClone(self._until_closed)


class SilentClone(LocalRemote):
    """Waits until it is closed."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._until_closed = ended

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float | None = DEFAULT_TIMEOUT,
        check: bool = True,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        self._until_closed.wait(60)
        raise KlopsError("ended")

    def close(self) -> None:
        self._until_closed.set()


def test_a_lock_that_can_t_be_renewed_is_lost_when_it_expires(tmp_path: Path) -> None:
    told: list[float] = []
    ended = threading.Event()
    began = time.monotonic()
    lock = HostLock(
        Silent(ended),
        str(tmp_path),
        who=owner("a"),
        on_lost=lambda _: told.append(time.monotonic()),
        lifetime=2,
        renewal=0.2,
    )
    lock.acquire()
    until(lambda: told, timeout=20, what="the loss is told")
    found = parse_lock((tmp_path / "lock").read_text())
    assert found is not None
    # it may be lost in truth from then on
    assert told[0] - began < 2 + 1
    assert not ended.is_set()
    assert isinstance(lock.lost, LockHeld)
    lock.release()


def test_a_run_waits_for_the_host_s_own_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PASS_PAUSE", 0.02)
    path = tmp_path / "lock"
    path.write_text(content("pass-1-2", 60))
    lock = HostLock(LocalRemote(), str(tmp_path), who=owner("a"))
    with logged() as said_by_klops:
        taking = threading.Thread(target=lock.acquire)
        taking.start()
        until(lambda: said_by_klops, what="it says that it waits")
        path.unlink()
        taking.join(20)
    assert lock.held
    lock.release()
    assert len(said_by_klops) == 1
    path.write_text(content("pass-1-2", 60))
    stopped = HostLock(LocalRemote(), str(tmp_path), who=owner("a"), cancelled=lambda: True)
    with pytest.raises(LockHeld, match="run pass-1-2"):
        stopped.acquire()
    monkeypatch.setattr(locks, "PASS_PATIENCE", 0.1)
    with pytest.raises(LockHeld, match="run pass-1-2"):
        HostLock(LocalRemote(), str(tmp_path), who=owner("a")).acquire()
