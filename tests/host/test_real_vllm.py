"""A real vLLM on the CPU with tensor parallelism 2: up, a request, kill -9 of the server, recovery, down."""

from __future__ import annotations

import os
import signal

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.support import get, klops, models
from tests.host.watch import GenerationWatch, device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.real_vllm, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("real_vllm")
def test_a_real_vllm_through_its_whole_life(make_rehearsal: MakeRehearsal) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"], vllm="real")
    host = rehearsal.hosts[0]
    on = ["-i", str(rehearsal.inventory), "-o", "json"]
    cards = device_numbers(host.device_dir)

    with GenerationWatch(cards, host.root) as watch:
        up = klops("up", host.name, *on, timeout=600)
        assert up.rc == 0, up.stdout[-3000:] + up.stderr[-3000:]
        before = up.json["hosts"][host.name]["services"][SERVICE]
        assert before["state"] == "ready"
        assert before["tp"] == 2
        assert models(host.port, host.api_key) == [SERVED_NAME]
        assert models(host.port, None) == 401
        asked = {"model": SERVED_NAME, "prompt": "hello", "max_tokens": 4}
        status, answer = get(host.port, "/v1/completions", host.api_key, asked)
        assert status == 200
        assert answer["usage"]["completion_tokens"] == 4
        assert {h.name for h in holders(cards)} == {"VLLM::Worker_TP"}

        handle = os.pidfd_open(before["pid"])
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)

        def ready_again() -> object:
            now = klops("status", host.name, *on).json["hosts"][host.name]["services"][SERVICE]
            return now if now["state"] == "ready" and now["pid"] != before["pid"] else None

        after = until(ready_again, timeout=300, what="ready again after kill -9 of the API server")
        assert isinstance(after, dict)
        assert after["restarts"] == before["restarts"] + 1
        status, _ = get(host.port, "/v1/completions", host.api_key, asked)
        assert status == 200

        down = klops("down", host.name, *on, timeout=300)
        assert down.rc == 0, down.stdout[-3000:] + down.stderr[-3000:]
        assert holders(cards) == []
    assert watch.doubles == []
