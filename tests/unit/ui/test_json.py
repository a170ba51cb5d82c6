"""The JSON of the contract, key by key."""

from __future__ import annotations

import json

from klops.actions.base import Change
from klops.errors import HostUnreachable, TaskFailed
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from klops.secret import MASK, Redactor, Secret
from klops.ui.json import dumps, host_document, redact, run_document, status_values

KEY = "S3cr3t-é\"$x y'z"
STATUS = {"services": {"chat": {"state": "ready", "pid": 4711}}, "orphans": 0}


def a_run() -> RunResult:
    failure = TaskFailed("card node /dev/xpu3 is missing", hint="look at lspci")
    return RunResult(
        playbook="up.yml",
        plays=[
            PlayRun(
                "up",
                ("a", "b", "c"),
                [
                    TaskRun(
                        "container",
                        "klops.container",
                        {
                            "a": TaskResult(
                                Status.CHANGED, (Change("make klops", None, "x"),), "made", 1.23456
                            ),
                            "b": TaskResult(Status.FAILED, error=failure, message=failure.message),
                        },
                    ),
                    TaskRun(
                        "status",
                        "klops.status",
                        {
                            "a": TaskResult(
                                Status.OK, values={**STATUS, "changed": False, "failed": False}, seconds=0.1
                            )
                        },
                    ),
                ],
            )
        ],
        hosts=("a", "b", "c"),
        errors={"b": failure, "c": HostUnreachable("c: no route")},
        remote_commands={"a": 2, "b": 1, "c": 0},
        seconds=3.5,
    )


def test_run_document_is_the_contract() -> None:
    run = a_run()
    document = run_document(run, status_values(run))
    assert document["ok"] is False
    assert document["hosts"]["a"] == STATUS
    assert document["hosts"]["b"]["error"] == {
        "code": "task-failed",
        "message": "card node /dev/xpu3 is missing",
        "hint": "look at lspci",
    }
    assert document["hosts"]["c"]["error"]["code"] == "unreachable"
    task, _ = document["plays"][0]["tasks"]
    assert set(task["hosts"]["a"]) == {"status", "changes", "message", "seconds"}
    assert task["hosts"]["a"]["status"] == "changed"
    assert task["hosts"]["a"]["changes"] == [{"what": "make klops", "before": None, "after": "x"}]
    assert document["recap"]["a"] == {
        "ok": 2,
        "changed": 1,
        "failed": 0,
        "unreachable": 0,
        "skipped": 0,
        "rescued": 0,
        "ignored": 0,
        "unknown": 0,
    }
    assert document["remote_commands"] == {"a": 2, "b": 1, "c": 0}
    assert document["seconds"] == 3.5
    assert set(document) >= {"ok", "hosts", "plays", "recap", "remote_commands", "seconds"}
    assert json.loads(dumps(document, Redactor())) == document


def test_what_a_run_left_out_and_where_a_task_ran_is_there_when_there_is_something_to_say() -> None:
    run = a_run()
    assert not {"not_run", "handlers_left"} & set(run_document(run))
    run.not_run.append(("up", ("d", "e")))
    run.handlers_left["a"] = ("restart app",)
    run.plays[0].tasks[1].hosts["a"] = TaskResult(Status.OK, place="web")
    document = json.loads(dumps(run_document(run), Redactor()))
    assert document["not_run"] == [{"play": "up", "hosts": ["d", "e"]}]
    assert document["handlers_left"] == {"a": ["restart app"]}
    assert document["plays"][0]["tasks"][1]["hosts"]["a"]["delegated_to"] == "web"


def test_a_status_that_failed_is_no_status() -> None:
    run = a_run()
    failure = TaskFailed("the agent in the container does not answer")
    later = TaskResult(Status.FAILED, error=failure, values={"failed": True, "unreachable": False})
    run.plays[0].tasks.append(TaskRun("again", "klops.status", {"a": later}))
    run.errors["a"] = failure
    assert status_values(run) == {}
    assert run_document(run, status_values(run))["hosts"]["a"] == {"error": failure.as_json()}


def test_host_document_is_not_ok_when_one_host_failed() -> None:
    assert host_document({"a": {"x": 1}}) == {"ok": True, "hosts": {"a": {"x": 1}}}
    document = host_document({"a": {"x": 1}, "b": HostUnreachable("down", hint="look")})
    assert document == {
        "ok": False,
        "hosts": {"a": {"x": 1}, "b": {"error": {"code": "unreachable", "message": "down", "hint": "look"}}},
    }


def test_a_secret_is_in_no_part_of_a_document() -> None:
    redactor = Redactor()
    redactor.add(Secret(KEY))
    text = dumps({KEY: [f"--api-key={KEY}", {"deep": (KEY,)}], "typed": Secret(KEY)}, redactor)
    assert json.loads(text) == {MASK: [f"--api-key={MASK}", {"deep": [MASK]}], "typed": MASK}


def test_redact_keeps_numbers_and_turns_the_rest_into_text() -> None:
    assert redact({"n": 1, "f": 0.5, "none": None, "t": True, "o": Status.OK}, Redactor()) == {
        "n": 1,
        "f": 0.5,
        "none": None,
        "t": True,
        "o": "ok",
    }
