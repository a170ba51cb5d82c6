"""The same keywords with real programs on this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.inventory.connection import Connection
from klops.playbook.model import LoopControl, Retry
from klops.playbook.results import Status
from klops.playbook.tasks.host import Host
from klops.remote.base import Remote
from klops.remote.factory import open_remote
from tests.unit.playbook.onehost import Bench, CountingLock, Fleet, task

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of a POSIX host")


class LocalFleet(Fleet):
    """Hosts that are this machine."""

    def host(self, name: str) -> Host:
        """The host in this run."""
        if name not in self._hosts:
            connection = Connection(name, name, kind="local")
            lock = CountingLock()

            def opened(*identity: Any) -> Remote:
                return open_remote(connection)

            self._hosts[name] = Host(name, opened, lambda remote, root: lock)
        return self._hosts[name]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Two hosts on this machine, and a folder."""
    made = Bench(LocalFleet({"h1": {}, "h2": {}}), extra={"folder": str(tmp_path)})
    yield made
    for host in made.fleet._hosts.values():
        host.close()


def test_a_program_is_tried_until_it_succeeds(bench: Bench, tmp_path: Path) -> None:
    counts = 'echo x >> {{ folder }}/tries; test "$(grep -c x {{ folder }}/tries)" -ge 3'
    result = bench.run(task("shell", {"cmd": counts}, register="r", retry=Retry(("r.rc == 0",), 5, 0)))
    assert (result.status, result.values["attempts"]) == (Status.CHANGED, 3)
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_what_a_failing_program_said_is_registered_and_judged(bench: Bench) -> None:
    says = task(
        "shell",
        {"cmd": "echo out; echo err >&2; exit {{ code }}"},
        register="r",
        loop=[0, 3],
        loop_control=LoopControl("code", "place"),
        failed_when=("r.rc not in [0, 3]",),
        changed_when=("r.rc == 3",),
    )
    assert bench.run(says).status is Status.CHANGED
    assert bench.shows("r.results | map(attribute='rc') | list") == [0, 3]
    assert bench.shows("r.results | map(attribute='changed') | list") == [False, True]
    assert bench.shows("r.results[1].stderr_lines + [r.results[1].stdout, r.results[1].place]") == [
        "err",
        "out",
        1,
    ]


def test_environment_and_delegation(bench: Bench) -> None:
    shows = task(
        "command", {"cmd": "printenv WHO"}, register="r", environment=({"WHO": "{{ inventory_hostname }}"},)
    )
    bench.run(shows)
    assert bench.shows("r.stdout") == "h1"
    delegated = task(
        "command",
        {"cmd": "printenv WHO"},
        register="r",
        delegate_to="localhost",
        environment=({"WHO": "{{ ansible_delegated_vars | list | first }}"},),
    )
    bench.run(delegated)
    assert bench.shows("r.stdout") == "localhost"


def test_facts_of_this_machine(bench: Bench) -> None:
    assert bench.shows("ansible_facts.nodename") == socket.gethostname()
    assert bench.shows("hostvars.h2.ansible_nodename") == socket.gethostname()
    assert bench.fleet.host("h1").commands_run == 1


@pytest.mark.parametrize(
    ("params", "changed"),
    [
        ({"cmd": "/no/such/program"}, False),
        ({"cmd": "no-such-program a b"}, False),
        ({"cmd": "/etc/passwd"}, False),
        # it ran, whatever it said
        ({"cmd": "sh -c /no/such/program"}, True),
        ({"cmd": "false"}, True),
    ],
)
def test_a_program_that_could_not_be_started_has_changed_nothing(
    bench: Bench, params: dict[str, Any], changed: bool
) -> None:
    # as seen in ansible-core 2.19
    result = bench.run(task("command", params, register="r", ignore_errors=True))
    assert (result.status, result.values["changed"]) == (Status.FAILED, changed)
