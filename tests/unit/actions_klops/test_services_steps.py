from __future__ import annotations

import json
from dataclasses import replace

import pytest

from klops.actions.base import Progress
from klops.actions.own.services import wait as waiting
from klops.actions.own.services.steps import CheckFree, RecordStopped, StartUnit, Verb, spec_text
from klops.actions.own.services.wait import Lines, WaitReady
from klops.errors import (
    AgentError,
    AuthenticationFailed,
    ConnectionLost,
    HostUnreachable,
    Interrupted,
    TaskFailed,
)
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import Call, reply

from .support import SETTINGS, Stage

MAIN = {**SETTINGS["services"]["main"], "start_timeout": 60}
WHERE = Settings.model_validate({**SETTINGS, "services": {"main": MAIN}})
SPEC = {
    "name": "main",
    "argv": ["vllm", "serve", "/m"],
    "cards": [{"index": 4}, {"index": 5}],
    "tp": 2,
    "stop": {"timeout": 30.0},
}


def test_start_sends_the_secret_on_standard_input_only() -> None:
    stage = Stage()
    stage.remote.on(" start main", '{"state": "starting"}')
    step = StartUnit(WHERE, SPEC, {"VLLM_API_KEY": 'S3cr3t-é"$x'}, "")
    step.carry_out(stage.ctx)
    (call,) = stage.remote.log
    assert json.loads(call.stdin) == {"spec": SPEC, "secrets": {"VLLM_API_KEY": 'S3cr3t-é"$x'}}
    assert "S3cr3t" not in call.text
    assert "S3cr3t" not in repr(step)
    assert [p.message for p in stage.progress] == ["starting main"]
    change = step.change()
    assert change.what == "start main: vllm serve /m on cards 4,5 (TP=2)"
    assert "S3cr3t" not in f"{change}"


def test_a_start_that_ends_what_runs_is_called_a_restart() -> None:
    stage = Stage()
    stage.remote.on(" start main", '{"state": "starting"}')
    old = {**SPEC, "digest": "0"}
    step = StartUnit(WHERE, {**SPEC, "digest": "1"}, {}, "argv changed", spec_text(old), "ready, pid 4020")
    assert step.change().what.startswith("restart main (ready, pid 4020; argv changed): vllm serve /m on ")
    assert step.change().before == step.change().after, "the digest is no part of the diff"
    step.carry_out(stage.ctx)
    assert [p.message for p in stage.progress] == ["restarting main"]


def test_the_agents_own_error_is_passed_on() -> None:
    stage = Stage()
    said = {"error": {"code": "bad-name", "message": "not a name", "hint": "use letters"}}
    stage.remote.on(" stop main", reply("warning: x\n" + json.dumps(said), rc=1))
    with pytest.raises(AgentError, match="stop main: not a name") as raised:
        Verb(WHERE, "stop", "main", "", 30).carry_out(stage.ctx)
    assert (raised.value.code, raised.value.hint) == ("bad-name", "use letters")


def test_an_agent_that_does_not_run() -> None:
    stage = Stage()
    stage.remote.on(" stop main", reply(rc=126, stderr='exec: "python3": not found'))
    with pytest.raises(AgentError, match="not found"):
        Verb(WHERE, "stop", "main", "", 30).carry_out(stage.ctx)


def test_holders_of_stopped_units_fail_and_strangers_warn() -> None:
    stage = Stage()
    holders = [
        {"cpid": 9, "start": 1, "name": "python3", "cards": ["/dev/xpu0"], "unit": None},
        {"cpid": 10, "start": 1, "name": "VLLM::Worker_TP", "cards": ["/dev/xpu1"], "unit": "other"},
    ]
    stage.remote.on(" holders ", json.dumps({"holders": holders}))
    CheckFree(WHERE, ("main",)).carry_out(stage.ctx)
    assert stage.warnings == [
        "cards are held by processes of no unit: python3 (pid 9 in the container) holds /dev/xpu0"
    ]
    with pytest.raises(TaskFailed, match="VLLM::Worker_TP") as raised:
        CheckFree(WHERE, ("other",)).carry_out(stage.ctx)
    assert raised.value.code == "cards-held"


