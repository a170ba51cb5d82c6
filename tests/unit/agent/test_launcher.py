"""The launcher outlives a start that fails."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from klops.agent.processes import subreaper
from klops.agent.supervision.launcher import Launcher


def test_a_supervisor_that_cant_be_started_is_one_that_died(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = []

    def refuse(*given: Any, **_: Any) -> int:
        tries.append(given)
        if len(tries) == 3:
            # while it is blocked, here: it has to arrive afterwards
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
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


def test_its_signal_to_the_supervisor_is_a_line(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "agent").mkdir(parents=True)
    # a supervisor that only waits; the launcher starts it with its own interpreter
    (root / "agent" / "current").write_text(
        "import os, signal, time\nprint('up', flush=True)\ntime.sleep(300)\n"
    )
    text = (
        "import sys; from klops.agent.supervision.launcher import Launcher;"
        "sys.exit(Launcher(sys.argv[1], sys.argv[1]).run())"
    )
    with subprocess.Popen([sys.executable, "-c", text, str(root)], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"up\n"
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=20) == 128 + signal.SIGTERM
    (line,) = map(json.loads, (root / "audit.jsonl").read_text().splitlines())
    assert (line["by"], line["signal"], line["outcome"]) == (f"launcher {launcher.pid}", "SIGTERM", "sent")
