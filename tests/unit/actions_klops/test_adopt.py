"""Adoption: what is planned for a container that klops didn't make, and what its steps send."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Plan, Seen, View
from klops.actions.catalog import catalog
from klops.actions.own.container import adopt, adopt_steps
from klops.actions.own.container.adopt_steps import CheckInside, EndSupervisor, Forget, PlaceAgent, Record
from klops.actions.own.hostview import HostView, look
from klops.actions.own.services.steps import RecordStopped, StartUnit
from klops.errors import KlopsError
from klops.inventory.settings import Settings
from klops.remote import agentpackage
from klops.remote.base import Reply
from klops.remote.fake import Call, reply
from tests.cases.harness import HERE, Case
from tests.unit.actions_klops.support import Stage, whats

CASE = Case.load(HERE / "_adopted_host.yml")
ID = "adadadadadad00000000000000000000000000000000000000000000000000"
DIGEST = agentpackage.build().digest
SILENT = {"rc": 126, "stderr": "exec: no such file or directory"}
#: What is found after each step of a fresh adoption, in their order.
BARE = {"adopted": {"rc": 44}, "agent.status": SILENT}
PLACED = {
    "adopted": {"rc": 44},
    "agent.status": json.dumps({"agent": DIGEST, "supervisor": None, "units": {}}),
}
RECORDED = {"agent.status": PLACED["agent.status"]}
SERVED = {"agent.status": json.dumps({"agent": DIGEST, "supervisor": {"cpid": 30, "start": 1}, "units": {}})}

CHECK = "check python3 of container klops"
PLACE = f"put the agent {DIGEST} into container klops (/data/klops/agent)"
ADOPT = "adopt container klops (adadadadadad), which klops did not make"
SUPERVISE = "start the agent's supervisor in container klops"


def planned(replies: Mapping[str, Any], action: str = "klops.container", **container: Any) -> Plan:
    """The plan for the case's host with other replies, and other keys of the inspected container."""
    inspected = json.loads(CASE.given["replies"]["container"])
    for key, value in container.items():
        known = inspected[0].get(key)
        inspected[0][key] = {**known, **value} if isinstance(known, dict) else value
    found = {**CASE.given["replies"], "container": json.dumps(inspected), **replies}
    return CASE.plan(catalog()[action], {"unit:main": {"rc": 44}, "state:main": {"rc": 44}, **found})


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (BARE, [CHECK, PLACE, ADOPT, SUPERVISE]),
        (PLACED, [CHECK, ADOPT, SUPERVISE]),
        (RECORDED, [SUPERVISE]),
        (SERVED, []),
    ],
    ids=["bare", "placed", "recorded", "served"],
)
def test_wherever_a_run_was_lost_the_next_one_does_what_is_left(
    found: dict[str, Any], left: list[str]
) -> None:
    plan = planned(found)
    assert plan.failure is None
    assert list(whats(plan)) == left
    assert plan.result["adopted"] is True
    told = [text for text in plan.warnings if "weaker" in text]
    assert bool(told) == (ADOPT in left)


def test_a_newer_agent_is_put_there_beside_a_supervisor_that_goes_on() -> None:
    old = json.dumps({"agent": "f" * 16, "supervisor": {"cpid": 30, "start": 1}, "units": {}})
    assert list(whats(planned({"agent.status": old}))) == [PLACE]


def test_where_the_root_is_mounted_nothing_is_copied() -> None:
    mount = {"Binds": ["/data/klops:/data/klops", "/data/models:/models:ro"]}
    plan = planned(BARE, HostConfig=mount)
    assert list(whats(plan)) == [CHECK, ADOPT, SUPERVISE]


def test_one_that_is_stopped_is_started_and_everything_in_it_looked_after() -> None:
    plan = planned({"agent.status": SILENT}, State={"Status": "exited"})
    assert list(whats(plan)) == ["start container klops (exited)", PLACE, SUPERVISE]


def test_a_record_of_another_container_counts_for_nothing() -> None:
    record = json.dumps({"schema": 1, "id": "beef" * 16, "name": "klops", "who": "ann", "at": 1.0})
    steps = whats(planned({**BARE, "adopted": record}))
    assert f"{ADOPT}; another one (beefbeefbeef) was adopted before" in steps


