"""Row C20: what klops starts in a container by exec ends with it, however it goes; what is detached does not.

Every process is found by what it said of itself: its pid in the container and its start time.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from klops.errors import CommandFailed, CommandTimeout
from klops.remote.container import ContainerRemote
from klops.remote.local import LocalRemote
from klops.remote.reads import CommandRead
from klops.sim import image
from tests.host.engine import Box, start_box
from tests.host.machines import entry, inventory
from tests.host.proxy import Proxy
from tests.host.sshd import Sshd
from tests.host.support import klops
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host

#: says who it is, then stays; the second one takes no notice of TERM, nor does what it starts
STUBS = {
    "obeys": 'read -r s </proc/$$/stat; set -- $s; echo "$$ ${22}"; exec sleep 300',
    "stubborn": "trap '' TERM; read -r s </proc/$$/stat; set -- $s; echo $$ ${22}; sleep 300 & sleep 300; :",
}
#: says nothing but who it is, and writes for ever
WRITER = 'while :; do echo "still here"; sleep 0.05; done'


#: both ways to a host and both stubs; all pairs in the long run
ways = pytest.mark.parametrize(
    ("host", "stub"),
    [
        ("far", "stubborn"),
        ("near", "obeys"),
        pytest.param("far", "obeys", marks=pytest.mark.long),
        pytest.param("near", "stubborn", marks=pytest.mark.long),
    ],
)


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with start_box() as found:
        yield found


@pytest.fixture
def bridge(sshd: Sshd) -> Iterator[Proxy]:
    with Proxy(sshd.port) as proxy:
        yield proxy


@pytest.fixture
def where(sshd: Sshd, box: Box, bridge: Proxy, tmp_path: Path) -> str:
    """An inventory of this machine twice: over ssh by way of the proxy, and local."""
    settings = {
        "root": str(tmp_path / "root"),
        "container": {"name": box.container},
        "docker": {"host": box.engine.host},
    }
    hosts = {
        "far": entry(sshd, tmp_path / "far", port=bridge.port, klops=settings),
        "near": {"ansible_connection": "local", "klops": settings},
    }
    return str(inventory(tmp_path / "hosts.yml", hosts))


def processes(box: Box) -> list[str]:
    """State and command line of all that is in the container, zombies too."""
    return sorted(box.engine.docker("top", box.container, "-eo", "pid,stat,args").splitlines()[1:])


@pytest.fixture(autouse=True)
def _nothing_is_left(box: Box) -> Iterator[None]:
    before = processes(box)
    yield
    until(lambda: processes(box) == before, timeout=20, what=f"only {before} is in the container")


def lives(box: Box, cpid: int, start: int) -> bool:
    """Whether the process is there: that pid in the container, started at that tick."""
    container = box.engine.docker("inspect", "--format", "{{.Id}}", box.container)
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            numbers = [line for line in status.read_text().splitlines() if line.startswith("NSpid:")]
            stat = (status.parent / "stat").read_text().rpartition(")")[2].split()
            group = (status.parent / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if numbers[0].split()[-1] == str(cpid) and int(stat[19]) == start and container in group:
            return True
    return False


@contextmanager
def executing(where: str, host: str, text: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A real klops that runs the stub in the container: its process, and who the stub says it is."""
    argv = [sys.executable, "-m", "klops", "exec", host, "-i", where, "--", "sh", "-c", text]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:  # type: ignore[call-overload]  # of dicts
        try:
            cpid, start = map(int, process.stdout.readline().split())
            yield process, cpid, start
        finally:
            process.kill()


@ways
def test_row_C20_a_ctrl_c_ends_the_process(box: Box, where: str, host: str, stub: str) -> None:
    with executing(where, host, STUBS[stub]) as (process, cpid, start):
        assert lives(box, cpid, start)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert not lives(box, cpid, start)


@pytest.mark.parametrize("stub", ["obeys", pytest.param("stubborn", marks=pytest.mark.long)])
def test_row_C20_b_a_lost_link_ends_the_process(box: Box, where: str, bridge: Proxy, stub: str) -> None:
    with executing(where, "far", STUBS[stub]) as (process, cpid, start):
        assert lives(box, cpid, start)
        bridge.refuse()
        until(lambda: not lives(box, cpid, start), timeout=20, what="the process has ended by itself")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 125, err
    assert "connection lost" in err
    assert re.search(rf"process \d+ \(start \d+\) of container {box.container} ends by itself", err), err


@ways
def test_row_C20_b_kill_9_of_klops_ends_the_process(box: Box, where: str, host: str, stub: str) -> None:
    with executing(where, host, STUBS[stub]) as (process, cpid, start):
        assert lives(box, cpid, start)
        process.kill()
        process.wait()
        until(lambda: not lives(box, cpid, start), timeout=20, what="the process has ended by itself")


