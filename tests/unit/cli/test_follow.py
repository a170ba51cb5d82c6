"""`klops logs --follow` over a link that breaks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import psutil
import pytest

from klops.errors import AuthenticationFailed, ConnectionLost, HostUnreachable
from klops.remote.base import Given, OnOutput, Reply
from klops.remote.fake import FakeRemote, reply
from klops.remote.reads import ABSENT
from tests.unit.cli.conftest import CHECKOUT, MADE, MANAGED, LocalHost
from tests.waiting import until

KNOWN = {**MADE, "Id": "1", "Name": "/klops", "Config": {"Labels": MANAGED}}
RUNNING = json.dumps([{**KNOWN, "State": {"Status": "running"}}])
NOT_ADOPTED = reply(rc=ABSENT)
LOG = b"".join(b"%04d line\n" % n for n in range(300))


class Link(FakeRemote):
    """A host whose log stream is cut after ``until`` bytes (None: it ends well)."""

    def __init__(self, begin: int, until: int | None, asked: list[list[str]]) -> None:
        super().__init__("here")
        self.begin, self.until, self.asked = begin, until, asked
        self.on("inspect", RUNNING).on("adopted.json", NOT_ADOPTED).on(
            " status ", '{"now": 1000.0, "units": {}}'
        )

    def stream(
        self,
        argv: Sequence[str],
        *,
        on_stdout: OnOutput,
        on_stderr: OnOutput,
        stdin: Given = b"",
        timeout: float | None = None,
        keep_stdin: bool = False,
    ) -> int:
        assert keep_stdin
        self.asked.append(list(argv))
        for at in range(self.begin, self.until or len(LOG), 7):
            on_stdout(LOG[at : min(at + 7, self.until or len(LOG))])
        if self.until is not None:
            raise ConnectionLost("here: the link is gone")
        return 0


def dead(error: HostUnreachable) -> FakeRemote:
    remote = FakeRemote("here")
    return remote.on("", error)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Hand out these remotes, one a connection; returns the waits between them."""

    def use(*remotes: FakeRemote) -> list[float]:
        waits: list[float] = []
        left = iter(remotes)

        def open_remote(*_: Any, **__: Any) -> FakeRemote:
            return next(left)

        monkeypatch.setattr("klops.remote.factory.open_remote", open_remote)
        monkeypatch.setattr("klops.cli.logs.time.sleep", waits.append)
        return waits

    return use


def test_it_goes_on_where_it_was(host: LocalHost, links: Callable[..., list[float]]) -> None:
    asked: list[list[str]] = []
    waits = links(
        Link(0, 1234, asked),
        dead(HostUnreachable("here: refused")),
        dead(HostUnreachable("here: refused")),
        Link(500, 1235, asked),
        Link(0, None, asked),
    )
    rc, out, err = host.klops("logs", "here", "-f", "--since", "10m")
    assert rc == 0, err
    assert out.encode() == LOG
    assert waits == [1.0, 2.0, 4.0, 1.0]
    assert err.count("connected again") == 2
    assert asked[0][:3] == ["docker", "exec", "-i"]
    assert asked[0][-6:] == ["--since", "400.000", "--follow", "--while-stdin", "--root", str(host.root)]
    assert "--since" not in asked[1]


def test_without_follow_a_broken_link_is_an_error(host: LocalHost, links: Callable[..., list[float]]) -> None:
    links(Link(0, 100, []))
    assert host.klops("logs", "here")[0] == 4


def test_a_host_that_was_never_there_is_not_waited_for(
    host: LocalHost, links: Callable[..., list[float]]
) -> None:
    assert links(dead(HostUnreachable("here: refused"))) == []
    assert host.klops("logs", "here", "-f")[0] == 4


def test_what_time_does_not_heal_ends_it(host: LocalHost, links: Callable[..., list[float]]) -> None:
    links(Link(0, 1234, []), dead(AuthenticationFailed("here: no")))
    rc, _, err = host.klops("logs", "here", "-f")
    assert rc == 4
    assert "here: no" in err


def test_a_log_that_cannot_be_read_says_why(host: LocalHost, links: Callable[..., list[float]]) -> None:
    remote = FakeRemote("here")
    remote.on("inspect", RUNNING).on("adopted.json", NOT_ADOPTED).on(" status ", '{"now": 1.0}').on(
        " logs ", reply(rc=2, stderr="no such unit")
    )
    links(remote)
    rc, _, err = host.klops("logs", "here")
    assert rc == 1
    assert "no such unit" in err


def test_a_container_that_stops_meanwhile_is_named(
    host: LocalHost, links: Callable[..., list[float]]
) -> None:
    states = iter([RUNNING, RUNNING.replace("running", "exited")])
    remote = FakeRemote("here")
    remote.on("inspect", lambda _: next(states)).on("adopted.json", NOT_ADOPTED).on(
        " status ", '{"now": 1.0}'
    ).on(" logs ", reply(rc=137))
    links(remote)
    rc, _, err = host.klops("logs", "here", "-f")
    assert rc == 1
    assert "container klops is exited" in err


@pytest.mark.parametrize("answer", ["", "{}", "Traceback", reply('{"now": 1.0}', rc=1)])
def test_an_agent_that_does_not_answer(
    host: LocalHost, links: Callable[..., list[float]], answer: str | Reply
) -> None:
    links(FakeRemote("here").on("inspect", RUNNING).on("adopted.json", NOT_ADOPTED).on(" status ", answer))
    rc, _, err = host.klops("logs", "here")
    assert rc == 1
    assert "the agent in container klops did not answer" in err
    assert "klops up here" in err


def followers(host: LocalHost) -> list[int]:
    """Processes of the agent that follow a log of this host."""
    found = [(p.pid, p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    return [pid for pid, argv in found if "--while-stdin" in argv and str(host.root) in argv]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_follows_on_when_klops_is_gone(host: LocalHost, number: signal.Signals) -> None:
    host.container()
    host.agent()
    (host.root / "log").mkdir()
    (host.root / "log" / "tiny.log").write_text("one line\n")
    command = [sys.executable, "-m", "klops", "logs", "here", "-f", "-i", str(host.home / "hosts.yml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as klops:
        assert klops.stdout is not None
        try:
            assert klops.stdout.readline() == b"one line\n"
            assert followers(host)
            klops.send_signal(number)
            assert klops.wait(20) == (130 if number == signal.SIGINT else -number)
        finally:
            klops.kill()
    until(lambda: not followers(host), timeout=10, what="the agent saw the end of its input")
