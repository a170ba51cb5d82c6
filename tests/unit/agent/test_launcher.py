"""The launcher outlives a start that fails."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

import pytest

from klops.agent import subreaper
from klops.agent.launcher import Launcher


def test_a_supervisor_that_cant_be_started_is_one_that_died(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = []

    def refuse(*given: Any, **_: Any) -> int:
        tries.append(given)
        if len(tries) == 3:
            os.kill(os.getpid(), signal.SIGTERM)  # while it is blocked: it has to arrive afterwards
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    monkeypatch.setattr(subreaper, "become", lambda: None)  # this process is to stay as it is
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        status = Launcher("/no/such/root", "/no/such.pyz").run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (len(tries), status) == (3, os.EX_OSERR)
    assert not {signal.SIGTERM, signal.SIGINT} & signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert "can't be started" in capsys.readouterr().err
