from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from klops.actions.base import Plan
from klops.actions.own.image import following, python
from klops.actions.own.image.arrival import Archive
from klops.actions.own.image.load import LoadImage
from klops.actions.own.image.pull import PullImage
from klops.actions.own.image.python import CheckPython, judge
from klops.commands.containerspec import ContainerSpec
from klops.errors import CommandTimeout, DockerUnavailable, Interrupted, KlopsError, TaskFailed
from klops.playbook.results import Status
from klops.playbook.tasks.outcome import planned
from klops.remote.base import OnOutput
from klops.remote.fake import Answer, Call, FakeRemote, reply

from .support import Stage

DOCKER = ("docker",)
NOT_FOUND = 'docker: OCI runtime create failed: exec: "python3": executable file not found in $PATH: unknown.'
SPEC = ContainerSpec("klops", "vllm:1", ("python3", "/k/agent/current"))


class Piecemeal(FakeRemote):
    """Hands a stream over in pieces, each so many seconds after the one before."""

    def __init__(self, clock: Clock, *pieces: tuple[float, str], rc: int = 0) -> None:
        super().__init__("h")
        self._clock, self._pieces, self._rc = clock, pieces, rc
        self.on("image inspect", '[{"Id": "sha256:11"}]').on("docker version", "{}")

    def stream(self, argv: Sequence[str], *, on_stdout: OnOutput, on_stderr: OnOutput, **more: Any) -> int:
        for seconds, text in self._pieces:
            self._clock.now += seconds
            on_stdout(text.encode())
        return self._rc


class Clock:
    """The time of the module that follows commands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def beside(position: int = 0, free: int = 0) -> str:
    """The line of the shell beside the command: bytes read, KiB free."""
    return f"{following.BESIDE}{position} {free}\n"


def pull(*pieces: tuple[float, str], clock: Clock, rc: int = 0) -> Stage:
    stage = Stage(remote=Piecemeal(clock, *pieces, rc=rc))
    PullImage(DOCKER, "vllm:1").carry_out(stage.ctx)
    return stage


def test_a_pull_in_which_nothing_moves_is_given_up(clock: Clock) -> None:
    same = [(5.0, beside(free=900)) for _ in range(int(following.STALLED / 5) + 2)]
    with pytest.raises(TaskFailed, match="pulling vllm:1 was given up: nothing has moved for 60") as raised:
        pull((0, "aaaaaaaaaaaa: Pulling fs layer\n"), *same, clock=clock)
    assert raised.value.code == "image-stalled"


def arriving(mib: int, seconds: float, times: int) -> list[tuple[float, str]]:
    """Docker's disk gets fuller, by so much each time."""
    return [(seconds, beside(free=10**9 - n * mib * 1024)) for n in range(times)]


def test_a_large_layer_may_take_hours(clock: Clock) -> None:
    stage = pull((0, "aaaaaaaaaaaa: Pulling fs layer\n"), *arriving(32, 250, 80), clock=clock)
    assert stage.progress[-1].message == "pulling vllm:1: 0 of 1 layers there, 0 fetched, 2.5 GiB written"
    assert any(text.startswith("docker version") for text in stage.remote.commands), "it was in doubt"


def test_what_others_write_does_not_keep_a_command_alive_for_ever(clock: Clock) -> None:
    with pytest.raises(TaskFailed, match="nothing has moved for 6") as raised:
        pull(*arriving(1, 10, 1000), clock=clock)  # a log
    assert raised.value.code == "image-stalled"
    with pytest.raises(TaskFailed, match="docker has said nothing") as raised:
        pull(*arriving(64, 100, 1000), clock=clock)  # somebody's checkpoints
    assert raised.value.code == "image-stalled"


@pytest.mark.parametrize("error", [CommandTimeout("14 s"), DockerUnavailable("hangs")])
def test_an_engine_that_does_not_answer_twice_in_a_row_is_given_up(clock: Clock, error: KlopsError) -> None:
    answers: Iterator[Answer] = iter([error, "{}", error, error])
    remote = Piecemeal(clock, (0, "aaaaaaaaaaaa: Pulling fs layer\n"), *arriving(64, 50, 1000))
    remote.on("docker version", lambda call: next(answers))
    with pytest.raises(DockerUnavailable, match=r"pulling vllm:1 .* hangs") as raised:
        PullImage(DOCKER, "vllm:1").carry_out(Stage(remote=remote).ctx)
    assert raised.value.code == "docker-hangs"
    assert next(answers, None) is None


def test_lines_of_docker_are_signs_of_life_too(clock: Clock) -> None:
    lines = [(500.0, f"aaaaaaaaaaa{n}: Pull complete\n{beside()}") for n in range(5)]
    assert pull(*lines, clock=clock).progress[-1].percent == 100


