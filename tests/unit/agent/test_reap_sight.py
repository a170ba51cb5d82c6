"""Two numbers for each process of a container, and what outlived its container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from klops.agent import store
from klops.agent.options import Options
from klops.agent.processes import devices, identity, procs
from klops.agent.processes.procs import Process
from klops.agent.reaping import act, known, sight, verb
from klops.agent.reaping.sight import Seen
from klops.agent.units.lineage import Lineage
from tests.frozen import Frozen, freezer
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace of one's own needs root")

#: Pid 1 of a namespace: it has a child, and one in a namespace inside this one; says so.
_INIT = """
import os, signal, subprocess, sys
PAUSE = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
child = subprocess.Popen(PAUSE, start_new_session=True)
nested = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", *PAUSE])
print(child.pid, nested.pid, flush=True)
signal.pause()
"""


class Space(NamedTuple):
    """A pid namespace, and who lives in it, by this machine's numbers."""

    ns: int
    init: int
    child: int
    #: in a namespace inside it; its parent is the first number, of unshare
    nested: tuple[int, int]


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """Makes processes that KILL doesn't end."""
    with freezer() as group:
        yield group


def children(pid: int) -> list[int]:
    """Of a process, by the table."""
    return sorted(one.pid for one in procs.table().values() if one.ppid == pid)


