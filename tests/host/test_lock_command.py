"""``klops lock`` on a real host, reached in both ways, and what a run notes in the host's audit log."""

from __future__ import annotations

import getpass
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.errors import ChangedMeanwhile
from klops.remote.audit import LONGEST, RunNotes
from klops.remote.base import Remote
from klops.remote.local import LocalRemote
from klops.remote.lock import HostLock, LockOwner
from klops.remote.locklook import break_lock, look
from tests.host.sshd import Sshd, connection_to
from tests.host.support import Done, klops
from tests.host.test_remote_lock import Nobody
from tests.logged import logged
from tests.waiting import until

pytestmark = pytest.mark.host

DEAD = {"schema": 1, "who": "ada", "from": "desk", "run": "dead", "boot_id": "gone", "expires": 9, "taken": 0}
NOTES = RunNotes({"playbook": "up.yml"}, lambda: {"outcome": "done", "tasks": ["it's \\ $x"]})


def owner(run: str) -> LockOwner:
    return LockOwner("ada", "desk", run)


@pytest.fixture
def place(tmp_path: Path, sshd: Sshd) -> Path:
    """A root of klops, and an inventory beside it: ``far`` is this machine over ssh, ``near`` without."""
    there = connection_to(sshd)
    ssh = {
        "ansible_host": there.address,
        "ansible_port": there.port,
        "ansible_user": there.user,
        "ansible_ssh_private_key_file": there.private_key_file,
        "ansible_ssh_common_args": " ".join(there.common_args),
    }
    hosts = {"far": ssh, "near": {"ansible_connection": "local"}}
    root = tmp_path / "root"
    root.mkdir()
    variables = {"klops": {"root": str(root)}}
    # JSON is YAML
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    return root


def lock(root: Path, verb: str, *args: str) -> Done:
    return klops(
        "lock", verb, *args, "-i", str(root.parent / "hosts.yml"), env={"KLOPS_AUDIT": f"{root}.jsonl"}
    )


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def held(place: Path) -> Iterator[HostLock]:
    """The root is locked by run ``first``."""
    taken = HostLock(LocalRemote(), str(place), who=owner("first"), renewal=0.1)
    with taken:
        yield taken


def test_status_of_free_hosts_and_of_held_ones(place: Path) -> None:
    free = lock(place, "status", "all", "-o", "json")
    assert free.rc == 0, free.stderr
    assert free.json == {"ok": True, "hosts": {"far": {"lock": None}, "near": {"lock": None}}}
    assert list(place.iterdir()) == []
    with HostLock(LocalRemote(), str(place), who=owner("first")):
        found = lock(place, "status", "all", "-o", "json").json["hosts"]
        for name in ("far", "near"):
            shown = found[name]["lock"]
            assert (shown["who"], shown["from"], shown["run"]) == ("ada", "desk", "first")
            assert shown["alive"] is True
            assert 0 < shown["expires_in"] <= 60
        text = lock(place, "status", "near").stdout
        assert "near  held by ada on desk since " in text
        assert "run first), alive: expires in " in text
    (place / "lock").write_text(json.dumps(DEAD) + "\n")
    dead = lock(place, "status", "near", "-o", "json").json["hosts"]["near"]["lock"]
    assert (dead["alive"], dead["expires_in"], dead["why"]) == (False, None, "of another boot of the host")


@pytest.mark.parametrize("name", ["far", "near"])
def test_break_removes_whosever_it_is_and_notes_that(place: Path, held: HostLock, name: str) -> None:
    looked = lock(place, "break", name, "--check", "-o", "json")
    assert looked.json["hosts"][name]["outcome"] == "would be broken"
    assert (place / "lock").exists()
    asked = lock(place, "break", name)
    assert asked.rc == 2
    assert "--yes" in asked.stderr
    assert (place / "lock").exists()
    done = lock(place, "break", name, "--yes", "-o", "json")
    assert done.rc == 0, done.stdout
    assert done.json["hosts"][name]["lock"]["run"] == "first"
    assert [path.name for path in place.iterdir()] == ["audit.jsonl"]
    (line,) = lines(place / "audit.jsonl")
    assert (line["event"], line["who"], line["from"]) == (
        "lock-broken",
        getpass.getuser(),
        socket.gethostname(),
    )
    assert line["previous"]["run"] == "first"
    until(lambda: held.lost, timeout=10, what="the run finds out at its next renewal")
    again = lock(place, "break", name, "--yes", "-o", "json")
    assert (again.rc, again.json["hosts"][name]["error"]["code"]) == (1, "lock-free")
    # what this user was told is noted on the control side too
    told = [(line["event"], line.get("rc"), line.get("code")) for line in lines(Path(f"{place}.jsonl"))]
    assert told == [
        ("lock-break-begun", None, None),
        ("lock-break-ended", None, "confirmation-needed"),
        ("lock-break-begun", None, None),
        ("lock-break-ended", 0, None),
        ("lock-break-begun", None, None),
        ("lock-break-ended", None, "lock-free"),
    ]