def test_a_pull_that_brought_nothing_new_says_so(clock: Clock) -> None:
    stage = Stage(remote=Piecemeal(clock))
    assert PullImage(DOCKER, "vllm:1", present=True).carry_out(stage.ctx) == {
        "id": "sha256:11",
        "changed": False,
    }


def test_no_change_after_all_is_ok_and_not_changed() -> None:
    plan = Plan((PullImage(DOCKER, "vllm:1", present=True),))
    for added, status in (({"changed": False}, Status.OK), ({"changed": True}, Status.CHANGED)):
        result = planned(plan, check=False, added=added)
        assert result.status is status
        assert bool(result.changes) == (status is Status.CHANGED) == result.values["changed"]


def test_how_far_an_archive_is_read(clock: Clock) -> None:
    size = 4 * 1024**3
    making = [(500.0, beside(size, 10**9 - n * 64 * 1024)) for n in range(9)]
    # a line may come in two pieces
    half = beside(size // 2)
    remote = Piecemeal(
        clock, (0, beside(0) + half[:9]), (1, half[9:]), *making, (9, "Loaded image: vllm:1\n")
    )
    stage = Stage(remote=remote)
    result = LoadImage(DOCKER, "vllm:1", Archive("/a.tar", size)).carry_out(stage.ctx)
    assert result == {"id": "sha256:11", "loaded": ["vllm:1"]}
    assert [step.percent for step in stage.progress] == [0, 50, *[None] * 9]
    assert stage.progress[1].message == "loading /a.tar: 2.0 GiB of 4.0 GiB"
    assert "docker makes the layers" in stage.progress[2].message


def test_an_archive_through_sudo_is_opened_by_the_user() -> None:
    script = following.reading(("sudo", "-n", "docker", "load"), "/a b.tar", "/data")[-1]
    assert "exec 3<'/a b.tar'\n" in script
    assert "cat <&3 | sudo -n docker load\n" in script


# -- the check of the interpreter ------------------------------------------------------------------------


def test_a_helper_that_was_made_after_its_client_was_ended_is_removed() -> None:
    stage = Stage()
    looks = iter([reply(rc=1, stderr="No such container"), reply("[]")])
    stage.remote.on("docker run", Interrupted("interrupted")).on("docker rm")
    stage.remote.on("docker inspect", lambda call: next(looks))
    with pytest.raises(Interrupted):
        CheckPython(DOCKER, SPEC).carry_out(stage.ctx)
    name = call_of(stage, "docker run").argv
    assert stage.remote.commands[-1] == f"docker rm --force {name[name.index('--name') + 1]}"


def test_the_search_for_a_helper_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_SETTLED", 0.3)
    stage = Stage()
    stage.remote.on("docker run", Interrupted("interrupted")).on("docker inspect", reply(rc=1))
    with pytest.raises(Interrupted):
        CheckPython(DOCKER, SPEC).carry_out(stage.ctx)
    assert "docker inspect" in stage.remote.commands[-1]


def call_of(stage: Stage, text: str) -> Call:
    return next(call for call in stage.remote.log if text in call.text)


def answer(version: str = "[3, 10, 19]", psutil: str = '"5.9.8"', why: str = "") -> str:
    return (
        f'noise of an entrypoint\nklops-python {{"version": {version}, "psutil": {psutil}, "why": "{why}"}}\n'
    )


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "code", "message"),
    [
        (0, answer(), "", "", ""),
        (0, answer("[3, 8, 0]"), "a warning", "", ""),
        (
            0,
            answer("[3, 7, 17]"),
            "",
            "image-python",
            "python3 of the image vllm:1 is Python 3.7.17, and 3.8",
        ),
        (
            0,
            answer(psutil="null", why="ImportError: no"),
            "",
            "image-psutil",
            "(Python 3.10.19) has no psutil",
        ),
        (0, "", "", "image-python", "is no Python 3: status 0"),
        (2, "", "Unknown option: -I\nusage: python", "image-python", "is no Python 3"),
        (
            127,
            "",
            NOT_FOUND + "\nSee 'docker run --help'.",
            "image-python",
            f"the image vllm:1 has no python3 that runs: {NOT_FOUND}",
        ),
        (125, "", "docker: invalid mount path", "image-check", "can't be asked: docker: invalid mount path"),
    ],
)
def test_what_the_interpreter_says(rc: int, stdout: str, stderr: str, code: str, message: str) -> None:
    error = judge(rc, stdout, stderr, python="python3", where="the image vllm:1")
    assert (error.code if error is not None else "") == code
    assert message in (error.message if error is not None else "")
    if code.startswith("image-p"):
        assert error is not None
        assert "klops.container.python" in error.hint
