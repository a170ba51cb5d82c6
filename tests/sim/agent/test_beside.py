"""A launcher that is not the main process: of several one serves; it survives, and leaves when told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from functools import partial

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.supervision import control, quitting
from klops.agent.supervision.launcher import SECOND
from tests.sim.agent.site import Site, alive
from tests.waiting import until


def launcher_of(site: Site) -> int:
    """Pid of the launcher whose supervisor serves."""
    supervisor = procs.read(site.supervisor())
    assert supervisor is not None
    return supervisor.ppid


def test_two_started_at_once_are_one_that_serves_and_one_that_leaves(site: Site) -> None:
    run = site.root / "run"
    run.mkdir()
    # what an earlier life of the container leaves
    (run / "supervisor.lock").touch()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(run / "supervisor.sock"))
    both = [site.hold(beside=True), site.hold(beside=True)]
    site.supervisor()
    until(lambda: any(one.poll() is not None for one in both), what="one has left")
    left, stays = sorted(both, key=lambda one: one.poll() is None)
    assert (left.returncode, stays.poll()) == (SECOND, None)
    assert launcher_of(site) == stays.pid


def test_a_supervisor_that_dies_is_started_again_and_its_units_live_on(site: Site) -> None:
    site.hold(beside=True)
    site.start(site.spec())
    before = site.reaches("ready")
    first = site.supervisor()
    os.kill(first, signal.SIGKILL)
    until(lambda: site.supervisor() != first, what="another supervisor")
    again = site.reaches("ready")
    assert (again["cpid"], again["restarts"]) == (before["cpid"], 0)
    # nothing is compiled into the folders of an image that isn't ours
    for pid in (launcher_of(site), site.supervisor()):
        assert b"-B" in procs.slurp(f"/proc/{pid}/cmdline").split(b"\0")


def test_quit_ends_units_supervisor_and_launcher_and_keeps_what_is_wanted(site: Site) -> None:
    hold = site.hold(beside=True)
    site.start(site.spec("one"))
    site.start(site.spec("two"))
    members = [m for name in ("one", "two") for m in site.reaches("ready", name)["lineage"]]
    site.verb("stop", "two")
    supervisor = site.supervisor()
    units = site.verb("quit")["units"]
    assert {name: (one["state"], one["desired"]) for name, one in units.items()} == {
        "one": ("stopped", "running"),
        "two": ("stopped", "stopped"),
    }
    assert hold.wait(0.5) == 0  # it is gone already
    assert not any(alive(pid) for pid in [supervisor, *(m["cpid"] for m in members)])
    ended = [line for line in site.audit("signal") if line["signal"] == "KILL"]
    assert ended == []  # gracefully
    # in the same life of the container: only what is wanted comes back
    site.hold(beside=True)
    assert site.reaches("ready", "one")["restarts"] == 0
    assert site.unit("two")["state"] == "stopped"


def test_quit_with_a_supervisor_that_dies_meanwhile_starts_no_other(site: Site) -> None:
    hold = site.hold(beside=True)
    over = site.root / "over"
    deaf = f"trap '' TERM; echo deaf; until [ -e {over} ]; do sleep 0.1; done"
    site.start(site.spec(argv=["sh", "-c", deaf]))
    until(lambda: site.unit()["line"] == "deaf", what="it runs")
    supervisor = site.supervisor()
    with subprocess.Popen(site.command("quit"), stdout=subprocess.PIPE) as quitter:
        until(lambda: site.audit("signal"), what="it is being ended")
        os.kill(supervisor, signal.SIGKILL)
        hold.wait(10)
        assert quitter.stdout is not None
        answer = json.loads(quitter.stdout.read())
    assert answer["error"]["code"] == "units-alive"
    assert site.unit()["lineage"]
    site.hold(beside=True)
    site.supervisor()
    over.touch()
    site.verb("stop", "llm")
    assert site.unit()["lineage"] == []


def test_quit_is_refused_by_the_main_process(held: Site) -> None:
    supervisor = held.supervisor()
    assert held.verb("quit")["error"]["code"] == "main-process"
    assert held.supervisor() == supervisor
    held.start(held.spec())
    held.reaches("ready")


def test_quit_without_a_supervisor_is_done_when_nothing_lives(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "insist", partial(control.insist, patience=0.0))
    paths = store.Paths(str(site.root))
    assert quitting.leave(paths) == {"units": {}}
    hold = site.hold(beside=True)
    site.start(site.spec())
    ready = site.reaches("ready")
    os.kill(hold.pid, signal.SIGKILL)
    os.kill(site.supervisor(), signal.SIGKILL)
    hold.wait(10)
    with pytest.raises(VerbError) as caught:
        quitting.leave(paths)
    assert caught.value.code == "no-supervisor"
    assert alive(ready["cpid"])
    # a later one knows them by identity, and ends them
    site.hold(beside=True)
    assert site.verb("quit")["units"]["llm"]["lineage"] == []
    assert not alive(ready["cpid"])


def test_a_launcher_that_leaves_while_its_descendants_live_reaps_them_first(site: Site) -> None:
    first = site.hold(beside=True)
    site.start(site.spec())
    ready = site.reaches("ready")
    os.kill(first.pid, signal.SIGSTOP)  # as one that is slow to start its supervisor again
    os.kill(site.supervisor(), signal.SIGKILL)
    second = site.hold(beside=True)
    until(lambda: launcher_of(site) == second.pid, what="the other's supervisor serves")
    os.kill(first.pid, signal.SIGCONT)
    until(lambda: not _children_named(first.pid, b"supervise"), what="its own supervisor has left")
    assert first.poll() is None
    root = procs.read(ready["cpid"])
    assert root is not None
    assert root.ppid == first.pid
    site.verb("stop", "llm")
    assert first.wait(10) == SECOND
    assert second.poll() is None


def _children_named(parent: int, word: bytes) -> list[int]:
    """Living children with that word on their command line."""
    table = procs.table().values()
    mine = [p.pid for p in table if p.ppid == parent and p.alive]
    return [pid for pid in mine if word in procs.slurp(f"/proc/{pid}/cmdline").split(b"\0")]