@pytest.mark.parametrize("stub", ["stubborn", pytest.param("obeys", marks=pytest.mark.long)])
def test_row_C20_c_a_timeout_ends_the_process(box: Box, stub: str) -> None:
    seen: list[bytes] = []
    inside = ContainerRemote(LocalRemote("near"), box.docker, box.container)
    with pytest.raises(CommandTimeout, match="was ended"):
        inside.stream(["sh", "-c", STUBS[stub]], on_stdout=seen.append, on_stderr=seen.append, timeout=1)
    cpid, start = map(int, b"".join(seen).split())
    assert not lives(box, cpid, start)


def test_row_C20_a_detached_start_tells_the_true_pid_and_outlives_all(
    box: Box, where: str, bridge: Proxy
) -> None:
    done = klops(
        "exec", "far", "-i", where, "-o", "json", "--detach", "--log", "/tmp/log", "--", "sh", "-c", WRITER
    )
    assert done.rc == 0, done.stderr
    found: dict[str, Any] = done.json["hosts"]["far"]
    try:
        bridge.cut()
        _is_the_writer(box, found)
    finally:
        box.engine.docker("exec", box.container, "kill", "-KILL", str(found["cpid"]))


def _is_the_writer(box: Box, found: dict[str, Any]) -> None:
    stat = Path(f"/proc/{found['pid']}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[19]) == found["start"]
    assert Path(f"/proc/{found['pid']}/cmdline").read_bytes() == f"sh\0-c\0{WRITER}\0".encode()
    assert lives(box, found["cpid"], found["start"])
    assert stat[2] == stat[3], "it leads a session of its own"

    def written() -> int:
        return int(box.engine.docker("exec", box.container, "stat", "-c", "%s", "/tmp/log"))

    before = written()
    until(lambda: written() > before, timeout=10, what="it goes on writing")
    assert box.engine.docker("exec", box.container, "stat", "-c", "%a", "/tmp/log") == "600"
    names = box.engine.docker("exec", box.container, "ls", "/tmp").split()
    assert [name for name in names if name.startswith("log")] == ["log"]


def test_a_detached_start_that_can_t_be_says_why(box: Box, where: str) -> None:
    start = ("exec", "near", "-i", where, "-o", "json", "--detach")
    for more, said in (
        (("--log", "/tmp/l", "--", "no-such-program"), "no such program"),
        (("--log", "/absent/l", "--", "true"), "/absent/l"),
    ):
        done = klops(*start, *more)
        assert done.rc == 125
        error = done.json["hosts"]["near"]["error"]
        assert said in error["message"]
        assert error["hint"]
    assert "l" not in box.engine.docker("exec", box.container, "ls", "/tmp").split()


@pytest.mark.parametrize(("text", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_row_C20_exit_codes_pass_through(where: str, text: str, status: int) -> None:
    assert klops("exec", "near", "-i", where, "--", "sh", "-c", text).rc == status


def test_row_C20_a_container_that_goes_away_is_told_apart_from_a_killed_command(box: Box) -> None:
    box.run("klops-goes")
    there = ContainerRemote(LocalRemote("near"), box.docker, "klops-goes")

    def remove(_: bytes) -> None:
        box.engine.docker("rm", "--force", "klops-goes")

    with pytest.raises(CommandFailed) as caught:
        there.stream(["sh", "-c", STUBS["obeys"]], on_stdout=remove, on_stderr=remove)
    assert caught.value.code == "container-gone"
    assert "klops up near" in caught.value.hint


def test_nothing_is_left_to_a_main_process_that_takes_no_care_of_orphans(box: Box) -> None:
    mounts = [word for volume in image.volumes() for word in ("-v", volume)]
    box.engine.docker("run", "--detach", "--name", "klops-bare", *mounts, box.image, "sleep", "infinity")
    host = LocalRemote("near")
    inside = ContainerRemote(host, box.docker, "klops-bare")
    inside.run(["cat"], stdin=b"some input")
    inside.read([CommandRead("id", ("id", "-u"))])
    with pytest.raises(CommandTimeout):
        inside.run(["sleep", "300"], timeout=1)
    who = inside.launch(["sleep", "300"], log="/log")
    inside.run(["kill", str(who.pid)])

    def left() -> list[str]:
        lines = box.engine.docker("top", "klops-bare", "-eo", "pid,args").splitlines()[1:]
        return [line for line in lines if not line.endswith("sleep infinity")]

    until(lambda: not left(), timeout=10, what="only the main process is there, and no zombie")
    box.engine.docker("rm", "--force", "klops-bare")


def test_a_lot_of_output_comes_whole(box: Box) -> None:
    count = 0

    def take(data: bytes) -> None:
        nonlocal count
        count += len(data)

    inside = ContainerRemote(LocalRemote("near"), box.docker, box.container)
    rc = inside.stream(["head", "-c", "50000000", "/dev/zero"], on_stdout=take, on_stderr=print)
    assert (rc, count) == (0, 50_000_000)


@pytest.mark.long
def test_a_command_that_says_nothing_for_more_than_a_minute(where: str) -> None:
    assert klops("exec", "far", "-i", where, "--", "sh", "-c", "sleep 70; exit 3").rc == 3