def test_lost_access_is_the_containers_fault_and_names_the_host_s_node_too() -> None:
    access = [{"node": "/dev/xpu1", "error": "Operation not permitted", "fault": "container"}]
    known = {"agent": DIGEST, "supervisor": {"cpid": 30, "start": 1}, "units": {}, "access": access}
    failure = planned({"agent.status": json.dumps(known)}).failure
    assert failure is not None
    assert failure.code == "device-access-lost"
    assert "/dev/xpu1 (the host's /dev/xpu5) can't be opened inside: Operation not" in failure.message
    assert "cards are not at fault" in failure.message


def test_nodes_that_no_program_would_find_are_a_reason_against_it() -> None:
    devices = json.loads(CASE.given["replies"]["container"])[0]["HostConfig"]["Devices"]
    devices[0]["PathInContainer"] = "/cards/first"
    failure = planned(BARE, HostConfig={"Devices": devices}).failure
    assert failure is not None
    assert failure.code == "container-unfit"
    assert "it has /dev/xpu4 as /cards/first" in failure.message


def test_row_C16_a_unit_asks_for_the_node_that_the_container_has_of_its_card() -> None:
    (start,) = (s for s in planned(SERVED, "klops.services").steps if isinstance(s, StartUnit))
    nodes = {card["index"]: card["node"] for card in start.spec["cards"]}
    assert nodes == {4: "/dev/xpu0", 5: "/dev/xpu2", 6: "/dev/xpu1", 7: "/dev/xpu3"}
    assert start.spec["device_dir"] == "/dev"


def looked(found: dict[str, Any], state: str) -> HostView:
    """The case's host as it is looked at, with other replies and its container in this state."""
    inspected = json.loads(CASE.given["replies"]["container"])
    inspected[0]["State"]["Status"] = state
    given = {**CASE.given["replies"], **found, "container": json.dumps(inspected)}
    texts = {k: v if isinstance(v, dict) else {"stdout": v} for k, v in given.items()}
    replies = {
        key: reply(v.get("stdout", ""), rc=v.get("rc", 0), stderr=v.get("stderr", ""))
        for key, v in texts.items()
    }
    return look(replies, CASE.typed_settings)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_an_interpreter_lacks_is_told_before_anything_is_written(stage: Stage) -> None:
    stage.remote.on("docker exec", reply(rc=126, stderr='exec: "python9": executable file not found'))
    stage.remote.on(
        "docker inspect", json.dumps([{"Id": ID, "Name": "/hand", "State": {"Status": "running"}}])
    )
    step = CheckInside(("docker",), "hand", ID, "python9")
    with pytest.raises(KlopsError, match="container hand") as raised:
        step.carry_out(stage.ctx)
    assert raised.value.code == "image-python"
    assert not step.changes


def test_the_agent_gets_its_name_only_when_it_is_whole(stage: Stage) -> None:
    stage.remote.on("docker", "")
    PlaceAgent(("docker",), "hand", ID, "/k", DIGEST, "").carry_out(stage.ctx)
    made, copied, named = stage.remote.log
    assert made.argv[:3] == ("docker", "exec", ID)
    assert "0700 /k/units" in made.text
    assert copied.argv == ("docker", "cp", f"/k/agent/{DIGEST}.pyz", f"{ID}:/k/agent/.{DIGEST}.new")
    assert named.argv[-5:-3] == (f"/k/agent/.{DIGEST}.new", f"/k/agent/{DIGEST}.pyz")
    stage.remote.on("docker cp", reply(rc=1, stderr="no space left on device"))
    with pytest.raises(KlopsError, match="no space left") as raised:
        PlaceAgent(("docker",), "hand", ID, "/k", DIGEST, "").carry_out(stage.ctx)
    assert raised.value.code == "agent-placing"


