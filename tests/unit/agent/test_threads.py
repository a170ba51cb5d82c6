"""What a process holds when its first thread has ended, and when another one waits in the kernel."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klops.agent.processes import devices, openfiles, procs
from klops.agent.processes.procs import Process
from klops.agent.reaping import sight
from klops.agent.units import quarantine
from tests.frozen import FREEZER, state
from tests.waiting import until

#: Has a device open or mapped. Its first thread ends, or waits. Its second waits in the kernel, once for each
#: byte that it is sent: for a child that is to begin a program and waits for the other end of a pipe.
_HOLD = """
import ctypes, os, sys, threading
how, first, node, pipe = sys.argv[1:]
libc = ctypes.CDLL(None)
fd = os.open(node, os.O_RDWR)
if how == "mapped":
    libc.mmap.restype = ctypes.c_void_p
    assert libc.mmap(None, 4096, 3, 2, fd, ctypes.c_long(0)) not in (None, ctypes.c_void_p(-1).value)
    os.close(fd)

def second():
    while os.read(0, 1):
        reading = (os.POSIX_SPAWN_OPEN, 0, pipe, os.O_RDONLY, 0)
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[reading])
    os._exit(0)

thread = threading.Thread(target=second)
thread.start()
print("held", flush=True)
if first == "ends":
    libc.pthread_exit(None)
thread.join()
"""


class Holder:
    """A process of two threads that holds a card."""

    def __init__(self, running: subprocess.Popen[bytes], folder: Path) -> None:
        self._running = running
        self._pipe = folder / "pipe"
        self.folder = str(folder)
        self.pid = running.pid

    @property
    def seen(self) -> Process:
        """As the table has it now."""
        process = procs.read(self.pid)
        assert process is not None
        return process

    def wait(self) -> None:
        """Have its second thread wait in the kernel."""
        assert self._running.stdin is not None
        self._running.stdin.write(b".")
        self._running.stdin.flush()
        until(self._waits, what="a thread waits")

    def go_on(self) -> None:
        """Let it go on."""
        other = os.open(self._pipe, os.O_RDWR)
        try:
            until(lambda: not self._waits(), what="no thread waits")
        finally:
            os.close(other)

    def _waits(self) -> bool:
        return any(state(int(thread.name)) == "D" for thread in Path(f"/proc/{self.pid}/task").iterdir())


@contextmanager
def holder(folder: Path, how: str, first: str) -> Iterator[Holder]:
    """One that has ``xpu5`` of a folder open or mapped, whose first thread has ended, or waits."""
    if os.geteuid() != 0:
        pytest.skip("making device nodes needs root")
    os.mknod(folder / "xpu5", 0o600 | stat.S_IFCHR, Path("/dev/zero").stat().st_rdev)
    os.mkfifo(folder / "pipe")
    command = [sys.executable, "-S", "-c", _HOLD, how, first, f"{folder}/xpu5", f"{folder}/pipe"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        one = Holder(running, folder)
        assert running.stdout is not None
        assert running.stdout.readline() == b"held\n"
        if first == "ends":
            until(lambda: state(running.pid) == "Z", what="its first thread has ended")
        try:
            yield one
        finally:
            one.go_on()


def card_of(one: Holder) -> tuple[str, ...]:
    """The cards that a clean-up sees with it."""
    looked = sight.look("/nowhere", 0, devices.nodes(one.folder), host=False)
    return looked.processes[one.pid].cards


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_what_it_holds_is_seen_when_its_first_thread_has_ended(tmp_path: Path, how: str) -> None:
    with holder(tmp_path, how, "ends") as one:
        held = {one.pid: [f"{tmp_path}/xpu5"]}
        assert devices.holders([one.seen], devices.nodes(one.folder)) == (held, [])
        assert card_of(one) == ("xpu5",)


def test_a_mapping_of_a_card_whose_name_is_gone_is_not_nothing(tmp_path: Path) -> None:
    with holder(tmp_path, "mapped", "ends") as one:
        watched = devices.nodes(one.folder)
        (tmp_path / "xpu5").unlink()
        assert devices.holders([one.seen], watched) == ({}, [one.seen])


def test_a_file_that_it_has_is_in_use_when_its_first_thread_has_ended(tmp_path: Path) -> None:
    with holder(tmp_path, "mapped", "ends") as one:
        node = (tmp_path / "xpu5").stat()
        assert [file.path for file in openfiles.mapped(one.pid, f"{tmp_path}/")] == [f"{tmp_path}/xpu5"]
        found = openfiles.holders([one.seen], {(node.st_dev, node.st_ino)}, f"{tmp_path}/")
        assert found.of((node.st_dev, node.st_ino), "") == [one.seen]


def test_the_card_of_a_stuck_thread_is_kept_out_when_the_first_has_ended(tmp_path: Path) -> None:
    cards = [
        {"index": 3, "minor": 5, "node": "/dev/xpu5"},
        {"index": 4, "minor": 6, "node": "/dev/xpu6"},
    ]
    with holder(tmp_path, "open", "ends") as one:
        (tmp_path / "xpu6").symlink_to("/dev/full")
        one.wait()
        # the state that is told is of the thread that keeps it from ending
        assert (one.seen.state, one.seen.alive) == ("D", True)
        spec = {"cards": cards, "device_dir": one.folder}
        assert quarantine.held_by([one.seen], spec) == {one.pid: [3]}
        assert card_of(one) == ("xpu5",)


@pytest.mark.parametrize("first", ["ends", "waits"])
def test_the_map_is_not_read_while_any_of_its_threads_waits_in_the_kernel(tmp_path: Path, first: str) -> None:
    with holder(tmp_path, "mapped", first) as one:
        one.wait()
        if first == "waits":
            until(lambda: one.seen.state == "S", what="its first thread waits")
        watched = devices.nodes(one.folder)
        assert not openfiles.readable(one.seen)
        assert devices.holders([one.seen], watched) == ({}, [])
        assert openfiles.holders([one.seen], {(1, 1)}, "/nowhere/").unseen == [one.seen]
        looked = sight.look("/nowhere", 0, watched, host=False).processes[one.pid]
        assert (looked.process.state, looked.cards, looked.unreadable) == ("D", (), True)
        one.go_on()
        # seen as soon as it can be
        assert list(devices.holders([one.seen], watched)[0]) == [one.pid]
        looked = sight.look("/nowhere", 0, watched, host=False).processes[one.pid]
        assert (looked.cards, looked.unreadable) == (("xpu5",), False)


def test_its_container_is_known_when_its_first_thread_has_ended(tmp_path: Path) -> None:
    if not (FREEZER / "cgroup.procs").exists():
        pytest.skip("no control group of the first version here")
    name = secrets.token_hex(32)
    group = FREEZER / name
    group.mkdir()
    try:
        with holder(tmp_path, "open", "ends") as one:
            (group / "cgroup.procs").write_text(str(one.pid))
            assert name not in Path(f"/proc/{one.pid}/cgroup").read_text()
            assert sight.look("/nowhere", 0, [], host=False).processes[one.pid].container == name
    finally:
        until(lambda: not (group / "cgroup.procs").read_text().strip(), what="nobody is left in it")
        group.rmdir()