def test_a_process_that_can_not_be_looked_at_is_no_free_card() -> None:
    stage = Stage()
    unknown = [{"cpid": 9, "start": 1, "name": "python3"}]
    stage.remote.on(" holders ", json.dumps({"holders": [], "unknown": unknown}))
    with pytest.raises(TaskFailed, match=r"python3 \(pid 9 in the container\)") as raised:
        CheckFree(WHERE, ("main",)).carry_out(stage.ctx)
    assert raised.value.code == "cards-unseen"


def test_a_stop_is_written_down_where_only_its_owner_reads() -> None:
    stage = Stage()
    record = {"schema": 1, "name": "main", "desired": "stopped", "generation": 3}
    RecordStopped("/k/run/main.state.json", "main", "the exited container", record).carry_out(stage.ctx)
    ((path, (data, mode)),) = stage.remote.files.items()
    assert (path, json.loads(data), mode) == ("/k/run/main.state.json", record, 0o600)


def test_lines_out_of_pieces() -> None:
    lines = Lines()
    assert lines.feed(b'motd\n{"state": "sta') == []
    assert lines.feed(b'rting"}\n{"state": "ready"}\n[1]\n{"half') == [
        {"state": "starting"},
        {"state": "ready"},
    ]
    assert lines.last == {"state": "ready"}


def wait(stage: Stage, *answers: Reply | Exception) -> object:
    left = list(answers)

    def answer(_: Call) -> Reply | Exception:
        return left.pop(0)

    stage.remote.on(" wait main --timeout ", answer)
    return WaitReady(WHERE, "h", "main").carry_out(stage.ctx)


def out(*lines: dict[str, object], rc: int = 0, stderr: str = "") -> Reply:
    return reply("".join(json.dumps(line) + "\n" for line in lines), rc=rc, stderr=stderr)


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("klops.actions.own.services.wait.time.sleep", taken.append)
    return taken


def test_the_wait_ends_with_whoever_waits() -> None:
    stage = Stage()
    wait(stage, out({"state": "ready"}))
    (call,) = stage.remote.log
    assert call.keep_stdin
    assert call.text.startswith("docker exec -i klops ")
    assert " --while-stdin" in call.text


def test_progress_is_passed_on() -> None:
    stage = Stage()
    wait(
        stage,
        out(
            {"state": "starting", "line": "Loading safetensors: 50%", "percent": 50, "restarts": 0},
            {"state": "starting", "line": "Loading safetensors: 100%", "percent": 100, "restarts": 1},
            {"state": "starting", "line": "x", "percent": None, "restarts": 2},
            {"state": "ready", "line": "", "percent": None},
        ),
    )
    assert [(p.message, p.percent) for p in stage.progress] == [
        ("main starting: Loading safetensors: 50%", 50.0),
        ("main starting, restarted once: Loading safetensors: 100%", None),
        ("main starting, restarted 2 times: x", None),
        ("main ready", None),
    ]


def test_a_lost_connection_is_waited_through(naps: list[float]) -> None:
    stage = Stage()
    wait(stage, ConnectionLost("gone"), HostUnreachable("no route"), out({"state": "ready"}))
    assert len(naps) == 2
    assert len(stage.remote.log) == 3


