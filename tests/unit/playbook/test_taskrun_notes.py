"""When the notes of handlers are written: under the lock, before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from klops.errors import CommandFailed
from klops.playbook.model import Task
from klops.playbook.results import Status
from tests.unit.playbook.onehost import Bench, task


@dataclass
class Notes:
    """Notes that tell how far things were when they were written."""

    bench: Bench
    fails: bool = False
    seen: list[tuple[int, int]] = field(default_factory=list)

    def before_change(self, task: Task) -> None:
        """Look at the lock of h1 and at what ran."""
        ran = sum(len(remote.commands) for remote in self.bench.fleet.remotes.values())
        self.seen.append((self.bench.fleet.locks["h1"].taken, ran))
        if self.fails:
            raise CommandFailed("the disk is full")


@pytest.fixture
def notes() -> Notes:
    """Notes of h1."""
    bench = Bench()
    for name in ("h1", "h2"):
        bench.fleet.remote(name).on("work", "")
    made = Notes(bench)
    bench.on().notes = made
    return made


@pytest.mark.parametrize("to", [None, "h2"])
def test_notes_are_written_under_the_lock_and_before_the_change(notes: Notes, to: str | None) -> None:
    notes.bench.run(task("command", {"cmd": "work"}, notify=("h",), delegate_to=to))
    assert notes.seen == [(1, 0)]


def test_a_task_that_notifies_nobody_or_changes_nothing_needs_none(notes: Notes) -> None:
    notes.bench.run(task("command", {"cmd": "work"}))
    notes.bench.run(task("debug", {"msg": "x"}, notify=("h",)))
    assert notes.seen == []


def test_nothing_is_changed_when_they_cannot_be_written(notes: Notes) -> None:
    notes.fails = True
    result = notes.bench.run(task("command", {"cmd": "work"}, notify=("h",)))
    assert result.status is Status.FAILED
    assert notes.bench.fleet.remote().commands == []
