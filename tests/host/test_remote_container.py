"""Commands in a container of a real engine: whose status it is, and that nothing outlives its caller."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.errors import CommandFailed, CommandTimeout, DockerUnavailable, Interrupted
from klops.remote.container import ContainerRemote
from klops.remote.local import LocalRemote
from klops.remote.reads import ABSENT, CommandRead, FileRead
from tests.host.engine import Box, start_box
from tests.host.processes import running, until_runs
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with start_box() as found:
        yield found


@pytest.fixture
def inside(box: Box) -> Iterator[ContainerRemote]:
    remote = ContainerRemote(LocalRemote("host1"), box.docker, box.container)
    yield remote
    remote.close()


def test_the_status_is_the_command_s(inside: ContainerRemote) -> None:
    for status in (0, 1, 7, 126):
        assert inside.run(["sh", "-c", f"exit {status}"], check=False).rc == status
    assert inside.run(["sh", "-c", "kill -9 $$"], check=False).rc == 137
    assert inside.run(["no-such-program"], check=False).rc == 127


def test_streams_input_environment(inside: ContainerRemote) -> None:
    done = inside.run(
        ["sh", "-c", 'cat; printf %s "$SECRET"; echo err >&2'], stdin=b"\0\xff", env={"SECRET": "it's $1"}
    )
    assert (done.stdout, done.stderr) == (b"\0\xffit's $1", b"err\n")
    big = bytes(range(256)) * 20000
    assert inside.run(["cat"], stdin=big).stdout == big


def test_reads_and_files(inside: ContainerRemote) -> None:
    inside.put(b"content", "/tmp/a b/file", mode=0o600)
    replies = inside.read(
        [
            FileRead("file", "/tmp/a b/file"),
            FileRead("absent", "/tmp/absent"),
            CommandRead("id", ("id", "-u")),
        ]
    )
    assert replies["file"].stdout == b"content"
    assert replies["absent"].rc == ABSENT
    assert replies["id"].text == "0\n"


def test_a_container_that_is_not_there(box: Box, inside: ContainerRemote) -> None:
    absent = ContainerRemote(LocalRemote("host1"), box.docker, "klops-absent")
    for call in (lambda: absent.run(["true"]), lambda: absent.read([CommandRead("a", ("true",))])):
        with pytest.raises(CommandFailed, match="No such container") as caught:
            call()
        assert caught.value.code == "container-gone"
        assert "klops up host1" in caught.value.hint
    nobody = ContainerRemote(LocalRemote("host1"), ["docker", "-H", "unix:///nowhere/docker.sock"], "x")
    with pytest.raises(DockerUnavailable, match="docker"):
        nobody.run(["true"])


#: An engine that says something else, the first time it is asked to run ``:`` in the container.
LATE = """\
for last; do :; done
if [ "$last" = : ] && mkdir "$ASKED" 2>/dev/null; then echo "$SAYS" >&2; exit 1; fi
exec "$@"
"""
STOPPED = "OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown"
BUSY = "OCI runtime exec failed: exec failed: unable to start container process: unknown"


def late_docker(box: Box, asked: Path, says: str) -> list[str]:
    return ["env", f"ASKED={asked}", f"SAYS={says}", "sh", "-c", LATE, "sh", *box.docker]


@pytest.mark.parametrize("says", ["", STOPPED, BUSY], ids=["at once", "stopped", "busy"])
def test_a_container_that_stops_meanwhile(box: Box, tmp_path: Path, says: str) -> None:
    name, asked = f"klops-stops-{len(says)}", tmp_path / "asked"
    box.run(name)
    docker = late_docker(box, asked, says) if says else box.docker
    there = ContainerRemote(LocalRemote("host1"), docker, name)
    kill = [*box.docker, "kill", name]

    def stop() -> None:
        until_runs("sleep", "986.1")
        subprocess.run(kill, check=True, capture_output=True)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CommandFailed, match="stopped during") as caught:
        there.run(["sleep", "986.1"])
    thread.join()
    assert caught.value.code == "container-gone"
    assert asked.exists() == bool(says)


def test_a_container_that_docker_has_started_again_by_then(box: Box, tmp_path: Path) -> None:
    there = ContainerRemote(
        LocalRemote("host1"), late_docker(box, tmp_path / "asked", STOPPED), box.container
    )
    with pytest.raises(CommandFailed, match="stopped during") as caught:
        there.run(["sh", "-c", "kill -9 $$"])
    assert caught.value.code == "container-gone"


def test_an_engine_that_stops_meanwhile(box: Box, tmp_path: Path) -> None:
    says = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"
    there = ContainerRemote(LocalRemote("host1"), late_docker(box, tmp_path / "asked", says), box.container)
    with pytest.raises(DockerUnavailable):
        there.run(["sh", "-c", "kill -9 $$"])


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_timeout_ends_the_process_inside(inside: ContainerRemote, stubborn: bool) -> None:
    trap = "trap '' TERM; " if stubborn else ""
    with pytest.raises(CommandTimeout, match="was ended"):
        inside.run(["sh", "-c", f"{trap}sleep 986.2; sleep 986.2"], timeout=1)
    assert running("sleep", "986.2") == []


def test_an_interrupt_ends_the_process_inside(inside: ContainerRemote) -> None:
    def close_when_it_runs() -> None:
        until_runs("sleep", "986.3")
        inside.close()

    closer = threading.Thread(target=close_when_it_runs)
    closer.start()
    with pytest.raises(Interrupted):
        inside.run(["sleep", "986.3"])
    closer.join()
    assert running("sleep", "986.3") == []

    def interrupt(_: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside.stream(["sh", "-c", "echo x; sleep 986.4"], on_stdout=interrupt, on_stderr=interrupt)
    assert running("sleep", "986.4") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_watches_its_input_ends_with_its_docker_exec(box: Box, number: signal.Signals) -> None:
    """What `klops logs --follow` and the wait for a service rely on."""
    watching = ["cat", "-", f"/absent-{int(number)}"]
    client = [*box.docker, "exec", "-i", box.container, *watching]
    host = LocalRemote("host1")

    def end_the_client() -> None:
        until_runs(*watching)
        for pid in running(*client):
            os.kill(pid, number)

    ender = threading.Thread(target=end_the_client)
    ender.start()
    host.stream(client, on_stdout=lambda _: None, on_stderr=lambda _: None, keep_stdin=True)
    ender.join()
    until(lambda: not running(*watching), timeout=10, what="cat saw the end of its input")


def test_input_that_is_kept_open_inside(inside: ContainerRemote) -> None:
    seen: list[bytes] = []
    with pytest.raises(CommandTimeout):
        inside.stream(
            ["cat"], on_stdout=seen.append, on_stderr=seen.append, stdin=b"given", keep_stdin=True, timeout=1
        )
    assert b"".join(seen) == b"given"


def test_a_detached_child_is_left_alone(inside: ContainerRemote) -> None:
    text = "sleep 986.5 >/dev/null 2>&1 & echo $!; exit 3"
    done = inside.run(["sh", "-c", text], check=False, timeout=10)
    assert done.rc == 3
    assert len(running("sleep", "986.5")) == 1
    inside.run(["kill", done.text.strip()])
