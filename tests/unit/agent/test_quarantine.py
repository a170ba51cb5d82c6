"""The notes on disk: written for a process that KILL doesn't end, over when it is gone."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.processes.procs import Process
from klops.agent.units import quarantine

CARDS = [
    {"index": 3, "minor": 5, "node": "/dev/xpu5", "bdf": "", "uuid": "", "serial": "SN3"},
    {"index": 4, "minor": 6, "node": "/dev/xpu6", "bdf": "", "uuid": "", "serial": "SN4"},
]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A root."""
    store.Paths(str(tmp_path)).make()
    return str(tmp_path)


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    """A unit whose first card is a device that can be told from others, as its second one."""
    folder = tmp_path / "dev"
    folder.mkdir()
    (folder / "xpu5").symlink_to("/dev/full")
    (folder / "xpu6").symlink_to("/dev/zero")
    return {"cards": CARDS, "device_dir": str(folder)}


@pytest.fixture
def holder() -> Iterator[Process]:
    """Somebody who has the first card open."""
    with Path("/dev/full").open("rb") as full, subprocess.Popen(["sleep", "300"], stdin=full) as child:
        process = procs.read(child.pid)
        assert process is not None
        yield process
        child.kill()


def test_the_cards_that_it_has_open(holder: Process, spec: dict[str, Any]) -> None:
    assert quarantine.held_by([holder], spec) == {holder.pid: [3]}
    (Path(spec["device_dir"]) / "xpu6").unlink()
    assert quarantine.held_by([holder], spec) == {holder.pid: [3, 4]}  # what can't be told counts
    assert quarantine.held_by([holder], {"cards": []}) == {}


def test_a_start_is_refused_while_it_lives(root: str, holder: Process, spec: dict[str, Any]) -> None:
    assert quarantine.obstacle(root, spec) == ""
    notes = quarantine.notes([holder], {holder.pid: [3]}, spec, "unkillable: ...", "unit llm")
    quarantine.add(root, notes)
    quarantine.add(root, notes)
    assert len(quarantine.in_force(root)) == 1
    why = quarantine.obstacle(root, spec)
    assert why.startswith(f"card 3 is kept out of service: pid {holder.pid} (sleep, ")
    assert quarantine.obstacle(root, {**spec, "cards": CARDS[1:]}) == ""
    (one,) = json.loads(Path(quarantine.path(root)).read_text())["notes"]
    assert one["card"]["serial"] == "SN3"
    assert (one["kind"], one["evidence"], one["process"]["start"]) == (
        "unkillable",
        ["unkillable: ..."],
        holder.start,
    )
    other = {**one, "process": {**one["process"], "ns": 1}}
    store.write_json(quarantine.path(root), {"notes": [other]})
    assert quarantine.obstacle(root, spec)  # of another container: nobody here can see it
    gone = {**one, "process": {**one["process"], "start": one["process"]["start"] + 1}}
    store.write_json(quarantine.path(root), {"notes": [gone]})
    assert quarantine.obstacle(root, spec) == ""


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ('{"schema": 1, "notes": 3}', "damaged", "cards.json has no list of notes"),
        ('{"schema": 1, "notes": [],}', "damaged", "cards.json is not JSON"),
        ('{"schema": 99}', "newer-schema", "cards.json has schema 99"),
    ],
)
def test_a_file_that_does_not_tell_lets_nothing_start_and_stays_as_it_is(
    root: str, holder: Process, spec: dict[str, Any], text: str, code: str, what: str
) -> None:
    path = Path(quarantine.path(root))
    path.write_text(text)
    new = quarantine.notes([holder], {holder.pid: [3]}, spec, "", "unit llm")
    with pytest.raises(VerbError, match=what) as caught:
        quarantine.obstacle(root, spec)
    assert caught.value.code == code
    with pytest.raises(OSError, match=what):
        quarantine.add(root, new)
    with pytest.raises(VerbError, match=what):
        quarantine.change(root, lambda one: False, new)
    with pytest.raises(VerbError, match=what):
        quarantine.lift(root, lambda who: True)
    assert path.read_text() == text
    assert [one.name for one in Path(root).glob("cards.json*")] == ["cards.json"]


@pytest.mark.parametrize(
    "process",
    [
        None,
        "abc",
        {},
        {"start": 1},
        {"pid": "abc", "start": 1},
        {"pid": 1, "start": None},
        {"pid": [1], "start": 1},
    ],
)
def test_a_note_that_does_not_say_which_process_is_meant_counts(
    root: str, holder: Process, spec: dict[str, Any], process: Any
) -> None:
    (note,) = quarantine.notes([holder], {holder.pid: [3]}, spec, "", "unit llm")
    if isinstance(process, dict):
        process = {**process, "ns": note["process"]["ns"]}
    edited = {**{key: note[key] for key in note if key != "reason"}, "process": process}
    store.write_json(quarantine.path(root), {"notes": [edited]})
    assert quarantine.obstacle(root, spec) == "card 3 is kept out of service: no reason is given"
    assert quarantine.lift(root, lambda who: True) == []
    quarantine.add(root, [note])
    assert quarantine.in_force(root) == [edited, note]


def test_notes_that_are_lifted_leave_the_others_as_they_are(root: str, holder: Process, spec: Any) -> None:
    quarantine.add(root, quarantine.notes([holder], {holder.pid: [3, 4]}, spec, "", "unit llm"))
    path = Path(quarantine.path(root))
    three, four = json.loads(path.read_text())["notes"]
    four = {**four, "process": {**four["process"], "ns": 1}}
    by_hand = {"card": CARDS[1], "kind": "hand"}
    store.write_json(str(path), {"notes": [three, four, by_hand]})
    before = path.stat().st_ino
    assert quarantine.lift(root, lambda who: False) == []
    assert path.stat().st_ino == before, "nothing is written"
    assert quarantine.lift(root, lambda who: who["ns"] == 1) == [four]
    assert json.loads(path.read_text())["notes"] == [three, by_hand]


def test_nobody_waits_for_another_who_writes_notes(root: str, holder: Process, spec: Any) -> None:
    notes = quarantine.notes([holder], {holder.pid: [3]}, spec, "", "unit llm")
    with Path(root, "run", "cards.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            quarantine.add(root, notes)
    quarantine.add(root, notes)