def test_of_other_agents_only_the_one_in_use_stays(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    for name in ("old.pyz", "used.pyz", f".{DIGEST}.new"):
        (folder / name).write_bytes(agentpackage.build().data)
    (folder / "old.cache-cpython-310").mkdir()
    (folder / "current").symlink_to("old.pyz")

    def run(call: Call) -> Reply:
        done = subprocess.run(call.argv[3:], capture_output=True, check=False)
        return reply(done.stdout, rc=done.returncode, stderr=done.stderr)

    stage.remote.on("docker exec", run).on("docker cp", "")
    step = PlaceAgent(("docker",), "hand", ID, str(tmp_path), DIGEST, "used")
    step.carry_out(stage.ctx)
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"{DIGEST}.pyz", "current", "used.pyz"])
    assert (folder / "current").readlink() == Path(f"{DIGEST}.pyz")
    assert (tmp_path / "units").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("found", "state", "steps"),
    [
        (SERVED, "running", ["end the agent's supervisor in container klops"]),
        (RECORDED, "running", []),
        ({"agent.status": SILENT}, "exited", []),
    ],
)
def test_letting_go_ends_what_is_ours_and_leaves_the_container(
    stage: Stage, found: dict[str, Any], state: str, steps: list[str]
) -> None:
    host = looked(found, state)
    plan = adopt.let_go(stage.view, host)
    forget = "forget that container klops (adadadadadad) was adopted; it stays as it is"
    assert list(whats(plan)) == [*steps, forget]
    assert "klops did not make it" in plan.warnings[0]


def test_whose_agent_is_silent_is_not_let_go(stage: Stage) -> None:
    failure = adopt.let_go(stage.view, looked({"agent.status": SILENT}, "running")).failure
    assert failure is not None
    assert failure.code == "image-python"


def test_the_record_names_the_container_by_its_id(stage: Stage) -> None:
    Record("/k", "hand", ID, "").carry_out(stage.ctx)
    data, mode = stage.remote.files["/k/adopted.json"]
    known = json.loads(data)
    assert (known["schema"], known["id"], known["name"], mode) == (1, ID, "hand", 0o644)
    assert known["who"]


def test_that_a_unit_is_stopped_is_written_into_the_layer_of_an_adopted_one(stage: Stage) -> None:
    stage.remote.on("docker cp", "")
    path = "/k/run/main.state.json"
    RecordStopped(path, "main", "the exited container", {"desired": "stopped"}, ID, ("docker",)).carry_out(
        stage.ctx
    )
    (call,) = stage.remote.log
    assert call.argv == ("docker", "cp", "-", f"{ID}:/k/run")
    assert b"main.state.json" in call.stdin
    assert b'"desired": "stopped"' in call.stdin
    assert stage.remote.files == {}


def stopped_again(stage: Stage, *, started: bool) -> list[str]:
    """What is done to a container whose interpreter won't do, beside asking."""
    shown = [{"Id": ID, "Name": "/hand", "State": {"Status": "running"}, "Config": {"StopTimeout": 7}}]
    stage.remote.on("docker exec", reply(rc=126, stderr="not found")).on("docker inspect", json.dumps(shown))
    stage.remote.on("docker stop", "")
    with pytest.raises(KlopsError) as raised:
        CheckInside(("docker",), "hand", ID, "python9", started).carry_out(stage.ctx)
    assert raised.value.code == "image-python"
    return [text for text in stage.remote.commands if not text.startswith("docker exec")]


def test_one_that_was_only_started_to_be_looked_at_is_stopped_again(stage: Stage) -> None:
    assert stopped_again(stage, started=True) == [f"docker stop -t 7 {ID}"]


def test_one_that_ran_goes_on(stage: Stage) -> None:
    assert stopped_again(stage, started=False) == []


@pytest.mark.parametrize(
    ("state", "started", "stops"), [("exited", True, 0), ("restarting", True, 1), ("restarting", False, 0)]
)
def test_a_main_process_that_ends_at_once_is_told_and_no_interpreter_blamed(
    stage: Stage, state: str, started: bool, stops: int
) -> None:
    shown = [{"Id": ID, "Name": "/hand", "State": {"Status": state, "ExitCode": 3}, "Config": {}}]
    stage.remote.on(
        "docker exec", reply(rc=1, stderr=f"Error response from daemon: Container {ID} is not running")
    )
    stage.remote.on("docker inspect", json.dumps(shown)).on("docker stop", "")
    with pytest.raises(KlopsError, match="its main process ended with status 3") as raised:
        CheckInside(("docker",), "hand", ID, "python3", started).carry_out(stage.ctx)
    assert raised.value.code == "container-start"
    assert sum(text.startswith("docker stop") for text in stage.remote.commands) == stops


