"""A driver that is stuck: an open that never returns keeps nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.processes import procs
from tests.sim.agent.site import Site, alive
from tests.sim.agent.stucknode import StuckNode
from tests.waiting import until

CARD = {"index": 3, "minor": 5, "node": "/dev/xpu5", "bdf": "", "uuid": "", "serial": ""}


def looks(thread: int) -> bool:
    """Whether a thread only looks at nodes: the main one of a supervisor does, and of this process."""
    words = procs.slurp(f"/proc/{thread}/cmdline").split(b"\0")
    leads = f"\nTgid:\t{thread}\n".encode() in procs.slurp(f"/proc/{thread}/status")
    return thread == os.getpid() or (leads and b"supervise" in words)


@pytest.fixture
def stuck(nodes: Path, tmp_path: Path) -> Iterator[StuckNode]:
    """A node whose opens don't return."""
    try:
        node = StuckNode(tmp_path / "stuck", nodes / "xpu5", looks)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    yield node
    node.close()


def waiting() -> list[int]:
    """Processes one of whose threads waits for such a node."""
    found = set()
    for pid in procs.pids():
        for where in Path(f"/proc/{pid}/task").glob("*/wchan"):
            if b"request_wait_answer" in procs.slurp(str(where)):
                found.add(pid)
    return sorted(found)


def test_the_supervisor_ends_and_another_one_serves(site: Site, stuck: StuckNode) -> None:
    hold = site.hold(beside=True)
    first = site.supervisor()
    (site.devices / "xpu5").symlink_to(stuck.path)
    site.start(site.spec(cards=[CARD]))
    (opens,) = until(waiting, what="the open doesn't return")
    hold.send_signal(signal.SIGTERM)
    assert hold.wait(20) == 0
    assert not alive(first)
    process = procs.read(opens)
    assert process is not None
    assert process.state == "D"  # KILL doesn't free it
    again = site.hold(beside=True)
    assert site.supervisor() != first
    known = site.verb("status")
    assert (known["strays"], known["units"]["llm"]["lineage"]) == ([], [])
    assert site.verb("quit")["units"]["llm"]["desired"] == "running"
    assert again.wait(20) == 0
    stuck.close()
    until(lambda: not alive(opens), what="the driver lets it go")
