"""Files of the agent: whole lines, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klops.agent import store


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
