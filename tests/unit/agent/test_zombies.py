"""Dead children of a PID 1 that doesn't reap are counted, not those that it is about to."""

from __future__ import annotations

from klops.agent.processes.procs import Process
from klops.agent.units.zombies import LASTING, Zombies


def process(pid: int, ppid: int, state: str) -> Process:
    """One of a table."""
    return Process(pid, ppid, pid, pid, state, pid * 10, f"p{pid}")


def test_only_what_stays_counts() -> None:
    zombies = Zombies()
    table = {p.pid: p for p in (process(5, 1, "Z"), process(6, 1, "S"), process(7, 6, "Z"))}
    zombies.look(table, 100.0)
    assert zombies.lasting() is None
    zombies.look({**table, 8: process(8, 1, "Z")}, 100.0 + LASTING)
    found = zombies.lasting()
    assert found is not None
    assert found["count"] == 1  # 7 is its parent's to reap, 8 may be on its way
    zombies.look({5: process(5, 6, "Z")}, 101.0 + LASTING)
    assert zombies.lasting() is None
    # the number may be another's by now
    zombies.look({5: Process(5, 1, 5, 5, "Z", 77, "p5")}, 102.0 + LASTING)
    assert zombies.lasting() is None
