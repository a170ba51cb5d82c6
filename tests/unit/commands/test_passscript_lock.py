"""The scheduled pass beside runs of klops and other passes, as the shells of hosts run it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from klops.commands.hostpass import passscript
from klops.remote.lock import parse_lock
from tests.latelinks import put_readlink
from tests.unit.commands.passes import (
    BOOT,
    ID,
    SHELLS,
    Host,
    in_one_shell,
    lock,
    orphans,
)
from tests.waiting import until


@pytest.mark.parametrize(
    ("content", "living"),
    [
        (lambda: lock("", 60), True),
        (lambda: lock("", -2), False),
        (lambda: lock(BOOT, 10**6), False),
        (lambda: "", True),  # just being written
        (lambda: "not a lock\n", True),
    ],
    ids=["living", "expired", "other boot", "empty", "none"],
)
def test_a_living_lock_keeps_it_away_and_a_dead_one_is_taken_over(
    host: Host, content: Any, living: bool
) -> None:
    host.container("exited", error="failed")
    path = host.root / "lock"
    text = content()
    path.write_text(text)
    rc, _, err = host.go()
    assert (rc, err) == (0, "")
    if living:
        assert host.asked == []
        assert host.ended[0] == "skipped"
        assert host.ended[1].endswith("has the lock" if text else "another run is just taking the lock")
        assert path.read_text() == text
        assert host.left == {"lock"}
    else:
        assert ["start", ID] in host.asked
        assert host.left == set()
        taken, started = host.audit
        assert taken["event"] == "lock-taken-over"
        assert json.loads(taken["previous"]) == json.loads(text)
        assert started["event"] == "container-started"


@in_one_shell
def test_a_lock_that_a_crash_left_empty_is_dead_after_a_minute(host: Host) -> None:
    host.container("exited", error="failed")
    path = host.root / "lock"
    path.touch()
    guard = host.root / "lock.takeover"  # of that crash, too
    guard.symlink_to(f"{BOOT}.5")
    os.utime(path, (time.time() - 130, time.time() - 130))
    assert host.go()[0] == 0
    assert ["start", ID] in host.asked
    assert host.left == set()


def test_of_two_that_find_a_guard_of_a_crash_the_second_leaves_the_first_s_alone(host: Host) -> None:
    host.container("exited", error="failed")
    path, guard = host.root / "lock", host.root / "lock.takeover"
    path.write_text(dead := lock("", -2))
    guard.symlink_to(f"{BOOT}.5")
    boot, up = (Path("/proc", name).read_text() for name in ("sys/kernel/random/boot_id", "uptime"))
    fresh = f"{boot.strip()}.{int(float(up.split()[0]))}"
    put_readlink(host.fake, guard, f"{BOOT}.5", fresh)
    assert host.go()[0] == 0
    assert host.ended[0] == "skipped"
    assert str(guard.readlink()) == fresh
    assert path.read_text() == dead
    assert host.left == {"lock", "lock.takeover"}
    assert ["start", ID] not in host.asked


def test_two_at_once_and_how_klops_sees_the_one_that_acts(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    first = host.begin()
    until((host.fake / "waiting").exists, what="the first pass starts the container")
    # whoever klops works as on the host has to see whose it is
    assert (host.root / "lock").stat().st_mode & 0o777 == 0o644
    held = parse_lock((host.root / "lock").read_text())
    assert held is not None
    assert held.run.startswith(f"pass-{first.pid}-")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert not held.is_dead(boot, up)
    assert held.is_dead(boot, up + passscript.LIFETIME)
    count = len(host.asked)
    for _ in range(2):
        rc, out, err = host.go()
        assert (rc, err) == (0, "")
        assert host.ended == ("skipped", f"another pass is at work: process {first.pid}")
        assert host.ended[1] in out
    assert len(host.asked) == count
    (host.fake / "wait").unlink()
    assert first.wait(timeout=60) == 0
    assert host.did.count("start") == 1
    assert host.left == set()


@in_one_shell
def test_of_many_that_find_a_dead_lock_one_acts(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "lock").write_text(lock("", -2))
    (host.fake / "wait").touch()
    passes = [host.begin() for _ in range(8)]
    until(lambda: sum(one.poll() is None for one in passes) == 1, what="all but one have left")
    until((host.fake / "waiting").exists, what="one starts the container")
    (host.fake / "wait").unlink()
    assert [one.wait(timeout=60) for one in passes] == [0] * 8
    assert host.did.count("start") == 1
    assert host.left == set()


@in_one_shell
def test_a_run_that_takes_the_lock_meanwhile_is_left_alone(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    first = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    theirs = lock("", 60)
    (host.root / "lock").write_text(theirs)  # as a run does that found it dead
    (host.fake / "wait").unlink()
    assert first.wait(timeout=60) == 0
    assert (host.root / "lock").read_text() == theirs
    assert host.did[-1] == "start", "without the lock it does no more"


@in_one_shell
@pytest.mark.parametrize("change", ["recreation", "container"])
def test_what_a_run_does_before_the_lock_is_taken_counts(host: Host, change: str) -> None:
    host.container("exited", error="failed")
    line = f"{ID} running always clean made"
    (host.fake / "root").symlink_to(host.root)
    changes = {
        "recreation": ': >"$FAKE/root/recreation.json"',
        "container": f'echo "{line}" >"$FAKE/inspect"',
    }
    (host.fake / "after-inspect").write_text(changes[change] + "\n")
    assert host.go()[0] == 0
    assert host.ended[0] == {"recreation": "skipped", "container": "ok"}[change]
    assert "start" not in host.did
    assert host.left <= {"recreation.json"}


def test_row_G46_a_killed_pass_blocks_nobody(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    killed = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    assert (host.root / "pass.lock").is_symlink()
    killed.kill()
    killed.wait(timeout=60)
    # what it had begun lives on, and holds nothing: the lock is a name, which no child inherits
    assert (host.root / "lock").exists()
    assert (host.root / "pass.lock").is_symlink()
    (host.fake / "waiting").unlink()
    second = host.begin()
    until((host.fake / "waiting").exists, what="the next pass works at once")
    assert [line["event"] for line in host.audit] == ["lock-taken-over"]
    (host.fake / "wait").unlink()
    assert second.wait(timeout=60) == 0
    assert host.left == set()


@in_one_shell
def test_row_G46_locks_of_before_a_reboot_are_nobody_s(host: Host) -> None:
    host.container("exited", error="failed")
    own = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    (host.root / "pass.lock").symlink_to(f"{BOOT}.{os.getpid()}.{own}")
    (host.root / "lock").write_text(lock(BOOT, 600).replace('"abc"', f'"pass-{os.getpid()}-{own}"'))
    assert host.go()[0] == 0
    assert ["start", ID] in host.asked
    assert host.left == set()


def test_its_lock_says_who_it_is_whatever_that_is_called(host: Host) -> None:
    for tool, said in (("id", r"CORP\ali\"ce"), ("uname", r"host\1")):
        (host.fake / tool).write_text(f"#!/bin/sh\ncat <<'end'\n{said}\nend\n")
        (host.fake / tool).chmod(0o755)
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "after-run").write_text('[ ! -e "$FAKE/lock" ] || cp "$FAKE/lock" "$FAKE/seen"\n')
    (host.fake / "lock").symlink_to(host.root / "lock")
    assert host.go()[0] == 0
    seen = json.loads((host.fake / "seen").read_text())
    assert (seen["who"], seen["from"]) == (r"CORP\ali\"ce", r"host\1")


@in_one_shell
def test_row_G46_never_during_a_deploy(host: Host) -> None:
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "root").symlink_to(host.root)
    theirs = lock("", 60)
    (host.fake / "theirs").write_text(theirs)
    # the deploy begins while the pass looks
    (host.fake / "after-run").write_text('cp "$FAKE/theirs" "$FAKE/root/lock"\n')
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert "skipped: run abc of " in out
    assert host.did == ["inspect", "run", "exec"], "it looked, and ended nothing"
    assert (host.root / "lock").read_text() == theirs


@in_one_shell
def test_the_lock_is_renewed_while_a_reap_takes_its_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passscript, "NEAR", 0)
    monkeypatch.setattr(passscript, "LIFETIME", 2)
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    process = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    path = host.root / "lock"
    first = parse_lock(path.read_text())
    assert first is not None

    def renewed() -> bool:
        now = parse_lock(path.read_text())
        return now is not None and now.expires > first.expires + 1

    until(renewed, what="it is renewed")
    (host.fake / "wait").unlink()
    assert process.wait(timeout=60) == 0


@in_one_shell
def test_a_lock_that_can_t_be_written_is_nobody_s(host: Host) -> None:
    host.container("exited", error="failed")
    # as on a full disk: it isn't there, and can't be made
    (host.root / "lock").symlink_to(host.root / "nowhere" / "lock")
    assert host.go()[0] == 1
    assert host.ended == ("failed", f"the lock can't be written in {host.root}: is the disk full?")
    assert host.did == ["inspect"]


@in_one_shell
def test_a_lock_that_can_t_be_renewed_is_not_another_s(host: Host) -> None:
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "root").symlink_to(host.root)
    run = """run=$(sed -n 's/.*"run": "\\([^"]*\\)".*/\\1/p' "$FAKE/root/lock" 2>/dev/null)\n"""
    (host.fake / "after-inspect").write_text(run + '[ -z "$run" ] || mkdir "$FAKE/root/lock.$run"\n')
    assert host.go()[0] == 1
    assert host.ended == ("failed", f"the lock can't be renewed in {host.root}: is the disk full?")
    assert host.did == ["inspect", "run", "exec", "inspect"], "nothing was ended"
    assert not (host.root / "lock").exists()


@pytest.mark.parametrize("host", SHELLS[:2], ids=["dash", "bash"], indirect=True)
def test_a_pass_lock_that_can_t_be_made_is_no_other_pass(host: Host) -> None:
    for name in ("ln", "mv"):  # as on a full disk
        (host.fake / name).write_text("#!/bin/sh\nexit 1\n")
        (host.fake / name).chmod(0o755)
    assert host.go()[0] == 1
    assert host.ended == ("failed", f"{host.root}/pass.lock can't be made")
    assert host.did == []
