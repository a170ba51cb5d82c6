"""The look at an engine that something waits for: when it is taken, and what follows from its answer."""

from __future__ import annotations

import shlex

import pytest

from klops.commands.docker import prefix_of, version
from klops.errors import CommandTimeout, HostUnreachable, Interrupted, KlopsError
from klops.remote import enginewatch
from klops.remote.containerreads import AgentRead, PidMapRead
from klops.remote.enginewatch import ANSWERS, EngineWatch, hanging, is_look, waiting
from klops.remote.environment import EnvironmentRead
from klops.remote.fake import Answer, Call, FakeRemote, reply
from klops.remote.reads import CommandRead, FileRead, FirstRead
from tests.waiting import until

#: a look whose own shell did not start: the engine was never asked
NOT_BEGUN = CommandTimeout("too long", rc=124, code="shell")
DOCKER = ("sudo", "-n", "docker", "-H", "unix:///s")


@pytest.mark.parametrize(
    ("argv", "prefix"),
    [
        (("docker", "inspect", "x"), ("docker",)),
        (("docker", "-H", "unix:///s", "exec", "c", "docker"), ("docker", "-H", "unix:///s")),
        ((*DOCKER, "version"), DOCKER),
        (("sudo", "-n", "ls"), ()),
        (("ls", "docker"), ()),
        ((), ()),
    ],
)
def test_a_command_line_that_calls_docker(argv: tuple[str, ...], prefix: tuple[str, ...]) -> None:
    assert prefix_of(argv) == prefix


def test_reads_that_call_docker() -> None:
    inspect = CommandRead("a", (*DOCKER, "inspect", "x"))
    assert inspect.engine == DOCKER
    assert PidMapRead("a", docker=DOCKER, container="c").engine == DOCKER
    agent = AgentRead("a", docker=DOCKER, container="c", python="python3", agent="/a", verb="status")
    assert agent.engine == DOCKER
    assert FirstRead("a", (FileRead("f", "/f"), inspect)).engine == DOCKER
    assert EnvironmentRead("a", inspect, (("A", "b"),)).engine == DOCKER
    assert FileRead("a", "/f").engine == ()
    assert CommandRead("a", ("df", "-Pk")).engine == ()


def test_what_waits_for_the_engine_alone() -> None:
    inside = "docker -H unix:///s exec c python3 -I agent status"
    lines = ["sh -c eval", inside, "sudo -n docker -H unix:///s inspect --type container c ", ""]
    assert waiting(lines) == "sudo -n docker -H unix:///s inspect --type container c"
    assert waiting(["sh", inside, "docker pull x", "docker"]) == ""
    assert is_look(version(DOCKER))
    assert not is_look((*DOCKER, "inspect", "x"))


def watch_when_due(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, *, reading: bool = True
) -> tuple[EngineWatch, FakeRemote]:
    """A watch whose first look is due at once, and ends so."""
    monkeypatch.setattr(enginewatch, "PATIENCE", 0.0)
    host = FakeRemote("host1").on("version", answer)
    return EngineWatch(host, DOCKER, reading=reading), host


def test_no_look_before_it_is_due() -> None:
    host = FakeRemote("host1")
    watch = EngineWatch(host, DOCKER, reading=True)
    assert not watch.hangs()
    watch.close()
    assert host.log == []


@pytest.mark.parametrize("end", [CommandTimeout("too long", rc=124), hanging("host1", "no answer")])
def test_an_engine_that_does_not_answer_hangs(monkeypatch: pytest.MonkeyPatch, end: KlopsError) -> None:
    watch, host = watch_when_due(monkeypatch, end)
    until(watch.hangs, timeout=10, what="the look is over")
    assert host.commands == [shlex.join(version(DOCKER))]
    error = watch.error("docker inspect x", "; process 7 may still run there")
    assert error.code == "docker-hangs"
    assert "host1" in error.message
    assert "`docker version` got no answer within 14 s, and docker inspect x none within" in error.message
    assert error.message.endswith("; process 7 may still run there")
    assert "systemctl status docker" in error.hint
    assert "as the last resort" in error.hint
    watch.close()


def test_work_is_given_up_when_several_looks_in_a_row_are_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(ANSWERS) >= 60
    slow = CommandTimeout("too long", rc=124)
    answers: list[Answer] = [slow, slow, "{}", slow, slow, slow]

    def answer(_: Call) -> Answer:
        return answers.pop(0)

    watch, host = watch_when_due(monkeypatch, answer, reading=False)
    until(watch.hangs, timeout=10, what="it is given up")
    assert answers == []
    assert len(host.commands) == 6
    assert "`docker version`, asked 3 times, got no answer within 62 s" in watch.error("docker x", "").message


@pytest.mark.parametrize(
    "answer", ["{}", reply(rc=1, stderr="down"), HostUnreachable("gone"), Interrupted("x"), NOT_BEGUN]
)
def test_any_other_end_of_the_look_is_no_verdict(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    watch, host = watch_when_due(monkeypatch, answer)
    # no pause between the looks either, so several of them follow each other
    until(lambda: watch.hangs() or len(host.log) > 2, timeout=10, what="three looks")
    assert not watch.hung
    watch.close()


def test_what_has_said_something_is_not_watched_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, host = watch_when_due(monkeypatch, CommandTimeout("too long", rc=124))
    watch.heard()
    assert not watch.hangs()
    assert host.log == []


def test_a_verdict_that_comes_after_the_answer_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, _ = watch_when_due(monkeypatch, CommandTimeout("too long", rc=124))
    until(watch.hangs, timeout=10, what="the look is over")
    watch.heard()
    assert not watch.hangs()
