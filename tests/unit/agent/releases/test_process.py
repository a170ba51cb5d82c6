"""The verbs as processes: what they print, that they can be killed anywhere, and that a disk may be full."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.agent.processes import identity
from klops.agent.releases import files, known
from klops.source.manifest import Release
from tests.unit.agent.killing import forked
from tests.waiting import until

from .world import (
    REPOSITORY,
    File,
    Link,
    World,
    in_own_mounts,
    on_disk,
    package,
    release_of,
    stream,
)

_MAIN = "from klops.agent.main import main; sys.exit(main(sys.argv[1:], '/no/such.pyz'))"
#: What changes the disk.
CHANGES = [
    *((os, name) for name in ("link", "rename", "replace", "symlink", "unlink", "rmdir", "mkdir", "chmod")),
    *((os, name) for name in ("utime", "write")),
    (files, "exchange"),
]
#: As the agent runs: isolated, without ``site``.
_PYTHON = [sys.executable, "-I", "-S", "-B", "-c"]
VERB = [*_PYTHON, "import sys; sys.path.insert(0, sys.argv.pop(1)); " + _MAIN, REPOSITORY]
FEW = 5
TREE: dict[str, File | Link] = {
    **package("source"),
    **{f"data/{number}": File(b"data %d" % number) for number in range(5)},
    "tool": File(b"#!/bin/sh\n", executable=True),
    "to": Link(b"tool"),
}


def run(world: World, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """One verb."""
    return subprocess.run(
        [*VERB, *words, "--root", str(world.root)], input=data, capture_output=True, check=False, timeout=120
    )


def sending(world: World, release: Release) -> subprocess.Popen[bytes]:
    """The verb ``send``, given a manifest: it tells what is lacking."""
    argv = [*VERB, "send", "--while-stdin", "--root", str(world.root)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(asked(manifest=len(release.dumps())) + release.dumps())
    process.stdin.flush()
    return process


def answer(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The last line of what it printed."""
    assert done.stdout, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def asked(**request: Any) -> bytes:
    """A request on standard input."""
    return json.dumps(request).encode() + b"\n"


def test_the_whole_of_it(world: World) -> None:
    release = release_of(TREE)
    with sending(world, release) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert sorted(told) == ["bytes", "lacking"]
        process.stdin.write(stream(release, told["lacking"], TREE))
        process.stdin.flush()
        # it doesn't wait for more
        done = json.loads(process.stdout.readline())["done"]
    # the link's content is one, too
    assert (done["name"], done["files"], done["bytes"]) == (release.name, len(TREE), told["bytes"])
    built = release.name + "-b01234567"
    request = asked(name=built, commands=["echo one; echo two > made"])
    done = run(world, "build", release.name, "--while-stdin", data=b"")
    assert (done.returncode, answer(done)["error"]["code"]) == (2, "usage")
    done = run(world, "build", release.name, data=request)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["line"] for line in lines[:-1]] == ["$ echo one; echo two > made", "one"]
    assert lines[-1]["done"]["name"] == built
    root = world.root.parent / "workspace"
    request = asked(name=built, targets=[{"root": str(root)}], keep=1, protect=[])
    told = answer(run(world, "activate", data=request))
    assert (told["before"], told["pruned"]) == (None, [])
    assert (root / "made").read_text() == "two\n"
    told = answer(run(world, "releases", "--verify", "--imports", json.dumps([{"root": str(root)}])))
    assert (told["current"], told["damage"], told["imports"]) == (built, [], [])
    assert told["targets"] == [{"root": str(root), "at": str(root), "ok": True}]
    assert [one["built"] for one in told["releases"]] == [True, False]


def test_errors_are_an_object_too(world: World) -> None:
    for words, code in (
        (["send"], "usage"),
        (["send", "c0ffeec0ffee-000000000000"], "usage"),
        (["activate"], "usage"),
        (["releases", "--imports", "[1]"], "usage"),
    ):
        done = run(world, *words, data=b"{" if words == ["activate"] else b"")
        assert done.returncode in (1, 2)
        assert answer(done)["error"]["code"] == code


def test_an_error_is_told_with_all_that_is_sent_unread(world: World) -> None:
    release = release_of({"../evil": File(os.urandom(1 << 20))})
    done = run(world, "send", data=asked(manifest=len(release.dumps())) + release.dumps() + bytes(1 << 20))
    assert answer(done)["error"]["code"] == "unsafe-path"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, None], ids=["TERM", "KILL", "nobody there"])
def test_it_is_ended_and_what_has_arrived_stays(world: World, end: signal.Signals | None) -> None:
    release = release_of(TREE)
    with sending(world, release) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lacking = json.loads(process.stdout.readline())["lacking"]
        process.stdin.write(stream(release, lacking, TREE)[:-9])
        process.stdin.flush()
        (tree,) = Path(world.places.incoming_folder).glob("*/tree")
        until(lambda: len(list(tree.rglob("*"))) >= 5, what="something has arrived")
        if end is None:
            process.stdin.close()
        else:
            process.send_signal(end)
        said = process.stdout.read()
        assert process.wait() == (-signal.SIGKILL if end is signal.SIGKILL else 1)
    if end is not signal.SIGKILL:
        assert json.loads(said)["error"]["code"] == ("stream-cut" if end is None else "interrupted")
    assert len(world.offer(TREE)["lacking"]) < len(lacking)
    world.send(TREE)
    assert on_disk(world.path(release.name)) == TREE
    assert world.litter() == []


