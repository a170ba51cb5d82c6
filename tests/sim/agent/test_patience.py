"""Somebody who glances at the cards of a unit that is about to start: waited for, each time anew."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.supervision.supervisor import Supervisor
from klops.agent.units import launching, unit
from klops.agent.units.launching import Obstacle
from klops.agent.units.managed import Managed
from tests.sim.agent.site import Site

GLANCE = Obstacle("a process that is not this unit's holds its cards: pid 7 (xpu-smi) holds /dev/xpu0")
MISSING = Obstacle("card 0 (minor 0, /dev/xpu0) is not in this container", lacking=True)
UNDECIDED = Obstacle(undecided=True)


@pytest.fixture
def one(tmp_path: Path) -> Managed:
    """A unit that was asked to start."""
    site = Site(tmp_path, tmp_path)
    paths = store.Paths(str(site.root))
    paths.make()
    store.write_json(paths.spec("llm"), site.spec())
    supervisor = Supervisor(paths, "digest", "package", 0, 0o022)
    made = Managed("llm", supervisor.around)
    unit.command_start(made.record, False, 0.0, 0.0)
    supervisor.server.close()
    supervisor.selector.close()
    os.close(supervisor._waker)
    os.close(supervisor._woken)
    return made


@pytest.mark.parametrize("before", [MISSING, UNDECIDED])
def test_a_glance_is_waited_for_whatever_was_in_the_way_before(
    one: Managed, monkeypatch: pytest.MonkeyPatch, before: Obstacle
) -> None:
    now, seen = 1000.0, [UNDECIDED, before, GLANCE]
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(launching, "obstacle", lambda *_: seen[0])
    for _ in range(3):
        one.launch({})
        now += 10
        del seen[0 : 1 if len(seen) > 1 else 0]
    assert one.record.restarts == 0  # it has been seen for no time at all
    one.launch({})
    assert (one.record.state, one.record.restarts) == (unit.BACKOFF, 1)
    assert one.record.error == GLANCE.problem
