"""A real vLLM on the CPU with tensor parallelism 2: up, a request, kill -9 of the server, recovery, down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.lanes import Lane
from tests.host.realvllm import real_lane
from tests.host.support import get, klops, models
from tests.host.watch import holders
from tests.rehearsals import MakeRehearsal

pytestmark = [pytest.mark.host, pytest.mark.real_vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lane(make_rehearsal: MakeRehearsal, real_vllm: None) -> Iterator[Lane]:
    """A host with a real vLLM, watched from outside."""
    with real_lane(make_rehearsal) as made:
        yield made


def test_a_real_vllm_through_its_whole_life(lane: Lane) -> None:
    host = lane.host
    on = ["-i", str(lane.inventory), "-o", "json"]
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
    assert {h.name for h in holders(lane.cards)} == {"VLLM::Worker_TP"}

    with lane.trial("kill -9 of the API server"):
        lane.hit("api", "KILL")
    now = klops("status", host.name, *on).json["hosts"][host.name]
    after = now["services"][SERVICE]
    assert (after["state"], now["orphans"]) == ("ready", 0)
    assert after["pid"] != before["pid"]
    assert after["restarts"] == before["restarts"] + 1
    assert lane.stale_after_reap() == []

    down = klops("down", host.name, *on, timeout=300)
    assert down.rc == 0, down.stdout[-3000:] + down.stderr[-3000:]
    assert holders(lane.cards) == []
    assert lane.watch.doubles == []
