"""Orphans whose unit has to be guessed, and those of whom it can't be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.processes import procs
from klops.agent.processes.access import Access
from klops.agent.processes.children import NOBODY
from klops.agent.processes.procs import Process
from klops.agent.trouble import Troubles
from klops.agent.units import strays
from klops.agent.units.kept import Surroundings
from klops.agent.units.managed import Managed
from klops.agent.units.memory import Memory
from tests.waiting import until

SUPERVISOR, LAUNCHER = 10**8, 10**8 + 1
#: Its pid is nobody's, so it has no environment: as one whose title covers it.
WIPED = Process(10**8 + 2, SUPERVISOR, 10**8 + 2, 10**8 + 2, "S", 5, "python3")


def units(folder: Path, *names: str) -> list[Managed]:
    """Units without anything on disk."""
    paths, troubles = store.Paths(str(folder)), Troubles()
    paths.make()
    audit = Audit(paths.audit, "a test", troubles)
    around = Surroundings(
        paths=paths,
        audit=audit,
        package="",
        umask=0o022,
        never=(0, 1, SUPERVISOR, LAUNCHER),
        wake=None,
        exits={},
        home="here",
        troubles=troubles,
        access=Access(audit),
        memory=Memory(audit),
    )
    return [Managed(name, around) for name in names]


def adopt(made: list[Managed], *processes: Process) -> tuple[set[str], list[Process]]:
    """Who is taken in of a table."""
    return strays.adopt({p.pid: p for p in processes}, made, (SUPERVISOR, LAUNCHER), (SUPERVISOR, LAUNCHER))


def test_with_one_unit_it_is_that_ones(tmp_path: Path) -> None:
    made = units(tmp_path, "llm")
    assert adopt(made, WIPED) == ({"llm"}, [])
    assert (WIPED.pid, WIPED.start) in made[0].lineage.members
    assert adopt(made, WIPED) == (set(), [])


def test_with_several_it_is_nobodys_and_said(tmp_path: Path) -> None:
    made = units(tmp_path, "one", "two")
    supervisor = WIPED._replace(pid=SUPERVISOR, ppid=LAUNCHER)
    elsewhere = WIPED._replace(pid=WIPED.pid + 1, ppid=1)
    assert adopt(made, WIPED, supervisor, elsewhere) == (set(), [WIPED])
    assert not any(one.lineage.members for one in made)


def test_where_a_unit_could_not_be_taken_over_it_may_be_that_ones(tmp_path: Path) -> None:
    made = units(tmp_path, "llm")
    nobody = (SUPERVISOR, LAUNCHER)
    found = strays.adopt({WIPED.pid: WIPED}, made, nobody, nobody, all_known=False)
    assert found == (set(), [WIPED])
    assert not made[0].lineage.members


def environment(pid: int) -> bytes:
    """What a process was given, once it has it: exec comes back a little earlier."""
    return until(lambda: procs.slurp(f"/proc/{pid}/environ"), what="it has its environment")


@pytest.mark.parametrize(("unit", "whose"), [("two", "two"), ("three", None)])
def test_the_marker_tells(tmp_path: Path, unit: str, whose: str | None) -> None:
    made = units(tmp_path, "one", "two")
    with subprocess.Popen(["sleep", "60"], env={"PATH": os.defpath, "KLOPS_UNIT": f"{unit}:3"}) as sleeper:
        assert environment(sleeper.pid)
        process = procs.read(sleeper.pid)
        assert process is not None
        found, nobodys = adopt(made, process._replace(ppid=SUPERVISOR))
        sleeper.kill()
    assert found == ({whose} if whose else set())
    assert [p.name for p in nobodys] == ([] if whose else ["sleep"])


def test_the_environment_of_one_that_is_stuck_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = WIPED._replace(state=procs.WAITING)
    monkeypatch.setattr(procs, "read", lambda pid: stuck)

    def read(path: str) -> bytes:
        raise AssertionError(f"{path} is read, and the supervisor may wait with it")

    monkeypatch.setattr(procs, "slurp", read)
    made = units(tmp_path, "one", "two")
    assert adopt(made, stuck) == (set(), [stuck])


def test_the_marker_tells_a_child_of_an_earlier_supervisor(tmp_path: Path) -> None:
    made = units(tmp_path, "one")
    env = {"PATH": os.defpath, "KLOPS_UNIT": f"{NOBODY}:0"}
    with subprocess.Popen(["sleep", "60"], env=env) as sleeper:
        assert environment(sleeper.pid)
        process = procs.read(sleeper.pid)
        assert process is not None
        assert adopt(made, process._replace(ppid=LAUNCHER)) == (set(), [])
        sleeper.kill()
    assert not made[0].lineage.members
