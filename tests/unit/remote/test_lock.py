"""The lock's rule, and what is read from its file."""

from __future__ import annotations

import json

import pytest

from klops.errors import CommandFailed, KlopsError, LockHeld
from klops.remote.base import Reply
from klops.remote.lock import HostLock, LockInfo, LockOwner, parse_lock, read_lock
from klops.testing import FakeRemote, reply

INFO = LockInfo("ada", "desk", "abc", "boot-1", 1000.5, 1795966936.0)


def test_dead_or_alive() -> None:
    assert not INFO.is_dead("boot-1", 1000.4)
    assert INFO.is_dead("boot-1", 1000.5)
    assert INFO.is_dead("boot-2", 1.0)


def test_there_and_back() -> None:
    assert parse_lock(json.dumps(INFO.as_json())) == INFO
    assert read_lock(Reply(0, json.dumps(INFO.as_json()).encode())) == INFO
    assert read_lock(Reply(44)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": "x"}'])
def test_what_is_no_lock(text: str) -> None:
    assert parse_lock(text) is None


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(KlopsError, match="schema 2"):
        parse_lock('{"schema": 2}')


def test_a_held_lock_names_its_holder() -> None:
    said = f"boot-1 940.5\n{json.dumps(INFO.as_json())}\n"
    host = FakeRemote("h").on("klops-lock", reply(said, rc=17))
    with pytest.raises(LockHeld, match=r"ada on desk .*since 2026-11-29 .*run abc.*expires in 60 s"):
        HostLock(host, "/root", who=LockOwner("me", "here", "run")).acquire()


def test_a_root_that_can_t_be_written() -> None:
    host = FakeRemote("h").on("klops-lock", reply(rc=73, stderr="mkdir: Permission denied"))
    with pytest.raises(CommandFailed, match="Permission denied") as caught:
        HostLock(host, "/root", who=LockOwner("me", "here", "run")).acquire()
    assert "klops.root" in caught.value.hint


@pytest.mark.parametrize("said", ["cat: write error: No space left on device", "mkdir: Disk quota exceeded"])
def test_a_full_disk_is_no_matter_of_rights(said: str) -> None:
    host = FakeRemote("h").on("klops-lock", reply(rc=74, stderr=said))
    with pytest.raises(CommandFailed, match=said) as caught:
        HostLock(host, "/root", who=LockOwner("me", "here", "run")).acquire()
    assert caught.value.hint == "make room on the disk that /root is on"