@pytest.fixture
def space() -> Iterator[Space]:
    """A pid namespace with four processes; it ends with its first one."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-I", "-S", "-c", _INIT]
    outer = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert outer.stdout is not None
    try:
        assert outer.stdout.readline() == b"2 3\n"
        [init] = children(outer.pid)
        child, nest = children(init)
        [nested] = until(lambda: children(nest), what="the nested one is there")
        until(lambda: (procs.read(nested) or procs.Process(0, 0, 0, 0, "", 0, "")).name != "unshare")
        until(lambda: (procs.read(child) or procs.Process(0, 0, 0, 0, "", 0, "")).state == "S")
        yield Space(Path(f"/proc/{init}/ns/pid").stat().st_ino, init, child, (nest, nested))
    finally:
        outer.kill()
        outer.wait()
        outer.stdout.close()


def test_from_outside_each_has_the_numbers_of_its_namespace_too(space: Space) -> None:
    seen = sight.look("/nowhere", 0, [], host=True)
    init, child = seen.processes[space.init], seen.processes[space.child]
    nest, nested = (seen.processes[pid] for pid in space.nested)
    assert [one.ns for one in (init, child, nest, nested)] == [space.ns] * 4
    assert [(one.inner.pid, one.inner.ppid) for one in (init, child, nest, nested)] == [
        (1, 0),
        (2, 1),
        (3, 1),
        # as the namespace around it numbers it
        (4, 3),
    ]
    assert (child.inner.session, child.inner.pgrp) == (2, 2)
    assert child.process == procs.read(space.child)
    assert sorted(seen.table(space.ns)) == [1, 2, 3, 4]
    assert seen.pids(space.ns)[4] == nested.process.pid
    me = seen.processes[os.getpid()]
    assert (me.inner, me.ns) == (me.process, identity.here()[1])
    assert {os.getpid(), os.getppid()} <= seen.mine


def test_a_name_with_an_end_of_a_line_in_it_poses_as_no_number(tmp_path: Path) -> None:
    program = tmp_path / "\rNSpid:x"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", program, "60"]) as outer:
        [pid] = until(lambda: children(outer.pid), what="it has a child")
        until(lambda: (procs.read(pid) or procs.Process(0, 0, 0, 0, "", 0, "")).name == program.name)
        seen = sight.look("/nowhere", 0, [], host=True)
        outer.kill()
    assert (seen.processes[pid].inner.pid, seen.processes[pid].process.name) == (1, program.name)


def recorded(root: Path, space: Space) -> store.Paths:
    """A root whose unit has the child on record, in the numbers of its namespace."""
    paths = store.Paths(str(root))
    paths.make()
    process = procs.read(space.child)
    assert process is not None
    inner = process._replace(pid=2, ppid=1, pgrp=2, session=2)
    Lineage(paths.lineage("llm"), (identity.here()[0], space.ns)).record(inner, 4)
    return paths


def reap(root: Path, *words: str) -> dict[str, Any]:
    """What the verb says; nothing is a card, and no container is named."""
    return verb.reap(
        Options(["reap", "--root", str(root), "--device-dir", str(root), "--grace", "0", *words])
    )


def test_a_member_in_a_container_that_lives_but_was_not_looked_for_is_only_named(
    space: Space, tmp_path: Path
) -> None:
    paths = recorded(tmp_path, space)
    assert reap(tmp_path)["unsupervised"] == []  # from inside another container it can't be seen
    # renamed, say, so that none was found
    found = reap(tmp_path, "--host")
    assert found["processes"] == []
    [row] = found["unsupervised"]
    assert (row["pid"], row["cpid"], row["unit"]) == (space.child, 2, "llm")
    assert "in a container that lives, but is not the one that was looked for" in row["reason"]
    assert not Path(paths.audit).exists()
    child = procs.read(space.child)
    assert child is not None
    assert child.alive


def test_a_member_that_outlived_its_container_is_found_from_the_host_and_ended(
    space: Space, tmp_path: Path, frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act, "ROUNDS", tuple((number, 0.2) for number, _ in act.ROUNDS))
    paths = recorded(tmp_path, space)
    # the next generation, in a container that is not looked at here
    Lineage(paths.lineage("llm"), (identity.here()[0], 12)).forget()
    frozen.freeze(space.child)
    os.kill(space.init, signal.SIGKILL)
    until(lambda: (procs.read(space.init) or procs.Process(0, 0, 0, 0, "", 0, "")).exiting)

    [row] = reap(tmp_path, "--host")["processes"]
    assert (row["pid"], row["cpid"], row["outcome"]) == (space.child, 2, "unkillable")
    assert "an earlier life of its container" in row["reason"]
    audit = [json.loads(line) for line in Path(paths.audit).read_text().splitlines()]
    assert {(line["pid"], line["ns"]) for line in audit} == {(space.child, identity.here()[1])}
    # somebody of that namespace is there, so it isn't over
    assert Lineage(paths.lineage("llm")).elsewhere == {space.ns}
    frozen.thaw()
    until(lambda: procs.read(space.init) is None)
    assert reap(tmp_path, "--host")["processes"] == []
    assert Lineage(paths.lineage("llm")).elsewhere == set()


def test_what_one_had_that_ends_and_has_given_it_all_back_is_unknown(space: Space, frozen: Frozen) -> None:
    assert devices.opened(space.init)
    frozen.freeze(space.child)
    os.kill(space.init, signal.SIGKILL)
    # it waits for the end of the others, as it would for a driver that is to take back a card
    descriptors = Path(f"/proc/{space.init}/fd")
    until(lambda: not list(descriptors.iterdir()), what="it has given back what it had open")
    assert devices.opened(space.init) is None
    frozen.thaw()
    until(lambda: procs.read(space.init) is None)
    assert devices.opened(space.init) == set()


def place(ns: int, pid: int = 1) -> Seen:
    """A process of a namespace."""
    process = Process(pid, 1, pid, pid, "S", 1, "p")
    return Seen(process, process, ns, "")


def test_a_life_of_the_container_is_over_once_nobody_of_it_is_in_sight(tmp_path: Path) -> None:
    paths = store.Paths(str(tmp_path))
    paths.make()
    boot, own = identity.here()
    lineage = Lineage(paths.lineage("llm"), (boot, 77))
    lineage.record(Process(5, 1, 5, 5, "D", 9, "worker"), 1)

    def looked(*seen: Seen, host: bool = True) -> set[int]:
        shown = {one.process.pid: one for one in seen}
        known.close_earlier(paths, sight.Sight(shown, host, "", own, frozenset(), 0, 1.0))
        return Lineage(paths.lineage("llm")).elsewhere

    assert looked(place(own), host=False) == {77}
    assert looked(place(own), place(77, 50)) == {77}
    # where one can't be told it may be of that namespace
    assert looked(place(own), place(0, 51)) == {77}
    # who doesn't even see the host's first process doesn't see others either
    assert looked(place(own, 51)) == {77}
    assert looked(place(own)) == set()


def test_who_was_stuck_and_is_gone_or_whose_pid_is_anothers_is_out_of_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stuck(pid: int) -> Process:
        return Process(pid, 1, pid, pid, "D", 5, "python3", threads=9)

    stays = os.getpid()
    now = {stays: stuck(stays), 50: None, 51: stuck(51)._replace(start=6, state="S")}
    monkeypatch.setattr(procs, "table", lambda: {pid: stuck(pid) for pid in now})
    monkeypatch.setattr(procs, "read", lambda pid: now[pid])
    assert set(sight.look("/nowhere", 0, [], host=False).processes) == {stays}


def test_which_keeper_a_command_line_is_of() -> None:
    def kept(verb: bytes, root: bytes = b"/r") -> str:
        return sight._keeps([b"python3", b"-I", b"/r/agent/x.pyz", verb, b"--root", root, b"--beside"], "/r")

    assert [kept(b"hold"), kept(b"supervise"), kept(b"status")] == [sight.HOLD, sight.SUPERVISE, ""]
    assert kept(b"supervise", b"/other") == ""


def test_mappings_and_command_line_of_one_that_is_stuck_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    number = os.makedev(4, 20)

    def holds(pid: int, rdevs: object, files: object = (), *, mapped: bool = True) -> devices.Held | None:
        asked.append(mapped)
        return devices.Held({number}, files=False)

    stuck = Process(os.getpid(), 1, 1, 1, "D", 1, "python3")
    reading = procs.slurp

    def slurp(path: str) -> bytes:
        assert "cmdline" not in path
        return reading(path)

    monkeypatch.setattr(devices, "holds", holds)
    monkeypatch.setattr(procs, "slurp", slurp)
    monkeypatch.setattr(procs, "table", lambda: {stuck.pid: stuck})
    monkeypatch.setattr(procs, "read", lambda pid: stuck)
    seen = sight.look("/nowhere", 0, [devices.Node("/dev/xpu0", number, 0, 0)], host=False)
    assert (seen.processes[stuck.pid].cards, asked) == (("xpu0",), [False])
