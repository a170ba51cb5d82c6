"""The supervisor's loop: its rests, and looks in which the system refuses something."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.processes import procs
from klops.agent.supervision import supervisor
from klops.agent.supervision.supervisor import Supervisor
from klops.agent.units.lineage import Lineage


@pytest.mark.parametrize(
    ("soonest", "checks", "cost", "expected"),
    [
        (0.1, [], 0.02, 0.1),  # something starts or ends: looks cost what they cost
        (1.0, [60.0], 0.001, 1.0),
        (1.0, [60.0], 0.01, 4.0),
        (1.0, [60.0], 0.1, 10.0),
        (1.0, [4.9, 30.0], 0.1, 4.9),  # however dear a look is, a check begins when its interval is over
        (5.0, [], 0.001, 5.0),
    ],
)
def test_rest(soonest: float, checks: list[float], cost: float, expected: float) -> None:
    assert supervisor.rest(soonest, checks, cost) == pytest.approx(expected)


@contextmanager
def living() -> Iterator[procs.Process]:
    """A process that lives until its standard input is closed."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = procs.read(child.pid)
        assert process is not None
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # what a test looks at may have reaped it
                child.kill()


@pytest.fixture
def paths(tmp_path: Path) -> store.Paths:
    """A root without units."""
    made = store.Paths(str(tmp_path))
    made.make()
    return made


@pytest.fixture
def one(paths: store.Paths) -> Iterator[Supervisor]:
    """A supervisor that looks when the test says so."""
    made = Supervisor(paths, "digest", "package", 0, 0o022)
    yield made
    for managed in made.units.values():
        managed.close()
    made.server.close()
    made.selector.close()


def test_a_unit_that_the_system_refused_is_taken_as_soon_as_it_can_be(
    one: Supervisor, paths: store.Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = Path(paths.lineage("llm"))
    refused.mkdir()  # "Is a directory", as for any other error of the system
    one.take_over()
    one.look()
    one.look()
    assert (list(one.units), one.broken["llm"].code) == ([], "system")
    assert capsys.readouterr().err.count("llm: ") == 1
    refused.rmdir()
    with living() as process:
        Lineage(str(refused)).record(process, 1)
        one.look()
        assert one.broken == {}
        assert [member.pid for member in one.units["llm"].living] == [process.pid]


def test_a_look_that_fails_leaves_no_closed_descriptor_behind(one: Supervisor, paths: store.Paths) -> None:
    Path(paths.spec("odd")).mkdir()
    with living() as process:
        Lineage(paths.lineage("llm")).record(process, 1)
        one.take_over()
        one.look()
        (handle,) = one.units["llm"].handles.values()
        number = handle.fd
        folder = os.open(paths.run, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{folder}/supervisor.sock")
            client.sendall(b'{"verb": "status"}\n')
            os.kill(process.pid, 9)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            one.units["odd"].record.removing = True
            with pytest.raises(OSError, match="odd"):
                one.look()  # its specification can't be removed
            assert one.units["llm"].handles == {}
            # the client gets the lowest number that is free
            spare: list[int] = []
            while not spare or spare[-1] < number:
                spare.append(os.dup(folder))
            for fd in spare:
                if fd >= number:
                    os.close(fd)
            while b"units" not in _answered(client):
                for key, _ in one.selector.select(10):
                    key.data()
        for fd in spare:
            if fd < number:
                os.close(fd)
        os.close(folder)


def _answered(client: socket.socket) -> bytes:
    try:
        return client.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""
