from __future__ import annotations

import json

import pytest

from klops.actions.own import supervision
from klops.actions.own.container.create import Create
from klops.actions.own.container.steps import Remove, Start
from klops.actions.own.supervision import WaitAgent
from klops.commands.containerspec import ContainerSpec
from klops.errors import AgentError, ChangedMeanwhile, DockerUnavailable, TaskFailed
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
    stage.remote.on("docker create", "c0ffee\n").on("docker start", reply(rc=1, stderr="no space left"))
    stage.remote.on("docker stop").on("docker rm")
    with pytest.raises(TaskFailed, match="no space left") as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.code == "container-create"
    assert raised.value.hint == "the container was removed again"
    assert stage.remote.commands[-1] == "docker rm -v c0ffee"


def test_a_device_that_is_gone_is_named_and_has_a_code_of_its_own() -> None:
    stage = Stage()
    stage.remote.on("docker create", "c0ffee\n").on("docker start", reply(rc=1, stderr=MISSING))
    stage.remote.on("docker stop").on("docker rm")
    with pytest.raises(TaskFailed, match="its device /d/xpu1 is not on the host") as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.code == "card-missing"


def test_a_removal_that_fails_too_says_what_is_left() -> None:
    stage = Stage()
    stage.remote.on("docker create", "c0ffee0123456789\n").on("docker start", reply(rc=1, stderr=MISSING))
    stage.remote.on("docker stop").on("docker rm", reply(rc=1, stderr="device or resource busy"))
    with pytest.raises(TaskFailed) as raised:
        create(stage).carry_out(stage.ctx)
    assert "the container is left behind: docker rm -f c0ffee012345" in raised.value.hint
    assert "device or resource busy" in raised.value.hint


def test_a_new_container_whose_agent_never_comes_is_taken_back() -> None:
    stage = Waiting(10, restarts=4).stage
    stage.remote.on("docker create", "c0ffee\n").on("docker start").on("docker stop").on("docker rm")
    with pytest.raises(AgentError, match="no module named x") as raised:
        create(stage).carry_out(stage.ctx)
    assert "the container was removed again" in raised.value.hint
    assert stage.remote.commands[-2:] == ["docker stop -t 10 c0ffee", "docker rm -v c0ffee"]


TAKEN = 'Conflict. The container name "/klops" is already in use by container "5711a96e". You have to remove'


def holder(**labels: str) -> str:
    state, config = {"Status": "running"}, {"Image": "ubuntu", "Labels": labels}
    host = {"LogConfig": {"Config": {"labels": "io.klops.managed"}}}
    return json.dumps(
        [{"Id": "5711a96e", "Name": "/klops", "State": state, "Config": config, "HostConfig": host}]
    )


@pytest.mark.parametrize("made", ["", "1"])
def test_a_name_taken_meanwhile_removes_nothing_and_says_whose_it_is(made: str) -> None:
    stage = Stage()
    stage.remote.on("docker create", reply(rc=1, stderr=TAKEN))
    stage.remote.on("docker inspect", holder(**{"io.klops.managed": made, "io.klops.run": "another"}))
    with pytest.raises(ChangedMeanwhile) as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.code == "container-conflict"
    whose = "made by klops" if made else "not made by klops"
    assert f"by klops (5711a96e, ubuntu, running, {whose})" in raised.value.message
    assert len(stage.remote.commands) == 1


def test_an_engine_that_is_gone_is_not_a_container_that_could_not_be_made() -> None:
    stage = Stage()
    stage.remote.on("docker", reply(rc=1, stderr="Cannot connect to the Docker daemon at unix:///x"))
    with pytest.raises(DockerUnavailable) as raised:
        create(stage).carry_out(stage.ctx)
    assert raised.value.code == "docker-unavailable"


def test_the_diff_of_a_new_container_is_its_command() -> None:
    change = create(Stage()).change()
    assert change.before == ""
    assert change.after is not None
    assert "\n  --device /d/xpu1:/dev/xpu1\n" in change.after


def test_an_old_container_that_does_not_start_is_kept() -> None:
    stage = Stage()
    for said, code in ((MISSING, "card-missing"), ("OCI runtime create failed", "container-start")):
        stage.remote.on("docker start", reply(rc=1, stderr=said))
        with pytest.raises(TaskFailed) as raised:
            Start(DOCKER, "klops", "c0ffee", "exited").carry_out(stage.ctx)
        assert raised.value.code == code
    assert stage.remote.commands == ["docker start c0ffee"] * 2


def test_remove_stops_with_grace_and_never_by_force() -> None:
    stage = Stage()
    stage.remote.on("docker stop").on("docker rm")
    Remove(DOCKER, "klops", "c0ffee", True, 120).carry_out(stage.ctx)
    assert stage.remote.commands == ["docker stop -t 120 c0ffee", "docker rm -v c0ffee"]
    stage.remote.on("docker stop", reply(rc=1, stderr="daemon hangs"))
    with pytest.raises(TaskFailed, match="could not be stopped: daemon hangs"):
        Remove(DOCKER, "klops", "c0ffee", True, 120).carry_out(stage.ctx)
    assert stage.remote.commands[-1].startswith("docker stop")


class Waiting:
    """A host whose agent answers at the n-th look."""

    def __init__(self, looks: int, restarts: int = 0, made: bool = True) -> None:
        self.stage = Stage()
        self.looks = looks
        remote = self.stage.remote
        remote.on("docker version", '{"Server": {"Version": "24"}}')
        state = "restarting" if restarts else "running"
        known = json.loads(holder(**({"io.klops.managed": "1"} if made else {})))
        known[0] |= {"Id": "c0ffee", "State": {"Status": state}, "RestartCount": restarts}
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
    monkeypatch.setattr(supervision, "_PAUSE", 0.0)


def test_wait_until_the_supervisor_answers() -> None:
    host = Waiting(3)
    assert WaitAgent(host.stage.settings).carry_out(host.stage.ctx)["python"] == "3.10"
    assert [p.message for p in host.stage.progress] == ["waiting for the agent: no supervisor yet"] * 2
    assert host.stage.warnings == []


def test_an_agent_that_never_answers_shows_the_containers_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "AGENT_TIMEOUT", 0.0)
    host = Waiting(10)
    with pytest.raises(AgentError, match="no module named x") as raised:
        WaitAgent(host.stage.settings).carry_out(host.stage.ctx)
    assert "klops.container.python (python3)" in raised.value.hint


def test_a_container_that_somebody_removes_meanwhile_is_not_waited_for() -> None:
    host = Waiting(10)
    host.stage.remote.on("docker inspect", reply(rc=1, stderr="Error: No such object: klops"))
    with pytest.raises(TaskFailed, match="there is no container klops any more") as raised:
        WaitAgent(host.stage.settings).carry_out(host.stage.ctx)
    assert raised.value.code == "container-absent"
    assert host.looks == 9, "one look is enough"


def test_what_a_stranger_has_written_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "AGENT_TIMEOUT", 0.0)
    host = Waiting(10, made=False)
    with pytest.raises(AgentError, match="has no supervisor") as raised:
        WaitAgent(host.stage.settings).carry_out(host.stage.ctx)
    assert "no module named x" not in str(raised.value)