def test_only_the_lock_that_was_shown_is_broken(remote: Remote, place: Path, held: HostLock) -> None:
    shown = look(remote, str(place))
    assert shown is not None
    held.release()
    with HostLock(LocalRemote(), str(place), who=owner("second")) as other:
        with pytest.raises(ChangedMeanwhile):
            break_lock(remote, str(place), shown, owner("breaker"))
        assert other.held
        assert sorted(path.name for path in place.iterdir()) == ["lock"]
    with pytest.raises(ChangedMeanwhile):
        break_lock(remote, str(place), shown, owner("breaker"))


def test_what_a_crash_left_empty_can_be_broken_and_what_is_no_lock_can_not(place: Path) -> None:
    (place / "lock").touch()
    assert lock(place, "break", "near", "--yes").rc == 0
    assert not (place / "lock").exists()
    (place / "lock").write_text("mine\n")
    done = lock(place, "break", "near", "--yes", "-o", "json")
    assert done.rc == 1
    assert f"rm {place}/lock" in done.json["hosts"]["near"]["error"]["hint"]
    assert (place / "lock").read_text() == "mine\n"


def test_a_run_notes_its_beginning_and_its_end(remote: Remote, place: Path) -> None:
    # what somebody's write left without its end spoils no line but its own
    (place / "audit.jsonl").write_text("half a li")
    with HostLock(remote, str(place), who=owner("first"), notes=NOTES) as taken:
        before = remote.commands_run
        taken.pause(1)
        (place / "lock").unlink()
        taken.resume()
        assert remote.commands_run == before + 2
    broken, *rest = (place / "audit.jsonl").read_text().splitlines()
    assert broken == "half a li"
    begun, ended = map(json.loads, rest)
    assert (begun["event"], begun["playbook"]) == ("run-begun", "up.yml")
    assert (ended["event"], ended["outcome"], ended["tasks"]) == ("run-ended", "done", ["it's \\ $x"])
    for line in (begun, ended):
        assert (line["by"], line["who"], line["from"], line["run"]) == ("klops", "ada", "desk", "first")
        assert abs(line["at"] - time.time()) < 60


def test_a_log_that_got_long_makes_room(place: Path) -> None:
    with (place / "audit.jsonl").open("wb") as file:
        file.truncate(LONGEST + 512)
    with HostLock(LocalRemote(), str(place), who=owner("first"), notes=NOTES):
        pass
    assert (place / "audit.jsonl.1").stat().st_size == LONGEST + 512
    assert [line["event"] for line in lines(place / "audit.jsonl")] == ["run-begun", "run-ended"]
    assert (place / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_log_of_the_agent_s_keeps_no_other_user_from_working() -> None:
    if os.geteuid() != 0:
        pytest.skip("takes a file of another user, which only root can make")
    # the folders of tmp_path are this user's alone
    with tempfile.TemporaryDirectory() as root:
        log = Path(root, "audit.jsonl")
        log.touch(0o600)
        Path(root).chmod(0o777)
        with (
            logged() as said_by_klops,
            HostLock(Nobody(), root, who=owner("first"), notes=NOTES) as taken,
        ):
            assert taken.held
        assert log.read_bytes() == b""
        # for the beginning and the end
        (said,) = said_by_klops
        assert (said["log_level"], said["file"]) == ("warning", str(log))
        assert [path.name for path in Path(root).iterdir()] == ["audit.jsonl"]
