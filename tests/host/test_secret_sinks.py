"""The API key, with quotes, spaces and `$` in it, is nowhere but where it has to be."""

from __future__ import annotations

import base64
import json
import os
import shlex
import stat
import subprocess
import threading
import urllib.parse
from pathlib import Path

import pytest

from klops.sim.layout import SERVED_NAME
from tests.host.support import klops, models
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


class CommandLines(threading.Thread):
    """Samples every command line and process title on this machine until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self.rounds = 0
        self._stop_it = threading.Event()

    def run(self) -> None:
        while not self._stop_it.wait(0.005):
            self.rounds += 1
            for entry in os.scandir("/proc"):
                if entry.name.isdigit():
                    for name in ("cmdline", "comm"):
                        try:
                            self.seen.add(Path(entry.path, name).read_bytes())
                        except OSError:
                            continue  # it ended while we looked

    def stop(self) -> None:
        self._stop_it.set()
        self.join()


def spellings(secret: str) -> set[bytes]:
    """How the key could turn up: raw, quoted for a shell, escaped for JSON, in a URL, in base64."""
    texts = {
        secret,
        shlex.quote(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        urllib.parse.quote(secret),
        urllib.parse.quote_plus(secret),
        base64.b64encode(secret.encode()).decode().rstrip("="),
    }
    return {t.encode() for t in texts}


@pytest.mark.parametrize("transport", ["ssh", pytest.param("local", marks=pytest.mark.long)])
def test_no_sink_holds_the_key(make_rehearsal: MakeRehearsal, transport: str, tmp_path: Path) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=[transport])
    host = rehearsal.hosts[0]
    secret = host.api_key
    assert {" ", '"', "'", "$"} <= set(secret)
    needles = spellings(secret)
    inventory = ["-i", str(rehearsal.inventory)]
    lines = CommandLines()
    lines.start()
    sinks: dict[str, bytes] = {}
    log = tmp_path / "audit.jsonl"

    def keep(*argv: str) -> None:
        done = klops(*argv, *inventory, env={"KLOPS_AUDIT": str(log)})
        sinks[f"klops {' '.join(argv)}"] = done.stdout.encode() + done.stderr.encode()
        assert done.rc == 0, done.stderr

    keep("up", host.name, "--check", "--diff", "-vv")
    keep("up", host.name, "--diff", "-vv")
    assert models(host.port, secret) == [SERVED_NAME]
    keep("up", host.name, "-o", "json", "-vv")
    keep("status", host.name, "-o", "json", "-vv")
    keep("ps", host.name, "-o", "json")
    keep("logs", host.name)
    keep("restart", host.name, "--diff", "-vv")
    keep("inventory", "list")
    keep("inventory", "explain", host.name, "klops.services.llm.api_key")
    lines.stop()
    assert lines.rounds > 50
    sinks["command lines and titles"] = b"\n".join(lines.seen)
    sinks["audit log of this user"] = log.read_bytes()
    assert b"run-ended" in sinks["audit log of this user"]

    assert rehearsal.engine is not None
    docker = ["docker", *(["-H", rehearsal.engine.host] if rehearsal.engine.host else [])]
    for argv in (["inspect", host.container], ["logs", host.container]):
        done = subprocess.run([*docker, *argv], capture_output=True, check=True)
        sinks["docker " + argv[0]] = done.stdout + done.stderr
    for path in host.root.rglob("*"):
        if path.is_file():
            private = not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            # one file has to hold it, for its owner alone
            if not (private and path.name.endswith(".secret.json")):
                sinks[str(path.relative_to(host.root))] = path.read_bytes()
    assert "audit.jsonl" in sinks
    assert any(name.startswith("log/") for name in sinks)

    found = {name: needle for name, content in sinks.items() for needle in needles if needle in content}
    assert found == {}
    assert klops("down", host.name, *inventory).rc == 0
