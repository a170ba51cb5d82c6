"""The clean-up itself, and what it came to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Plan
from klops.actions.own.reap import steps as reaping
from klops.actions.own.reap.findings import Memory
from klops.actions.own.reap.steps import Lift, Reap, Settle
from klops.agent.options import Options
from klops.agent.reaping import verb
from klops.errors import AgentError, TaskFailed
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import reply

from .support import SETTINGS, Stage

WHERE = {**SETTINGS, "cards": {"expected": 2, "smi": {"where": "host"}}}
ID = "c0ffee000000aa"
INSPECT = json.dumps(
    [
        {
            "Id": ID,
            "Name": "/klops",
            "State": {"Status": "running"},
            "Config": {"Labels": {"io.klops.managed": "1"}},
            "HostConfig": {"LogConfig": {"Config": {"labels": "io.klops.managed"}}, "Binds": ["/k:/k"]},
        }
    ]
)
WORKER = {
    "pid": 4711,
    "cpid": 31,
    "start": 77,
    "name": "VLLM::Worker",
    "cards": ["xpu1"],
    "state": "S",
    "reason": "of unit main",
    "action": "term",
    "outcome": "skipped",
}


def smi(*used: int) -> str:
    """``xpu-smi -m`` of cards with this memory in use."""
    row = '00000000:{at:02x}:00.0 {at} {at} SN{at} 36 0 0 0 86 1 1 1 1 1 1 2 96 {used} 98304 0 1.0 "P800" 0'
    return "".join(row.format(at=at, used=mib) + "\n" for at, mib in enumerate(used))


def asked(stage: Stage, *looks: str) -> None:
    """What xpu-smi -m says, look after look; of the last it says no other."""
    left = list(looks)
    stage.remote.on("xpu-smi -q", reply(rc=1))
    stage.remote.on("xpu-smi -m", lambda _: f"host\n{left.pop(0) if len(left) > 1 else left[0]}")


def answer(*processes: dict[str, Any], **more: Any) -> str:
    return f"helper {ID} made\n" + json.dumps({"processes": processes, **more}) + "\n"


def replies(said: str, used: str) -> dict[str, Reply]:
    texts = {
        "docker.version": '{"Server": {"Version": "24"}}',
        "container": INSPECT,
        "agent.status": '{"supervisor": {}, "units": {}}',
        "smi.m": f"host\n{used}",
        "reap": said,
    }
    return {"adopted": Reply(44), **{key: Reply(0, text.encode()) for key, text in texts.items()}}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(reaping, "PAUSE", 0.0)
    return Stage(settings=Settings.model_validate(WHERE))


def planned(stage: Stage, said: str, used: str, **params: Any) -> Plan:
    return stage.plan("klops.reap", replies(said, used), **params)


def test_a_clean_up_is_done_under_the_lock_of_the_run_and_tells_what_it_freed(stage: Stage) -> None:
    plan = planned(stage, answer(WORKER), smi(0, 90000), grace=0)
    (step,) = plan.steps
    assert isinstance(step, Reap)
    assert step.change().what == "end pid 4711 VLLM::Worker, card 1, 90000 MiB (of unit main)"
    stage.remote.on("reap", answer({**WORKER, "outcome": "gone"}))
    # the driver takes a moment
    asked(stage, smi(0, 90000), smi(0, 4))
    result = step.carry_out(stage.ctx)
    assert (result["freed_mib"], result["processes"][0]["outcome"]) == (89996, "gone")
    assert stage.warnings == []
    (done,) = (call.text for call in stage.remote.log if "reap" in call.text)
    assert "reap --grace 0 --run" in done
    assert "--check" not in done
    assert "/k:/k:ro" not in done
    assert any("memory of card 1" in said.message for said in stage.progress)


def test_what_a_service_takes_meanwhile_is_not_missing_from_what_was_freed(stage: Stage) -> None:
    (step,) = planned(stage, answer(WORKER), smi(1000, 90000), grace=0).steps
    stage.remote.on("reap", answer({**WORKER, "outcome": "gone"}, foreign=[{**WORKER, "cards": ["xpu0"]}]))
    asked(stage, smi(91000, 4))
    result = step.carry_out(stage.ctx)
    assert result is not None
    assert result["freed_mib"] == 89996
    before, after = Memory({0: 1000, 1: 90000, 2: 500}), Memory({0: 91000, 1: 4, 2: 0})
    assert before.freed(after, frozenset()) == 89996 + 500
    assert before.freed(after, frozenset({2})) == 89996  # a unit's that runs: its own doing
    assert before.freed(after, frozenset({0, 1, 2})) == 0
    assert before.freed(Memory(), frozenset()) is None


def test_what_the_agent_could_not_do_is_told_in_the_plan_and_after_it(stage: Stage, tmp_path: Path) -> None:
    """In the agent's own answer: its record on the host can't be written."""
    (tmp_path / "reap.jsonl").mkdir()
    said = verb.reap(Options(["reap", "--root", str(tmp_path), "--grace", "0"]))
    assert said["trouble"]
    # whoever else is on this machine is none of it
    said.update({name: [] for name in ("processes", "unowned", "foreign", "unsupervised", "unknown")})
    (text,) = planned(stage, f"exec {ID} made\n{json.dumps(said)}", smi(0, 0), view="container").warnings
    assert "reap.jsonl" in text
    (step,) = planned(stage, answer(WORKER), smi(0, 0)).steps
    stage.remote.on("reap", f"helper {ID} made\n{json.dumps(said)}\n")
    asked(stage, smi(0, 0))
    result = step.carry_out(stage.ctx)
    assert result is not None
    assert result["trouble"] == said["trouble"]
    assert stage.warnings == [text]


NARROW = (
    "docker: Error response from daemon: no more room.\n\nRun 'docker run --help' for more information\n"
    "no helper container could be run, so only the container was looked at\n"
)


def narrowed(*processes: dict[str, Any]) -> Reply:
    """What is said where no helper could be run."""
    return Reply(0, answer(*processes).replace("helper", "exec").encode(), NARROW.encode())


def test_where_only_the_container_could_be_looked_at_memory_that_nobody_holds_is_a_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**replies("", smi(0, 0)), "reap": narrowed()}
    plan = stage.plan("klops.reap", given)
    assert (plan.failure, plan.steps) == (None, ())
    (text,) = plan.warnings
    assert text.endswith("is not known: docker: Error response from daemon: no more room.")
    given["smi.m"] = Reply(0, f"host\n{smi(0, 90000)}".encode())
    (step,) = stage.plan("klops.reap", given).steps
    asked(stage, smi(0, 90000))
    monkeypatch.setattr(reaping, "SETTLE", 0.0)
    with pytest.raises(TaskFailed, match="no more room") as raised:
        step.carry_out(stage.ctx)
    assert raised.value.code == "cards-unseen"
    # that was all that was asked for
    del given["smi.m"]
    plan = stage.plan("klops.reap", given, view="container")
    assert (plan.failure, plan.warnings) == (None, ())


def test_without_memory_and_helper_nobody_can_tell(stage: Stage) -> None:
    given = {**replies("", ""), "reap": narrowed()}
    failure = stage.plan("klops.reap", {**given, "smi.m": Reply(1)}).failure
    assert isinstance(failure, TaskFailed)
    assert (failure.code, "no more room" in failure.message) == ("cards-unseen", True)


@pytest.mark.parametrize(
    ("inside", "errors", "told"),
    [
        ('inside 0\n{"processes": [], "shm": [{"path": "/dev/shm/a", "why": "in use"}]}', "", ""),
        ("inside 137\n", "", "the agent in the container ended with status 137"),
        ("inside 1\n", "OCI runtime exec failed: no room", "OCI runtime exec failed: no room"),
        ('inside 1\n{"error": {"code": "x", "message": "no root"}}', "", "no root"),
        ("", "noise", ""),
    ],
)
def test_shared_memory_that_was_not_looked_at_is_said(
    stage: Stage, inside: str, errors: str, told: str
) -> None:
    said = Reply(0, (answer() + inside).encode(), errors.encode())
    warnings = stage.plan("klops.reap", {**replies("", smi(0, 0)), "reap": said}).warnings
    assert warnings == ((f"what is left in shared memory could not be looked at: {told}",) if told else ())


def test_the_cards_of_a_unit_of_which_nothing_lives_are_not_taken_for_its_own(stage: Stage) -> None:
    status = {"supervisor": {}, "units": {"main": {"state": "backoff", "cards": [1], "lineage": []}}}
    given = {**replies(answer(), smi(0, 90000)), "agent.status": Reply(0, json.dumps(status).encode())}
    assert [type(step) for step in stage.plan("klops.reap", given).steps] == [Settle]
    status["units"]["main"]["lineage"] = [{"cpid": 21}]
    given["agent.status"] = Reply(0, json.dumps(status).encode())
    assert stage.plan("klops.reap", given).steps == ()


def test_who_is_spared_by_default_the_settings_say(stage: Stage) -> None:
    stage.settings = Settings.model_validate({**WHERE, "cleanup": {"grace": 7}})
    assert "--grace 7 " in stage.scripts("klops.reap")["reap"]
    assert "--grace 3 " in stage.scripts("klops.reap", grace=3)["reap"]
    (step,) = planned(stage, answer(WORKER), smi(0, 0)).steps
    assert isinstance(step, Reap)
    assert "reap --grace 7 --run" in step.argv[-1]


def test_a_warning_has_the_whole_command(stage: Stage) -> None:
    other = {**WORKER, "user": "bob", "container": "", "action": "none"}
    (text,) = planned(stage, answer(unowned=[other]), smi(0, 0)).warnings
    assert text.endswith("; klops reap h --include-unowned 4711:77 ends it")


@pytest.mark.parametrize("outcome", ["alive", "unkillable"])
def test_one_that_lives_on_is_a_failure_that_has_the_whole_result(stage: Stage, outcome: str) -> None:
    (step,) = planned(stage, answer(WORKER), smi(0, 90000)).steps
    stage.remote.on("reap", answer({**WORKER, "outcome": outcome, "state": "D", "action": "kill"}))
    asked(stage, smi(0, 90000))
    ctx = stage.ctx
    with pytest.raises(TaskFailed) as raised:
        step.carry_out(ctx)
    assert raised.value.code == "reap-alive"
    assert f"pid 4711 VLLM::Worker, card 1, 90000 MiB ({outcome}, state D)" in raised.value.message
    assert raised.value.values["processes"][0]["memory_mib"] == 90000
    assert [change.what for change in ctx.done] == [step.change().what]


def test_a_refusal_of_the_agent_is_told_in_its_words(stage: Stage) -> None:
    (step,) = planned(stage, answer(WORKER), smi(0, 90000)).steps
    refusal = {"error": {"code": "host-locked", "message": "ann has the host", "hint": "wait"}}
    stage.remote.on("reap", reply(f"helper {ID} made\n{json.dumps(refusal)}", rc=1))
    with pytest.raises(AgentError) as raised:
        step.carry_out(stage.ctx)
    assert (raised.value.code, raised.value.message, raised.value.hint) == (
        "host-locked",
        "ann has the host",
        "wait",
    )


def test_memory_that_nobody_is_seen_to_hold_gets_time_and_then_is_a_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (step,) = planned(stage, answer(), smi(0, 90000)).steps
    assert isinstance(step, Settle)
    asked(stage, smi(0, 90000), smi(0, 0))
    assert step.carry_out(stage.ctx)["freed_mib"] == 90000
    monkeypatch.setattr(reaping, "SETTLE", 0.0)
    asked(stage, smi(0, 90000))
    with pytest.raises(TaskFailed, match="card 1 has 90000 MiB in use") as raised:
        step.carry_out(stage.ctx)
    assert raised.value.code == "cards-unseen"


def test_in_a_container_only_what_is_in_the_way_of_our_cards_fails(stage: Stage) -> None:
    stuck = {**WORKER, "pid": None, "action": "kill", "outcome": "unkillable"}
    said = answer(stuck).replace("helper", "exec")
    for used, fails in (([0], False), ([0, 1], True)):
        stage.settings = Settings.model_validate({**WHERE, "cards": {**WHERE["cards"], "use": used}})
        (step,) = planned(stage, said, smi(0, 0), view="container").steps
        stage.remote.on("reap", said)
        asked(stage, smi(0, 0))
        if fails:
            with pytest.raises(TaskFailed, match="still there"):
                step.carry_out(stage.ctx)
        else:
            step.carry_out(stage.ctx)


def test_before_services_start_the_host_is_asked_whether_what_keeps_cards_out_is_gone(stage: Stage) -> None:
    said = replies(answer().replace("helper", "exec"), smi(0, 0))
    assert stage.plan("klops.reap", said, view="container").steps == ()
    agent = {"supervisor": {}, "units": {}, "quarantine": [{"kind": "unkillable", "card": {"index": 1}}]}
    said["agent.status"] = Reply(0, json.dumps(agent).encode())
    plan = stage.plan("klops.reap", said, view="container")
    (step,) = plan.steps
    assert isinstance(step, Lift)
    assert plan.changes == ()
    stage.remote.on("reap", answer())
    step.carry_out(stage.ctx)
    (done,) = (call.text for call in stage.remote.log if "reap" in call.text)
    assert "--host" in done
    assert "--lift" in done
    assert stage.warnings == []
    stage.remote.on("reap", reply(rc=1))
    step.carry_out(stage.ctx)
    assert stage.warnings == ["whether what keeps cards out of service is gone can't be told: ?"]


def test_a_card_whose_stuck_process_is_gone_is_a_reason_to_act(stage: Stage) -> None:
    (step,) = planned(stage, answer(back=[{"index": 3, "node": "/dev/xpu1"}]), smi(0, 0)).steps
    assert step.change().what == "put card 3 back into service: what kept it out is gone"


def test_many_leftovers_are_counted(stage: Stage) -> None:
    shm = [{"path": f"/dev/shm/psm_{n}", "why": "of unit main; would be removed"} for n in range(5)]
    (step,) = planned(stage, answer(shm=shm), smi(0, 0)).steps
    assert step.change().what == (
        "remove /dev/shm/psm_0, /dev/shm/psm_1, /dev/shm/psm_2 and 2 more files that are left over"
    )


def test_equal_looks_give_equal_plans(stage: Stage) -> None:
    assert planned(stage, answer(WORKER), smi(0, 1)) == planned(stage, answer(WORKER), smi(0, 1))


@pytest.mark.parametrize("text", ["4711", "4711:", ":5", "0:5", "a:b", "1:2:3"])
def test_a_process_to_end_is_named_by_pid_and_start(stage: Stage, text: str) -> None:
    with pytest.raises(ValueError, match="is not PID:START"):
        planned(stage, answer(), smi(0, 0), include_unowned=[text])
