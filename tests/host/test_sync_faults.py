"""What goes wrong while a release is on its way: the old one serves on, and the next sync completes."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.host import sources
from tests.host.proxy import Proxy
from tests.host.sources import PACKAGE, Ground, package, through
from tests.rehearsals import MakeRehearsal, missing

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

#: Bytes of a release that gzip can't make smaller, and of the file system that releases are in.
SIZE, ROOM = 1_500_000, 24 << 20
SEED = 20260107
QUICK, ALL = 5, 30


class Trap:
    """Something that happens once so many bytes of a release are on their way; when true, the link is cut."""

    def __init__(self, releases: Path, offset: int, act: Callable[[], bool]) -> None:
        self._releases, self._offset, self._act = releases, offset, act
        self._seen = 0
        self.sprung = False

    def __call__(self, size: int) -> int | None:
        """As :attr:`Proxy.piece` is asked."""
        # what is lacking is known on the host: all that comes now is the release
        if self.sprung or not (self._seen or any(self._releases.glob(".incoming/*/tree"))):
            return None
        before, self._seen = self._seen, self._seen + size
        if self._seen < self._offset:
            return None
        self.sprung = True
        return max(self._offset - before, 0) if self._act() else None


@dataclass
class Lane:
    """A host that serves, reached through a proxy."""

    ground: Ground
    proxy: Proxy
    inventory: Path
    _random: random.Random = field(default_factory=lambda: random.Random(SEED))
    _number: int = 1

    def commit(self) -> None:
        """Another release, all of whose content is new."""
        self._number += 1
        weights: dict[str | bytes, bytes] = {
            f"weights/{n}.bin": self._random.randbytes(SIZE // 3) for n in range(3)
        }
        self.ground.repo.commit({**package(str(self._number)), **weights})

    def trap(self, part: float, act: Callable[[], bool]) -> Trap:
        """Lay a trap at a part of the next release."""
        found = Trap(self.ground.releases, round(part * SIZE), act)
        self.proxy.piece = found
        return found

    def recovers(self, before: str, *, locked: bool = True) -> None:
        """The release that was current is, and serves; then the next sync completes.

        ``locked``: the run that failed couldn't give the host's lock back.
        """
        self.proxy.piece = None
        self.proxy.shut.clear()
        assert self.ground.current.name == before
        assert self.ground.answers()
        if locked:  # in a minute it would count for nothing
            (self.ground.host.root / "lock").unlink()
        self.is_there(self.ground.sync("--no-restart"), before)

    def is_there(self, said: dict[str, Any], before: str) -> None:
        """The whole commit is current, and nothing else is left."""
        ground = self.ground
        assert ground.current.name == said["release"] != before
        assert said["commit"] == ground.repo.git("rev-parse", "HEAD").decode().strip()
        assert {path: content for path, (_, content) in ground.shipped().items()} == committed(ground)
        assert ground.litter() == []
        assert ground.answers()


def committed(ground: Ground) -> dict[bytes, bytes]:
    """Files of the commit, whose lines all end with LF."""
    names = ground.repo.git("ls-files", "-z").split(b"\0")[:-1]
    return {name: (ground.repo.folder / os.fsdecode(name)).read_bytes() for name in names}


@pytest.fixture(scope="module")
def lane(make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    """Releases are on a small file system of their own; a service is ready on the first of them."""
    if missing():
        pytest.skip(missing())
    folder = tmp_path_factory.mktemp("source")
    with sources.ground(make_rehearsal, folder, transport="ssh", service=True) as made:
        made.releases.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", made.releases], check=True)
        made.settings({"source": {"targets": [{"package": PACKAGE}], "keep": 1}})
        made.repo.commit(package("1"))
        made.object("up")
        assert made.rehearsal.ssh is not None
        with Proxy(made.rehearsal.ssh.port) as proxy, through(made, proxy) as inventory:
            yield Lane(made, proxy, inventory)


def broken(lane: Lane, act: Callable[[], bool], part: float, rc: int) -> dict[str, Any]:
    """A sync in the midst of which something is done; its error."""
    lane.commit()
    trap = lane.trap(part, act)
    error = lane.ground.fails("sync", "--no-restart", inventory=lane.inventory, rc=rc)
    assert trap.sprung
    return error


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.long] if n >= QUICK else []) for n in range(ALL)]
)
def test_row_D28_a_link_that_is_cut_at_any_byte(lane: Lane, number: int) -> None:
    """One in five stays away, which klops waits for; else it takes up what it was at."""
    before, stays = lane.ground.current.name, number % QUICK == 0
    part = random.Random(SEED + number).random()

    def cut() -> bool:
        if stays:
            lane.proxy.shut.set()
        return True

    if stays:
        assert broken(lane, cut, part, rc=4)["code"] == "connection-lost", part
        lane.recovers(before)
        return
    lane.commit()
    trap = lane.trap(part, cut)
    said = lane.ground.sync("--no-restart", inventory=lane.inventory)
    assert trap.sprung
    lane.is_there(said, before)


@pytest.mark.long
def test_an_ssh_session_that_is_killed(lane: Lane) -> None:
    before = lane.ground.current.name
    ssh = lane.ground.rehearsal.ssh
    assert ssh is not None
    assert ssh.process is not None
    daemon = psutil.Process(ssh.process.pid)

    def kill() -> bool:
        for process in daemon.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return False

    lane.commit()
    trap = lane.trap(0.4, kill)
    said = lane.ground.sync("--no-restart", inventory=lane.inventory)
    assert trap.sprung
    lane.is_there(said, before)


def test_a_klops_that_is_killed(lane: Lane) -> None:
    ground, before = lane.ground, lane.ground.current.name
    lane.commit()
    argv = [sys.executable, "-m", "klops", "sync", ground.host.name, "-i", str(lane.inventory)]
    started: list[subprocess.Popen[bytes]] = []

    def kill() -> bool:
        started[0].kill()
        return False

    lane.trap(0.6, kill)
    started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert started[0].wait(120) == -9
    lane.recovers(before)


@pytest.mark.long
def test_row_D28_a_disk_that_becomes_full_while_it_arrives(lane: Lane) -> None:
    ballast, before = lane.ground.releases / "ballast", lane.ground.current.name

    def fill() -> bool:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                continue
        return False

    error = broken(lane, fill, 0.5, rc=1)
    assert error["code"] == "disk-full"
    # and before anything is sent, when there is no room to begin with
    trap = lane.trap(0.1, fill)
    assert lane.ground.fails("sync", "--no-restart", inventory=lane.inventory)["code"] == "disk-full"
    assert not trap.sprung
    ballast.unlink()
    lane.recovers(before, locked=False)
