"""The look at an engine where the host opens few ssh sessions: one without a session tells nothing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from klops.remote import enginewatch, link
from klops.remote.base import Completed
from klops.remote.factory import open_remote
from tests.host.sshd import connection_to, start_sshd

pytestmark = pytest.mark.host


def test_a_look_that_waits_for_a_session_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enginewatch, "PATIENCE", 0.1)
    monkeypatch.setattr(enginewatch, "ANSWERS", (1.0, 1.0, 1.0))
    monkeypatch.setattr(link, "SESSION_WAIT", 0.5)
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "docker").write_text('#!/bin/sh\n[ "$1" = version ] || sleep "$2"\n')
    (fake / "docker").chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    daemon = start_sshd(tmp_path, extra_config=f"MaxSessions 2\nSetEnv PATH={path}")
    host = open_remote(connection_to(daemon))
    try:
        # reads, for which one look in vain is enough; a look gets its session when the shorter one ends
        places = [host.clone(), host.clone()]

        def ask(number: int) -> Completed:
            return places[number].run(["docker", "inspect", str(2 + 2 * number)], timeout=20)

        with ThreadPoolExecutor() as both:
            assert [done.rc for done in both.map(ask, range(2))] == [0, 0]
    finally:
        host.close()
        daemon.close()
