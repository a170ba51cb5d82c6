"""Live is more than an answer on /health: requests that progress, stall or go on, by a supervisor."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.site import KEY, Site
from tests.waiting import until

BDF = "0000:03:00"
#: one line of xpu-smi -m: 32 fields, of which memory used, total and utilisation are 18th to 20th
ROW = " ".join(
    [f"{BDF}.0", "0", "x", "serial", *["0"] * 13, "1000", "98304", "{busy}", "0", '"P800 OAM"', *["0"] * 10]
)


class Load:
    """Requests that run beside the checks, until they are told to end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._threads: list[threading.Thread] = []
        self._connections: list[http.client.HTTPConnection] = []

    def ask(self, tokens: int) -> None:
        """Begin a streamed completion."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        body = json.dumps({"model": "tiny", "prompt": "a b", "max_tokens": tokens, "stream": True})
        # as bytes: header values that are text would be Latin-1
        head: dict[str, Any] = {"Authorization": f"Bearer {KEY}".encode()}
        connection.request("POST", "/v1/completions", body, head)
        thread = threading.Thread(target=self._read, args=(connection,))
        thread.start()
        self._threads.append(thread)
        self._connections.append(connection)

    @staticmethod
    def _read(connection: http.client.HTTPConnection) -> None:
        with suppress(OSError, http.client.HTTPException):  # its server may be ended first
            connection.getresponse().read()

    def end(self) -> None:
        """Wait for the answers."""
        for thread in self._threads:
            thread.join(120)
        for connection in self._connections:
            connection.close()


@contextmanager
def load(port: int) -> Iterator[Load]:
    made = Load(port)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def fault(tmp_path: Path) -> Callable[[str], None]:
    """Sets the fault of the stand-in, which reads a file for it."""

    def put(kind: str) -> None:
        beside = tmp_path / "faults.new"
        beside.write_text(json.dumps({"vllm": kind}))
        beside.replace(tmp_path / "faults.json")

    put("")
    return put


def spec(site: Site, folder: Path, token: float, **changes: Any) -> dict[str, Any]:
    """A service of the stand-in that takes ``token`` seconds a token and is called stalled after 1.5."""
    env = {"KLOPS_SIM_FAULTS": str(folder / "faults.json"), "KLOPS_SIM_TOKEN_SECONDS": str(token)}
    return site.spec(env=env, health={"interval": 0.2, "stall_timeout": 1.5}, **changes)


def page(port: int) -> str:
    """What /metrics says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def health_is(site: Site, **expected: Any) -> dict[str, Any]:
    """Wait until the unit's health says so; the whole unit."""

    def look() -> dict[str, Any] | None:
        unit = site.unit()
        return unit if expected.items() <= unit["health"].items() else None

    found: dict[str, Any] = until(look, what=f"health is {expected}")
    return found


def checks(site: Site, count: int, **expected: Any) -> None:
    """Look at so many further checks, each of which has to say this."""
    seen: set[float] = set()

    def look() -> bool:
        health = site.unit()["health"]
        if health["checked"] is not None:
            assert expected.items() <= health.items()
            seen.add(health["checked"])
        return len(seen) >= count

    until(look, what=f"{count} checks")


