"""A real vLLM whose workers stand still: told as stalled, also where its own gauges say that it is idle."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.real_vllm, pytest.mark.long, pytest.mark.timeout(1500)]

#: Seconds until it is ready, on a machine that has other things to do.
PATIENCE = 400.0
EXTRA = {"klops": {"services": {SERVICE: {"stall_timeout": 12}}}}


class Place:
    """A rehearsal host with a real vLLM."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.host: RehearsalHost = rehearsal.hosts[0]

    def on(self, *words: str) -> Done:
        where = ["-i", str(self.rehearsal.inventory), "-o", "json", "-e", json.dumps(EXTRA)]
        done = klops(*words, self.host.name, *where, timeout=900)
        assert done.rc == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    def service(self) -> dict[str, Any]:
        found: dict[str, Any] = self.on("status").json["hosts"][self.host.name]["services"][SERVICE]
        return found

    def reaches(self, state: str, **health: Any) -> dict[str, Any]:
        """Wait until the service is in a state and its health says this."""

        def look() -> dict[str, Any] | None:
            found = self.service()
            return found if found["state"] == state and health.items() <= found["health"].items() else None

        return until(look, timeout=PATIENCE, what=f"{state} {health}")

    def workers(self) -> list[int]:
        """Pids of the service's workers, as the host has them."""
        processes = self.on("ps").json["hosts"][self.host.name]["processes"]
        return [p["pid"] for p in processes if p["unit"] == SERVICE and p["title"].startswith("VLLM::Worker")]

    def ask(self, tokens: int, over: threading.Event, answers: list[int]) -> None:
        """One completion after another, at least one; their statuses go to ``answers``."""
        answers.append(self.complete(tokens))
        while not over.is_set():
            answers.append(self.complete(tokens))

    def complete(self, tokens: int) -> int:
        """A completion; its status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.host.port, timeout=900)
        body = {"model": SERVED_NAME, "prompt": "1 2", "max_tokens": tokens, "ignore_eos": True}
        head = {"Authorization": f"Bearer {self.host.api_key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), head)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status


@pytest.fixture(scope="module")
def place(make_rehearsal: MakeRehearsal, real_vllm: None) -> Place:
    made = Place(make_rehearsal(hosts=1, transports=["local"], vllm="real"))
    made.on("up")
    return made


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes stand still, those that are meant and no others."""
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        for handle in handles:
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
        yield
    finally:
        for handle in handles:
            signal.pidfd_send_signal(handle, signal.SIGCONT)
            os.close(handle)


@pytest.mark.parametrize("when", ["busy", "idle"])
def test_stopped_workers_are_a_stall_and_nothing_is_ended_for_it(place: Place, when: str) -> None:
    before = place.reaches("ready", live=True, progress="idle")
    workers = place.workers()
    assert len(workers) == 2
    answers: list[int] = []
    over = threading.Event()
    if when == "idle":
        over.set()  # one each
    # of different lengths, so that at every moment at least one is in the middle
    asking = [threading.Thread(target=place.ask, args=(n, over, answers)) for n in (200, 150, 110)]
    try:
        if when == "busy":
            for thread in asking:
                thread.start()
            place.reaches("ready", progress="moving")
        with stopped(workers):
            if when == "idle":
                for thread in asking:
                    thread.start()
            stalled = place.reaches("unhealthy", ok=False, live=False, progress="stalled")
            said = "no request progresses: " if when == "busy" else "no completion is answered since"
            assert stalled["error"].startswith(said)
    finally:
        over.set()
    for thread in asking:
        thread.join(PATIENCE)
    assert set(answers) == {200}
    after = place.reaches("ready", live=True, progress="idle")
    assert (after["pid"], after["restarts"], after["error"]) == (before["pid"], before["restarts"], "")
