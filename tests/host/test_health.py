"""Health of a service as operators see it: a stall is told, nothing is ended; what a start failed of."""

from __future__ import annotations

import http.client
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

EXTRA = {"klops": {"services": {SERVICE: {"stall_timeout": 2, "restart": {"limit": 1, "delay": 1}}}}}


@pytest.fixture(scope="module")
def place(make_rehearsal: MakeRehearsal) -> tuple[Rehearsal, RehearsalHost]:
    """A bare host."""
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    return rehearsal, rehearsal.hosts[0]


def on(rehearsal: Rehearsal, *words: str, form: str = "json") -> Done:
    return klops(*words, "-i", str(rehearsal.inventory), "-o", form, "-e", json.dumps(EXTRA))


def put_fault(rehearsal: Rehearsal, kind: str) -> None:
    """The fault of all its servers from now on."""
    path: Path = rehearsal.shared / "faults.json"
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({**json.loads(path.read_text()), "vllm": kind}))
    beside.replace(path)


def complete(host: RehearsalHost) -> int:
    """A completion that may take long; its status."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=240)
    body = json.dumps({"model": SERVED_NAME, "prompt": "a", "max_tokens": 4})
    connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {host.api_key}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.long
def test_a_start_that_fails_again_and_again_tells_the_first_error_and_its_lines(
    place: tuple[Rehearsal, RehearsalHost],
) -> None:
    rehearsal, host = place
    put_fault(rehearsal, "crash-on-load")
    done = on(rehearsal, "up", host.name)
    assert done.rc == 1
    told = done.stdout + done.stderr
    assert "2 failure(s); no further tries until it is started by hand" in told
    assert "first error in the log of the first failure: RuntimeError: stand-in: crash-on-load" in told
    assert "lines of its first failure" in told
    put_fault(rehearsal, "")
    again = on(rehearsal, "restart", host.name)
    assert again.rc == 0, again.stdout + again.stderr
    service = on(rehearsal, "status", host.name).json["hosts"][host.name]["services"][SERVICE]
    assert (service["state"], service["error"]) == ("ready", "")


@pytest.mark.long
def test_requests_that_stall_are_told_by_status_and_up_and_nothing_is_ended(
    place: tuple[Rehearsal, RehearsalHost],
) -> None:
    """Problem P1."""
    rehearsal, host = place
    assert on(rehearsal, "up", host.name).rc == 0

    def service() -> dict[str, Any]:
        found: dict[str, Any] = on(rehearsal, "status", host.name).json["hosts"][host.name]["services"]
        return dict(found[SERVICE])

    before = service()
    assert before["health"]["live"] is True
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(complete(host)))
    put_fault(rehearsal, "stall")
    asking.start()
    try:
        stalled = until(
            lambda: (found := service())["state"] == "unhealthy" and found, what="the stall is found"
        )
        assert {"ok": False, "live": False, "progress": "stalled"}.items() <= stalled["health"].items()
        assert (stalled["pid"], stalled["restarts"]) == (before["pid"], before["restarts"])
        said = on(rehearsal, "status", host.name, form="text")
        # beside that request those of the supervisor's own that it has sent to see for itself
        assert re.search(r"no request progresses: \d+ running", " ".join((said.stdout + said.stderr).split()))
        up = on(rehearsal, "up", host.name)
        assert up.rc == 1
        assert f"{SERVICE} stalls: no request progresses" in up.stdout + up.stderr
    finally:
        put_fault(rehearsal, "")
        asking.join(240)
    assert answers == [200], "it was left alone, and its request came to its end"
    after = until(lambda: (found := service())["state"] == "ready" and found, what="it is ready again")
    assert (after["pid"], after["error"]) == (before["pid"], "")
