"""``klops reap`` in a container that somebody made by hand: what a unit left goes, and nothing else."""

from __future__ import annotations

import pytest

from klops.sim.layout import SERVICE
from tests.host.likenesses import Crowd
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def adopted(make_rehearsal: MakeRehearsal) -> Crowd:
    """A host whose adopted container had its service stopped."""
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    found = Crowd(rehearsal, rehearsal.hosts[0])
    found.make("--network=host", minors={minor: minor for minor in range(8)})
    found.done("up")
    found.done("down")
    return found


@pytest.mark.long
def test_an_orphan_on_record_is_ended_and_a_colleague_s_process_is_named(adopted: Crowd) -> None:
    made = adopted.id
    orphan = adopted.left("VLLM::Worker_TP0", node="/dev/xpu2")
    colleague = adopted.left("train", node="/dev/xpu3")
    try:
        adopted.put_on_record(orphan)
        done = adopted.reap()
        assert [(p["pid"], p["unit"], p["outcome"]) for p in done["processes"]] == [
            (orphan.pid, SERVICE, "gone")
        ]
        assert [p["pid"] for p in done["unowned"]] == [colleague.pid]
        assert not orphan.lives()
        assert colleague.lives()
        adopted.untouched(made)
    finally:
        orphan.kill()
        colleague.kill()