@pytest.mark.parametrize("error", [AuthenticationFailed("no"), HostUnreachable("no")])
def test_but_not_for_ever(error: HostUnreachable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_AWAY", -1.0)
    with pytest.raises(HostUnreachable):
        wait(Stage(), error)


def test_a_failed_service_shows_why() -> None:
    last: dict[str, object] = {
        "state": "failed",
        "error": "engine died",
        "log": [f"line {n}" for n in range(30)],
    }
    with pytest.raises(TaskFailed) as raised:
        wait(Stage(), out({"state": "starting"}, last, rc=1))
    assert raised.value.code == "service-failed"
    assert raised.value.hint == "klops logs h -s main"
    assert raised.value.message.startswith("main failed: engine died\nits last lines:\nline 18")


def test_of_several_failures_the_first_is_shown_too() -> None:
    last: dict[str, object] = {
        "state": "failed",
        "error": "it ended; first error in the log of the first failure: no xpu",
        "first_log": ["Traceback", "no xpu"],
        "log": ["port taken"],
    }
    with pytest.raises(TaskFailed) as raised:
        wait(Stage(), out(last, rc=1))
    said = "lines of its first failure:\nTraceback\nno xpu\nits last lines:\nport taken"
    assert raised.value.message == f"main failed: {last['error']}\n{said}"


def test_one_whose_requests_stall_has_not_failed_and_a_restart_is_left_to_people() -> None:
    last: dict[str, object] = {"state": "unhealthy", "error": "no request progresses"}
    with pytest.raises(TaskFailed) as raised:
        wait(Stage(), out(last, rc=1))
    assert raised.value.message == "main stalls: no request progresses"
    assert raised.value.hint.startswith("klops restart h -s main, if what it has begun may be lost")


DOCTOR = "klops down h; klops doctor xccl h"


def one_card() -> Settings:
    main = {**MAIN, "tp": 1}
    main.pop("cards", None)
    return Settings.model_validate({**SETTINGS, "services": {"main": main}})


@pytest.mark.parametrize(
    ("rc", "last", "together"),
    [
        (3, {"state": "starting", "restarts": 1}, True),
        (1, {"state": "failed", "error": "not ready after 60 s (start_timeout) (6 failure(s))"}, True),
        (1, {"state": "unhealthy", "error": "no request progresses"}, True),
        (1, {"state": "failed", "error": "unrecognized arguments: --x"}, False),
    ],
    ids=["out of time", "never ready", "stalls", "wrong argument"],
)
def test_one_that_hangs_may_do_so_for_its_cards(rc: int, last: dict[str, object], together: bool) -> None:
    for where, told in ((WHERE, together), (one_card(), False)):
        stage = Stage()
        stage.remote.on(" wait main --timeout ", lambda _: out(last, rc=rc))
        with pytest.raises(TaskFailed) as raised:
            WaitReady(where, "h", "main").carry_out(stage.ctx)
        assert (DOCTOR in raised.value.hint) is told


def test_out_of_time() -> None:
    with pytest.raises(TaskFailed) as raised:
        wait(Stage(), out({"state": "starting", "line": "Loading", "restarts": 1}, rc=3))
    assert raised.value.message == (
        "main is not ready after 90 s (start_timeout 60 s, 30 s of grace): starting, restarted once; "
        "its last line: Loading; the agent restarts what isn't ready after 60 s, at most 5 times in a row"
    )
    assert raised.value.code == "service-timeout"
    assert "start_timeout" in raised.value.hint


@pytest.mark.parametrize("answer", [ConnectionLost("closed"), out(rc=143)])
def test_an_interrupted_wait_says_that_the_service_goes_on(answer: Reply | Exception) -> None:
    stage = Stage()
    stage.remote.on(" wait main --timeout ", answer)

    def cancelled(_: Progress) -> None:
        raise Interrupted("interrupted")

    ctx = replace(stage.ctx, progress=cancelled)
    with pytest.raises(Interrupted, match="interrupted; main goes on starting there") as raised:
        WaitReady(WHERE, "h", "main").carry_out(ctx)
    assert raised.value.hint == "klops status h"


def test_a_wait_that_breaks_is_not_taken_for_ready() -> None:
    with pytest.raises(AgentError, match="No such container"):
        wait(Stage(), out(rc=1, stderr="Error: No such container: klops"))
