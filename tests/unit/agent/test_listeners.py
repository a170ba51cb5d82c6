"""Who listens on a port: every address counts, and whoever it is, is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from klops.agent.processes import accounts, listeners, procs
from klops.agent.units import launching
from tests.unit.agent.opening import opener
from tests.waiting import until

#: Listens where and on which port it is told, and says that it does.
_LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as listening:
    listening.bind((sys.argv[1], int(sys.argv[2])))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def stranger(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Pid and port of a process that listens on an address."""
    argv = [sys.executable, "-c", _LISTEN, request.param, "0", "--api-key", "made-up-and-private"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:  # type: ignore[call-overload]  # of dicts
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


@pytest.mark.parametrize("stranger", ["0.0.0.0", "127.0.0.1", "127.0.0.9", "::", "::1"], indirect=True)
def test_a_stranger_on_any_address_is_in_the_way_and_named(stranger: tuple[int, int]) -> None:
    pid, port = stranger
    problem, lacking, _ = launching.obstacle({"cards": [], "device_dir": "/dev", "port": port}, {}, opener())
    me = accounts.name(os.geteuid())
    assert problem.startswith(f"port {port} is taken by pid {pid} (")
    assert f"of user {me}: {sys.executable}" in problem
    assert "made-up-and-private" not in problem
    assert not lacking


def test_one_that_can_t_be_seen_is_told_by_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        (found,) = listeners.on_port(mine.getsockname()[1])
    # as of a process outside this container: no pid here leads to it
    monkeypatch.setattr(procs, "pids", list)
    said = listeners.describe_owner(found._replace(uid=4711))
    assert "not visible from here, user 4711" in said


def test_one_that_is_stuck_is_named_without_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    me = procs.read(os.getpid())
    assert me is not None
    stuck = me._replace(state=procs.WAITING)
    monkeypatch.setattr(procs, "read", lambda pid: stuck)

    def title(pid: int) -> str:
        raise AssertionError(f"the command line of {pid} is read, and whoever reads it may wait with it")

    monkeypatch.setattr(procs, "title", title)
    with socket.create_server(("127.0.0.1", 0)) as mine:
        (found,) = listeners.on_port(mine.getsockname()[1])
        assert listeners.describe_owner(found) == (
            f"pid {me.pid} ({me.name}) of user {accounts.name(os.geteuid())}"
        )


def test_a_port_that_was_left_is_free_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            mine.accept()[0].close()  # the connection is in TIME_WAIT after this, and nobody's
    until(lambda: not listeners.on_port(port), timeout=5, what="nobody listens there")
    assert launching.obstacle({"cards": [], "device_dir": "/dev", "port": port}, {}, opener()).problem == ""
