"""A real vLLM is hit in every way it has been seen to be hit; one container for all of them.

After each blow: no orphan, no stale shared memory, ready again with a real completion, and never two
generations at once. KILL of the API server of one that serves is in tests/host/test_real_vllm.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.host.lanes import Lane
from tests.host.realvllm import real_lane
from tests.host.support import klops
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.real_vllm, pytest.mark.long, pytest.mark.timeout(900)]

#: Seconds that a load takes when it is to be hit.
LOAD = "12"


@pytest.fixture(scope="module")
def lane(make_rehearsal: MakeRehearsal, real_vllm: None) -> Iterator[Lane]:
    """A host whose real vLLM is ready."""
    with real_lane(make_rehearsal) as made:
        up = klops("up", made.host.name, "-i", str(made.inventory), "-o", "json", timeout=600)
        assert up.rc == 0, up.stdout[-3000:] + up.stderr[-3000:]
        yield made


def loading(lane: Lane) -> None:
    """Start it anew with a long load, and wait until it is in the middle of that."""
    slow = lane.host.directory.parent.parent / "shared" / "load-seconds"
    generation = lane.unit_status()["generation"]

    def in_the_load() -> bool:
        now = lane.unit_status()
        return now["generation"] > generation and len(lane.crowd().get("worker", [])) == 2 and lane.all_held()

    slow.write_text(LOAD, encoding="ascii")
    try:
        lane.command("restart")
        until(in_the_load, timeout=lane.patience, what="both workers load")
    finally:
        slow.unlink()  # the next one is quick again


def engine_of_stopped_workers(lane: Lane) -> None:
    lane.hit("worker", "STOP", every=True)
    lane.hit("engine", "KILL")


def api_while_loading(lane: Lane) -> None:
    loading(lane)
    lane.hit("api", "KILL")


def term_while_loading(lane: Lane) -> None:
    loading(lane)
    lane.hit("api", "TERM")


BLOWS: dict[str, Callable[[Lane], object]] = {
    "engine-killed": lambda lane: lane.hit("engine", "KILL"),
    "worker-killed": lambda lane: lane.hit("worker", "KILL"),
    "supervisor-killed": lambda lane: lane.hit("supervisor", "KILL"),
    "container-killed-and-started": lambda lane: lane.kill_container(0.5),
    "api-killed-while-loading": api_while_loading,
    "engine-killed-workers-stopped": engine_of_stopped_workers,
    "one-term-while-loading": term_while_loading,
    "launcher-killed": lambda lane: lane.hit("launcher", "KILL"),
}
#: What the server itself lives through.
UNHURT = ("supervisor-killed", "one-term-while-loading")


@pytest.mark.parametrize("blow", BLOWS)
def test_a_real_vllm_is_hit(lane: Lane, blow: str) -> None:
    with lane.trial(blow):
        before = lane.unit_status()
        BLOWS[blow](lane)
        hit = lane.unit_status()
        lane.note(f"generation {before['generation']} before, {hit['generation']} after the blow")
    after = lane.unit_status()
    if blow == "supervisor-killed":
        assert (after["cpid"], after["start"]) == (before["cpid"], before["start"])
    elif blow != "one-term-while-loading":
        assert after["generation"] > before["generation"]
    status = klops("status", lane.host.name, "-i", str(lane.inventory), "-o", "json")
    assert status.json["hosts"][lane.host.name]["orphans"] == 0
    assert lane.stale_after_reap() == []
