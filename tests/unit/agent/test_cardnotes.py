"""The verb ``note``: verdict, baseline and notes on cards, written whole."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from klops.agent.errors import VerbError
from klops.agent.verbs import cardnotes

CARD, OTHER = {"uuid": "GPU-1", "index": 3}, {"uuid": "GPU-2", "index": 4}


def note(card: dict[str, Any], kind: str = "verdict", **more: Any) -> dict[str, Any]:
    """A note on a card."""
    usual = {"reason": "it hangs", "evidence": [], "by": "a-test", "at": 1.0, "boot_id": "b", "expires": None}
    return {"card": card, "kind": kind, **usual, **more}


def told(root: Path, **asked: Any) -> list[dict[str, Any]]:
    """The notes in force after it."""
    found: list[dict[str, Any]] = cardnotes.note(str(root), json.dumps(asked))["notes"]
    return found


def test_notes_are_added_replaced_and_lifted(tmp_path: Path) -> None:
    assert told(tmp_path, add=[note(CARD), note(OTHER, "hand")]) == [note(CARD), note(OTHER, "hand")]
    again = note({**CARD, "index": 5}, reason="it hangs still")
    assert told(tmp_path, add=[again]) == [note(OTHER, "hand"), again]
    # by identity, and only of the kinds that are named
    lift = [{"card": {"uuid": "GPU-1"}, "kinds": ["verdict"]}, {"card": OTHER, "kinds": ["verdict"]}]
    assert told(tmp_path, lift=lift) == [note(OTHER, "hand")]
    assert told(tmp_path, lift=[{"card": OTHER, "kinds": ["verdict", "hand"]}], add=[note(CARD)]) == [
        note(CARD)
    ]
    assert told(tmp_path) == [note(CARD)]
    events = [json.loads(line)["event"] for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert events == ["card-noted"] * 3 + ["card-back"] + ["card-noted", "card-back"]


def test_one_without_a_time_is_of_now(tmp_path: Path) -> None:
    before = time.time()
    (one,) = told(tmp_path, add=[note(CARD, at=None)])
    assert before - 1 < one["at"] < time.time() + 1


def test_one_that_has_expired_is_not_in_force(tmp_path: Path) -> None:
    assert (
        told(tmp_path, add=[note(CARD, expires=time.time() - 1), note(OTHER, expires=time.time() + 60)]) != []
    )
    assert [one["card"] for one in told(tmp_path)] == [OTHER]


def test_verdict_and_baseline_are_files_of_their_own(tmp_path: Path) -> None:
    assert told(tmp_path, verdict={"by": "x", "result": {}}, baseline={"bandwidth": {}}) == []
    assert json.loads((tmp_path / "verdict.json").read_text()) == {"schema": 1, "by": "x", "result": {}}
    assert json.loads((tmp_path / "baseline.json").read_text()) == {"schema": 1, "bandwidth": {}}
    told(tmp_path, verdict={"by": "y"})
    assert json.loads((tmp_path / "verdict.json").read_text())["by"] == "y"
    assert not (tmp_path / "cards.json").exists()
    assert not list(tmp_path.glob("*.new"))


def test_another_writer_is_waited_for(tmp_path: Path) -> None:
    told(tmp_path, add=[note(CARD)])
    with (tmp_path / "run" / "cards.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        timer = threading.Timer(0.3, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        timer.start()
        assert told(tmp_path, add=[note(OTHER)]) == [note(CARD), note(OTHER)]
        timer.join()


@pytest.mark.parametrize("asked", [{"add": [note(OTHER)]}, {"lift": [{"card": CARD, "kinds": []}]}, {}])
def test_with_a_damaged_file_nothing_is_written(tmp_path: Path, asked: dict[str, Any]) -> None:
    told(tmp_path, add=[note(CARD)])
    path = tmp_path / "cards.json"
    damaged = path.read_text() + ","
    path.write_text(damaged)
    with pytest.raises(VerbError) as failure:
        told(tmp_path, verdict={"by": "x"}, **asked)
    assert failure.value.code == "damaged"
    assert str(path) in failure.value.message
    assert "put it right; or move it away" in failure.value.hint
    assert path.read_text() == damaged
    assert not (tmp_path / "verdict.json").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[]",
        '{"add": {}}',
        '{"else": []}',
        '{"add": [{"card": {}}]}',
        json.dumps({"add": [note({"index": 3, "uuid": "", "serial": "", "bdf": "", "node": None})]}),
        json.dumps({"add": [note({})]}),
        json.dumps({"add": [note(CARD, reason=None)]}),
        json.dumps({"lift": [{"card": CARD, "kinds": "all"}]}),
        '{"schema": 2}',
    ],
)
def test_what_is_no_note_changes_nothing(tmp_path: Path, wrong: str) -> None:
    told(tmp_path, add=[note(CARD)])
    before = (tmp_path / "cards.json").read_text()
    with pytest.raises(VerbError) as caught:
        cardnotes.note(str(tmp_path), wrong)
    assert caught.value.code == "usage"
    assert (tmp_path / "cards.json").read_text() == before


@pytest.mark.parametrize("name", ["verdict", "baseline"])
def test_what_a_newer_klops_wrote_is_not_written_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(VerbError) as failure:
        told(tmp_path, **{name: {"at": 1.0}}, add=[note(CARD)])
    assert failure.value.code == "newer-schema"
    assert path.read_text() == '{"schema": 2}'
    # nothing of it was done, and what isn't about that file is
    assert told(tmp_path) == []
    assert told(tmp_path, add=[note(CARD)]) == [note(CARD)]
    path.write_text("damaged")
    told(tmp_path, **{name: {"at": 1.0}})
    assert json.loads(path.read_text()) == {"schema": 1, "at": 1.0}
