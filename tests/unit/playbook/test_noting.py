"""What is kept of a run for the audit logs, and that the lock's notes are of its own host."""

from __future__ import annotations

from typing import Any

from klops.actions.base import Change
from klops.errors import TaskFailed
from klops.playbook.events import TaskFinished
from klops.playbook.noting import HostNotes, noted
from klops.playbook.results import Status, TaskResult


def finished(host: str, status: Status, *changes: str, **more: Any) -> TaskFinished:
    result = TaskResult(status, tuple(map(Change, changes)), seconds=1.0, **more)
    return TaskFinished(host, "the task", "copy", result)


def test_only_what_changed_or_went_wrong_is_kept() -> None:
    for status in (Status.OK, Status.SKIPPED, Status.UNKNOWN):
        assert noted(finished("h1", status)) is None
    changed = noted(finished("h1", Status.CHANGED, "write /a"))
    assert changed == {"task": "the task", "outcome": "changed", "changes": ["write /a"], "seconds": 1.0}
    failed = noted(finished("h1", Status.FAILED, "write /a", error=TaskFailed("no room")))
    assert failed is not None
    assert (failed["outcome"], failed["changes"], failed["error"]) == ("failed", ["write /a"], "no room")


def test_each_host_has_what_was_done_there() -> None:
    notes = HostNotes("up.yml")
    first, second = notes.of("h1"), notes.of("h2")
    notes.handle(finished("h1", Status.CHANGED, "write /a"))
    notes.handle(finished("h1", Status.CHANGED, "write /b", place="h2"))
    notes.handle(finished("h2", Status.OK))
    assert first.begun == {"playbook": "up.yml"}
    assert [task["changes"] for task in first.ended()["tasks"]] == [["write /a"]]
    assert [task["changes"] for task in second.ended()["tasks"]] == [["write /b"]]


def test_how_it_ended() -> None:
    notes = HostNotes("up.yml")
    one = notes.of("h1")
    assert one.ended()["outcome"] == "done"
    errors = {"h1": TaskFailed("no", code="unfit")}
    notes.errors = errors
    assert (one.ended()["outcome"], one.ended()["code"]) == ("failed", "unfit")
    assert notes.of("h2").ended()["outcome"] == "done"
    notes.interrupted = True
    assert one.ended()["outcome"] == "interrupted"
