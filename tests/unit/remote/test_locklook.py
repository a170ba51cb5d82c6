"""A lock as ``klops lock status`` tells it: dead or alive, and why."""

from __future__ import annotations

import json

import pytest

from klops.errors import KlopsError, TaskFailed
from klops.remote.lock import LockInfo
from klops.remote.locklook import FoundLock, look
from klops.remote.reads import ABSENT, FileRead
from klops.testing import Call, FakeRemote, Reply, reply
from klops.ui.locks import lock_text

INFO = LockInfo("ada", "desk", "abc", "boot-1", 1000.5, 1795966936.0)


@pytest.mark.parametrize(
    ("found", "alive", "left", "why"),
    [
        (FoundLock(INFO, "boot-1", 958.0), True, 42.5, "expires in 42 s unless it is renewed"),
        (FoundLock(INFO, "boot-1", 1012.5), False, -12.0, "expired 12 s ago"),
        (FoundLock(INFO, "boot-2", 5.0), False, None, "of another boot of the host"),
        (
            FoundLock(None, "boot-1", 5.0),
            False,
            None,
            "the file is empty: it is being written, or its writer died",
        ),
    ],
)
def test_dead_or_alive_and_why(found: FoundLock, alive: bool, left: float | None, why: str) -> None:
    shown = found.as_json()
    assert (shown["alive"], shown["expires_in"], shown["why"]) == (alive, left, why)
    text = lock_text(shown)
    assert text.endswith(f"{'alive' if alive else 'dead'}: {why}")
    assert ("ada on desk since 2026-11-29 " in text) is (found.info is not None)


def host(lock: Reply | str) -> FakeRemote:
    fake = FakeRemote("h")

    def answer(call: Call) -> Reply | str:
        if isinstance(call.read, FileRead):
            return lock
        return "958.0 100.0\n" if "uptime" in call.text else "boot-1\n"

    return fake.on(lambda call: call.kind == "read", answer)


def test_looking_at_a_host() -> None:
    fake = host(json.dumps(INFO.as_json()) + "\n")
    assert look(fake, "/root") == FoundLock(INFO, "boot-1", 958.0)
    assert fake.commands_run == 1
    assert look(host(reply(rc=ABSENT)), "/root") is None
    assert lock_text(None) == "free"
    assert look(host(""), "/root") == FoundLock(None, "boot-1", 958.0)


def test_what_can_not_be_told_is_not_free() -> None:
    with pytest.raises(TaskFailed, match="can't be told: Permission denied") as caught:
        look(host(reply(rc=1, stderr="Permission denied")), "/root")
    assert "ansible_become" in caught.value.hint
    with pytest.raises(TaskFailed, match="not a lock of klops"):
        look(host("mine\n"), "/root")
    with pytest.raises(KlopsError, match="schema 2"):
        look(host('{"schema": 2}'), "/root")