def test_a_stall_is_told_and_nothing_is_ended_for_it(
    held: Site, nodes: Path, tmp_path: Path, fault: Callable[[str], None]
) -> None:
    """Problem P1: /health is fine, cards idle, and no request goes on."""
    (held.devices / "xpu0").symlink_to(nodes / "xpu0")
    smi = tmp_path / "xpu-smi"
    smi.write_text(f"#!/bin/sh\ncat {tmp_path}/rows\n")
    smi.chmod(0o755)
    (tmp_path / "rows").write_text(ROW.format(busy=97) + "\n")
    card = {"index": 0, "minor": 0, "node": str(held.devices / "xpu0"), "bdf": BDF, "uuid": "", "serial": ""}
    wanted = spec(held, tmp_path, 0.02, cards=[card], smi=str(smi))
    held.start(wanted)
    unit = held.reaches("ready")
    assert health_is(held, progress="idle")["health"]["live"] is True
    with load(wanted["port"]) as requests:
        requests.ask(200)
        assert health_is(held, progress="moving")["state"] == "ready"
        fault("stall")
        stalled = held.reaches("unhealthy")
        assert stalled["error"].startswith("no request progresses: 1 running and 0 waiting")
        expected = {"ok": False, "live": False, "progress": "stalled"}
        assert expected.items() <= stalled["health"].items()
        requests.ask(1)  # one more is taken, and is no movement
        until(lambda: "2 running" in held.unit()["error"], what="the newest numbers are told")
        until(lambda: "cards are at 97 %" in held.unit()["error"], what="it is told that they work")
        checks(held, 2, problem=None, **expected)
        (tmp_path / "rows").write_text(ROW.format(busy=0) + "\n")
        idle = health_is(held, problem="P1", **expected)
        assert "while its cards are at 0 %: problem P1" in idle["error"]
        checks(held, 4, problem="P1", **expected)
        now = held.unit()
        assert (now["state"], now["generation"], now["cpid"]) == ("unhealthy", 1, unit["cpid"])
        fault("")
        again = held.reaches("ready")
        assert (again["cpid"], again["error"], again["restarts"]) == (unit["cpid"], "", 0)
    health_is(held, ok=True, live=True, progress="idle", problem=None)
    told = [(line["progress"], "P1" in line["why"]) for line in held.audit("progress")]
    assert told[0] == ("stalled", False)
    assert ("stalled", True) in told
    assert told[-1][0] in ("moving", "idle")
    assert any("no request progresses" in line["why"] for line in held.audit("state"))


def test_an_engine_that_hangs_while_it_says_that_it_is_idle_is_found(
    held: Site, tmp_path: Path, fault: Callable[[str], None]
) -> None:
    wanted = spec(held, tmp_path, 0.01)
    wanted["health"]["timeout"] = 1  # a question takes so long
    held.start(wanted)
    unit = held.reaches("ready")
    worker = next(m["cpid"] for m in unit["lineage"] if m["name"].startswith("VLLM::Worker"))
    before = page(wanted["port"])
    checks(held, 12, ok=True, live=True, progress="idle")
    assert page(wanted["port"]) == before, "as long as nobody is connected nobody asks"
    os.kill(worker, signal.SIGSTOP)
    try:
        with load(wanted["port"]) as requests:
            requests.ask(1)
            stalled = held.reaches("unhealthy")
            assert stalled["error"].startswith("no completion is answered since")
            assert {"live": False, "progress": "stalled"}.items() <= stalled["health"].items()
            assert 'num_requests_running{engine="0",model_name="tiny"} 0.0' in page(wanted["port"])
            os.kill(worker, signal.SIGCONT)
            again = held.reaches("ready")
            assert (again["cpid"], again["restarts"], again["error"]) == (unit["cpid"], 0, "")
    finally:
        os.kill(worker, signal.SIGCONT)


def test_a_busy_engine_is_live_however_slow(held: Site, tmp_path: Path, fault: Callable[[str], None]) -> None:
    wanted = spec(held, tmp_path, 0.5)
    held.start(wanted)
    unit = held.reaches("ready")
    with load(wanted["port"]) as requests:
        for _ in range(16):
            requests.ask(8)
        health_is(held, progress="moving")
        checks(held, 8, ok=True, live=True, progress="moving", problem=None)
    now = health_is(held, progress="idle")
    assert (now["cpid"], now["restarts"]) == (unit["cpid"], 0)


def test_the_first_of_several_failures_is_what_is_told(
    held: Site, tmp_path: Path, fault: Callable[[str], None]
) -> None:
    fault("crash-on-load")
    held.start(spec(held, tmp_path, 0.01, restart={"limit": 1, "delay": 2, "max_delay": 2}))
    held.reaches("backoff")
    fault("")
    (held.model / "config.json").rename(held.model / "away.json")  # the second try fails of another thing
    failed = held.reaches("failed")
    assert "(2 failure(s)" in failed["error"]
    first = "RuntimeError: stand-in: crash-on-load"
    assert failed["error"].endswith(f"first error in the log of the first failure: {first}")
    assert failed["first_log"][-1].endswith(first)
    assert any("HFValidationError" in line for line in failed["log"])
    assert not any("HFValidationError" in line for line in failed["first_log"])
    (held.model / "away.json").rename(held.model / "config.json")
    held.verb("restart", "llm")
    ready = held.reaches("ready")
    assert (ready["error"], ready["first_log"], ready["restarts"]) == ("", [], 0)
