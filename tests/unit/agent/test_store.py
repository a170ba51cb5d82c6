"""Files of the agent: whole lines, nothing left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.errors import VerbError


def test_a_line_begins_anew_after_one_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"whole": 1}\n{"cut sh')
    for number in range(2):
        store.append_line(str(path), {"number": number})
    assert path.read_text() == '{"whole": 1}\n{"cut sh\n{"number":0}\n{"number":1}\n'


def test_what_cant_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        store.write_json(str(tmp_path / "state.json"), {"a": 1})
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    store.write_json(str(tmp_path / "other.json"), {"a": 1})
    assert json.loads((tmp_path / "other.json").read_text()) == {"schema": 1, "a": 1}


@pytest.mark.timeout(20)
def test_what_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("fifo", "folder"):
        with pytest.raises(OSError, match=r"regular file|directory"):
            store.read_text(str(tmp_path / name))
        with pytest.raises(VerbError, match=name):
            store.read_json(str(tmp_path / name))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_brackets_without_end_are_damage(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(VerbError, match="is not JSON") as caught:
        store.read_json(str(tmp_path / "deep.json"))
    assert caught.value.code == "damaged"