def test_whether_the_container_is_started_is_told_to_the_look_into_it() -> None:
    for state, started in (("exited", True), ("running", False)):
        steps = planned({**BARE, "agent.status": SILENT}, State={"Status": state}).steps
        (check,) = (step for step in steps if isinstance(step, CheckInside))
        assert check.started is started


def refusing(stage: Stage, code: str, times: int = 99) -> list[str]:
    """An agent that refuses ``quit`` so many times; the verbs it is asked."""
    asked: list[str] = []

    def answer(call: Call) -> Reply:
        verb = next(word for word in call.argv if word in ("quit", "stop"))
        asked.append(verb)
        if verb == "quit" and len(asked) <= times:
            error = {"code": code, "message": "there is no unit None", "hint": ""}
            return reply(json.dumps({"error": error}), rc=1)
        return reply("{}")

    stage.remote.on("docker exec", answer)
    return asked


@pytest.mark.parametrize("code", ["main-process", "no-unit"])
def test_a_supervisor_that_is_the_main_process_stays_without_units(stage: Stage, code: str) -> None:
    asked = refusing(stage, code)
    EndSupervisor(stage.settings, ("main",)).carry_out(stage.ctx)
    assert asked == ["quit", "stop"]
    assert "main process" in stage.warnings[0]


def test_without_a_supervisor_one_is_started_to_end_the_units(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = refusing(stage, "no-supervisor", times=1)
    monkeypatch.setattr(adopt_steps, "supervise", lambda ctx, settings: asked.append("supervise"))
    EndSupervisor(stage.settings).carry_out(stage.ctx)
    assert asked == ["quit", "supervise", "quit"]


def test_units_that_live_without_a_supervisor_are_ended_before_the_record_goes(stage: Stage) -> None:
    unit = {"state": "stopped", "desired": "running", "lineage": [{"cpid": 9, "start": 1, "name": "vllm"}]}
    known = {"agent": DIGEST, "supervisor": None, "units": {"main": unit}}
    plan = adopt.let_go(stage.view, looked({"agent.status": json.dumps(known)}, "running"))
    assert [type(step) for step in plan.steps] == [EndSupervisor, Forget]


#: Stands for everything in a container that is nobody's business.
SENTINEL = "made-up-and-private"


@pytest.mark.parametrize("adopted", [True, False])
@pytest.mark.parametrize("params", [{}, {"recreate": "allow"}])
def test_nothing_of_a_strangers_own_is_in_what_is_told(adopted: bool, params: dict[str, str]) -> None:
    inspected = json.loads(CASE.given["replies"]["container"])
    env = [f"HF_TOKEN={SENTINEL}", f"HARMLESS={SENTINEL}", f"FROM_IMAGE={SENTINEL}"]
    inspected[0]["Config"] |= {"Cmd": ["run", SENTINEL], "Entrypoint": [SENTINEL], "Env": env}
    inspected[0]["Config"]["Labels"] = {"owner": SENTINEL}
    inspected[0]["Args"] = [SENTINEL]
    found = {**CASE.given["replies"], "container": json.dumps(inspected)}
    found |= {"unit:main": {"rc": 44}, "state:main": {"rc": 44}}
    if not adopted:
        found["adopted"] = {"rc": 44}
    settings = json.loads(json.dumps(CASE.given["settings"]))
    settings["container"]["env"] = {"HF_TOKEN": "of-the-settings"}
    typed = Settings.model_validate(settings)
    replies = {k: reply(**v) if isinstance(v, dict) else reply(v) for k, v in found.items()}
    told = []
    for name in ("klops.container", "klops.status"):
        action = catalog()[name]
        view = View(host="h", settings=typed, variables={}, render=str)
        given = action.params(**(params if name == "klops.container" else {}))
        plan = action.plan(given, view, Seen(replies))
        told += [str(plan.result), str(plan.changes), str(plan.warnings), plan.message, str(plan.failure)]
    text = "\n".join(told)
    assert SENTINEL not in text
    assert "env.HF_TOKEN" in text