def points(few: bool, end: int) -> list[int]:
    """Before which change of the disk to kill it: each, or some of those before ``end``, which all come."""
    if not few:
        return list(range(1, 300))
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    return random.Random(seed).sample(range(1, end), FEW)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)], ids=["few", "all"])
def test_send_is_killed_anywhere_and_the_next_run_completes(world: World, few: bool) -> None:
    before = world.sync({**package("before"), "tool": TREE["tool"]})
    release = release_of(TREE)
    killed = 0
    for number in points(few, 41):

        def sent() -> tuple[int, str]:
            return 0, json.dumps(world.send(TREE, request={"name": release.name}))

        status, said = forked(sent, CHANGES, number)
        assert world.current in (before, release.name)
        assert world.damage(world.current) == []
        if status == -signal.SIGKILL:
            killed += 1
            if release.name in known.whole(world.places):
                assert world.damage(release.name) == []
        else:
            assert (status, json.loads(said)["name"]) == (0, release.name)
        world.send(TREE, request={"name": release.name})
        assert world.current == release.name
        assert on_disk(world.path(release.name)) == TREE
        assert world.damage(release.name) == []
        assert world.litter() == []
        # from the beginning
        world.activate(before, keep=0)
        if status == 0 and not few:
            break
    assert killed == FEW if few else killed > 40


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)], ids=["few", "all"])
def test_activate_is_killed_anywhere_and_something_whole_is_current(world: World, few: bool) -> None:
    root = world.root.parent / "workspace"
    targets = [{"root": str(root)}]
    old = world.sync(package("old"), targets=targets)
    gone = world.sync(package("gone"), targets=targets)
    world.activate(old, targets=targets, keep=9)
    names = [old, gone, world.send(package("new"))["name"]]

    def activating() -> tuple[int, str]:
        return 0, json.dumps(world.activate(names[2], targets=targets, keep=1))

    killed = 0
    for number in points(few, 9):
        status, _ = forked(activating, CHANGES, number)
        assert world.current in (old, names[2])
        assert world.damage(world.current) == []
        assert root.resolve() == world.path(world.current)
        killed += status == -signal.SIGKILL
        told = world.activate(names[2], targets=targets, keep=1)
        assert set(known.whole(world.places)) == {old, names[2]}
        assert (world.current, world.litter()) == (names[2], [])
        assert told["imports"] == []
        # from the beginning
        world.activate(old, targets=targets, keep=9)
        world.send(package("gone"))
        os.utime(world.places.manifest(gone), (1, 1))
        if status == 0 and not few:
            break
    assert killed == FEW if few else killed > 8


def test_a_build_ends_when_nobody_waits_for_it(world: World) -> None:
    name = world.sync(TREE)
    request = asked(name=name + "-b01234567", commands=["echo $$; exec sleep 300"])
    argv = [*VERB, "build", name, "--while-stdin", "--root", str(world.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        process.stdout.readline()
        pid = int(json.loads(process.stdout.readline())["line"])
        who = identity.of_pid(pid)
        assert who is not None
        assert identity.alive(who)
        process.stdin.close()
        assert process.wait(timeout=60) == 4
    assert not identity.alive(who)
    assert known.whole(world.places) == [name]
    world.send({**TREE, "more": File(b"more")})
    assert world.litter() == []


def test_what_a_killed_build_left_alive_is_ended_by_the_next(world: World) -> None:
    name = world.sync(TREE)
    built = name + "-b01234567"
    request = asked(name=built, commands=["sh -c 'echo $$; cd /; exec sleep 300' & wait"])
    argv = [*VERB, "build", name, "--while-stdin", "--root", str(world.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        process.stdout.readline()
        who = identity.of_pid(int(json.loads(process.stdout.readline())["line"]))
        assert who is not None
        process.kill()
        process.wait()
    assert identity.alive(who)
    ask = f"cat tool; grep -q '^State:.[^ZX]' /proc/{who.pid}/status && echo it lives"
    done = run(world, "build", name, data=asked(name=built, commands=[ask + " || true"]))
    assert [json.loads(line).get("line") for line in done.stdout.splitlines()][1:-1] == ["#!/bin/sh"]
    assert not identity.alive(who)
    assert (world.damage(built), world.litter()) == ([], [])


_SMALL = """
mount -t tmpfs -o size=3m tmpfs "$1" || exit 77
exec "$2" -c "$3" "$1"
"""
_FULL = """
import os, sys
from pathlib import Path
from tests.unit.agent.releases.world import File, World, on_disk, package
from klops.agent.errors import VerbError
world = World(Path(sys.argv[1]))
before = world.sync(package("before"))
big = {**package("big"), **{f"{n}.bin": File(os.urandom(500_000)) for n in range(10)}}
try:
    world.send(big)
except VerbError as error:
    print(error.code, error.message)
print(world.litter(), world.damage(world.current))
tree = {**package("fits"), **{f"{n}.bin": File(os.urandom(300_000)) for n in range(3)}}
filler = Path(sys.argv[1]) / "filler"
def fill(data):
    with filler.open("wb", buffering=0) as file:
        file.write(bytes(2_300_000))
    return data
try:
    world.send(tree, fill)
except VerbError as error:
    print(error.code)
print(world.litter(), world.damage(world.current), world.current == before)
filler.unlink()
name = world.sync(tree)
print(on_disk(world.path(name)) == tree, world.litter(), world.current == name)
"""


def test_a_full_disk_leaves_what_runs_and_the_next_run_completes(tmp_path: Path) -> None:
    lines = in_own_mounts(_SMALL, _FULL, tmp_path)
    assert lines[0].startswith("disk-full ")
    assert f"{tmp_path}/klops/releases has 2 MiB left: 4 MiB are needed there" in lines[0]
    assert lines[1:] == ["[] []", "disk-full", "[] [] True", "True [] True"]
