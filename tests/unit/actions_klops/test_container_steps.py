from __future__ import annotations

import json

import pytest

from klops.actions.own.container import steps
from klops.actions.own.container.steps import Create, Remove, Start, WaitAgent
from klops.commands.containerspec import ContainerSpec
from klops.errors import AgentError, CommandFailed, TaskFailed
from klops.remote.fake import reply

from .support import Stage

DOCKER = ("docker",)
SPEC = ContainerSpec("klops", "vllm:1", ("python3", "/k/agent/current"), devices=(("/d/xpu1", "/dev/xpu1"),))
MISSING = 'error gathering device information while adding custom device "/d/xpu1": no such file or directory'


def create(stage: Stage) -> Create:
    return Create(DOCKER, SPEC, stage.settings)


def test_create_then_start_by_id_then_wait_for_the_agent() -> None:
    stage = Waiting(2).stage
    stage.remote.on("docker create", "WARNING: noise\nc0ffee\n").on("docker start")
    assert create(stage).carry_out(stage.ctx)["id"] == "c0ffee"
    assert stage.remote.commands[-1] == "docker start c0ffee"


def test_a_container_that_does_not_start_is_removed_by_its_id() -> None:
    stage = Stage()
    stage.remote.on("docker create", "c0ffee\n").on("docker start", reply(rc=1, stderr=MISSING)).on(
        "docker rm"
    )
    with pytest.raises(TaskFailed, match="no such file or directory") as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.code == "container-create"
    assert raised.value.hint == "the container was removed again"
    assert stage.remote.commands[-1] == "docker rm -v c0ffee"


def test_a_removal_that_fails_too_says_what_is_left() -> None:
    stage = Stage()
    stage.remote.on("docker create", "c0ffee0123456789\n").on("docker start", reply(rc=1, stderr=MISSING))
    stage.remote.on("docker rm", reply(rc=1))
    with pytest.raises(TaskFailed) as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.hint == "the container is left behind: docker rm c0ffee012345"


def test_a_new_container_whose_agent_never_comes_is_taken_back() -> None:
    stage = Waiting(10, restarts=4).stage
    stage.remote.on("docker create", "c0ffee\n").on("docker start").on("docker stop").on("docker rm")
    with pytest.raises(AgentError, match="no module named x") as raised:
        create(stage).carry_out(stage.ctx)
    assert "the container was removed again" in raised.value.hint
    assert stage.remote.commands[-2:] == ["docker stop -t 1 c0ffee", "docker rm -v c0ffee"]


def test_a_name_taken_meanwhile_removes_nothing() -> None:
    stage = Stage()
    stage.remote.on(
        "docker create", reply(rc=1, stderr='Conflict. The container name "/klops" is already in use')
    )
    with pytest.raises(TaskFailed, match="already in use"):
        create(stage).carry_out(stage.ctx)
    assert len(stage.remote.commands) == 1


def test_the_diff_of_a_new_container_is_its_command() -> None:
    change = create(Stage()).change()
    assert change.before == ""
    assert change.after is not None
    assert "\n  --device /d/xpu1:/dev/xpu1\n" in change.after


def test_an_old_container_that_does_not_start_is_kept() -> None:
    stage = Stage()
    stage.remote.on("docker start", reply(rc=1, stderr=MISSING))
    with pytest.raises(TaskFailed) as raised:
        Start(DOCKER, "klops", "c0ffee", "exited").carry_out(stage.ctx)
    assert raised.value.code == "container-start"
    assert raised.value.hint.startswith("klops up h --check ")
    assert stage.remote.commands == ["docker start c0ffee"]


def test_remove_stops_with_grace_and_never_by_force() -> None:
    stage = Stage()
    stage.remote.on("docker stop").on("docker rm")
    Remove(DOCKER, "klops", "c0ffee", True, 120).carry_out(stage.ctx)
    assert stage.remote.commands == ["docker stop -t 120 c0ffee", "docker rm -v c0ffee"]
    stage.remote.on("docker stop", reply(rc=1, stderr="daemon hangs"))
    with pytest.raises(CommandFailed):
        Remove(DOCKER, "klops", "c0ffee", True, 120).carry_out(stage.ctx)
    assert stage.remote.commands[-1].startswith("docker stop")


class Waiting:
    """A host whose agent answers at the n-th look."""

    def __init__(self, looks: int, restarts: int = 0) -> None:
        self.stage = Stage()
        self.looks = looks
        remote = self.stage.remote
        remote.on("docker version", '{"Server": {"Version": "24"}}')
        state = "restarting" if restarts else "running"
        known = [{"Id": "c0ffee", "State": {"Status": state}, "RestartCount": restarts}]
        remote.on("docker inspect", json.dumps(known))
        remote.on("/adopted.json", reply(rc=44))
        remote.on(" status --root", lambda _: self.status())
        remote.on(" about --root", json.dumps({"python": "3.10", "executable": "/v/python"}))
        remote.on("docker logs", reply("", stderr="launcher: no module named x"))

    def status(self) -> str:
        self.looks -= 1
        supervisor = {"cpid": 8, "start": 1} if self.looks <= 0 else None
        return json.dumps({"supervisor": supervisor, "units": {}})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_PAUSE", 0.0)


def test_wait_until_the_supervisor_answers() -> None:
    host = Waiting(3)
    assert WaitAgent(host.stage.settings).carry_out(host.stage.ctx)["python"] == "3.10"
    assert [p.message for p in host.stage.progress] == ["waiting for the agent: no supervisor yet"] * 2
    assert host.stage.warnings == []


def test_an_agent_that_never_answers_shows_the_containers_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "AGENT_TIMEOUT", 0.0)
    host = Waiting(10)
    with pytest.raises(AgentError, match="no module named x") as raised:
        WaitAgent(host.stage.settings).carry_out(host.stage.ctx)
    assert "klops.container.python (python3)" in raised.value.hint
