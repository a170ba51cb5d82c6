"""What is noted of a root, and what is told of it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import kept, verb
from klops.agent.units import unit
from klops.agent.verbs import starting
from tests.unit.agent.generations.root import Root
from tests.unit.agent.test_launches import spec_of


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """One with a unit and a release."""
    made = Root(tmp_path)
    made.release("aaa-1")
    made.unit()
    return made


def test_what_stands_is_noted_once(root: Root) -> None:
    assert root.listed()["now"]["number"] is None
    assert root.note() == {"number": 1, "noted": True, "obstacle": "", "faults": []}
    assert root.note() == {"number": 1, "noted": False, "obstacle": "", "faults": []}
    listed = root.listed()
    (one,) = listed["generations"]
    assert (one["release"], one["commit"], one["ref"]) == ("aaa-1", "commit of aaa-1", "main")
    assert (one["author"], one["run"], one["health"], one["there"]) == ("ops@desk", "r1", "good", True)
    assert listed["now"]["number"] == 1
    assert one["units"]["llm"]["cards"] == [0]
    assert "spec" not in one["units"]["llm"]


def test_its_file_is_for_nobody_else(root: Root) -> None:
    root.unit(env={"TOKEN": "made-up"})
    root.note()
    path = root.folder / "generations" / "1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "made-up" not in json.dumps(root.listed())


def test_units_that_nobody_wants_to_run_are_no_part_of_it(root: Root) -> None:
    root.unit("other", desired=unit.STOPPED)
    root.note()
    assert set(root.listed()["now"]["units"]) == {"llm"}


@pytest.mark.parametrize(
    ("text", "why"), [("", "is not JSON"), ('{"schema": 1, "targets": 7}', "has no list")]
)
def test_damaged_notes_on_targets_are_a_fault_and_stop_nobody(root: Root, text: str, why: str) -> None:
    (root.folder / "releases/targets.json").write_text(text)
    listed = root.listed()
    assert listed["now"]["targets"] == []
    (fault,) = listed["faults"]
    assert f"targets.json {why}" in fault


def test_packages_that_were_put_back_are_not_changed(root: Root) -> None:
    came, now = {"version": "1", "record": "a"}, {"version": "2", "record": "b"}
    root.note()
    root.stack({"x": now}, {"x": came})
    assert root.listed()["now"]["stack"] == {"x": now}
    assert root.note()["number"] == 2
    root.stack({"x": came}, {"x": came})
    listed = root.listed()
    assert (listed["now"]["stack"], listed["now"]["number"], listed["original"]) == ({}, 1, {"x": came})


def test_a_release_that_is_gone_is_told(root: Root) -> None:
    root.note()
    root.release("bbb-2")
    root.note()
    (root.folder / "releases" / "aaa-1.json").unlink()
    assert [(one["number"], one["there"]) for one in root.listed()["generations"]] == [(2, True), (1, False)]
    assert kept.needed_releases(str(root.folder)) == {"bbb-2"}


def test_the_release_of_the_last_good_one_is_needed_whatever_failed_since(root: Root) -> None:
    root.note()
    root.release("bbb-2")
    root.note("bad", error="llm failed")
    assert kept.needed_releases(str(root.folder)) == {"aaa-1"}
    assert root.listed()["generations"][0]["error"] == "llm failed"


def test_old_ones_go(root: Root) -> None:
    for number in range(1, 6):
        root.unit(digest=f"d{number}")
        assert root.note(keep=2)["number"] == number
    assert kept.numbers(str(root.folder)) == [4, 5]
    # numbers are never given again
    root.unit(digest="d6")
    assert root.note(keep=2)["number"] == 6


def test_only_what_serves_is_noted_where_that_is_asked_for(root: Root) -> None:
    root.units = {"llm": {"state": "starting"}}
    said = root.note(serving={"services": True})
    assert said["obstacle"] == "not everything that is to run is ready: llm"
    assert (said["number"], said["noted"], kept.numbers(str(root.folder))) == (None, False, [])
    root.units = {"llm": {"state": "ready"}}
    assert root.note(serving={"services": True})["number"] == 1
    # what has served is no news, whatever it does just now
    root.units = {}
    assert root.note(serving={"services": True})["number"] == 1
    root.release("bbb-2")
    assert root.note()["number"] == 2


def test_a_damaged_one_is_told_and_its_number_stays_taken(root: Root) -> None:
    root.note()
    (root.folder / "generations" / "7.json").write_text('{"schema": 1, "number": 7}')
    listed = root.listed()
    assert [one["number"] for one in listed["generations"]] == [1]
    assert "7.json is no generation" in listed["faults"][0]
    assert root.note()["faults"] == listed["faults"]
    root.unit(digest="other")
    assert root.note()["number"] == 8


def test_a_start_by_its_number_takes_the_specification_of_then_and_leaves_the_secrets(root: Root) -> None:
    root.note()
    sent = {"spec": {**spec_of(Path("/dev")), "digest": "new"}, "secrets": {"VLLM_API_KEY": "made-up"}}
    starting.take(root.paths, "llm", json.dumps(sent))
    secret = Path(root.paths.secret("llm")).read_bytes()
    before = store.read_json(root.paths.spec("llm"))
    idle = starting.take(root.paths, "llm", json.dumps({"generation": 1, "idle": {"0000:03:00": 5}}))
    after = store.read_json(root.paths.spec("llm"))
    assert idle == {"0000:03:00": 5}
    assert before is not None
    assert after is not None
    assert (before["digest"], after["digest"]) == ("new", spec_of(Path("/dev"))["digest"])
    assert Path(root.paths.secret("llm")).read_bytes() == secret


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"generation": 4}, "no-generation"),
        ({"generation": "1"}, "bad-request"),
        ({"generation": 1}, "no-unit"),
    ],
)
def test_a_start_by_a_number_that_is_none(root: Root, given: dict[str, Any], code: str) -> None:
    root.note()
    with pytest.raises(VerbError) as raised:
        starting.take(root.paths, "other", json.dumps(given))
    assert raised.value.code == code
    assert not Path(root.paths.spec("other")).exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"health": "fine"}', '{"health": "good", "of": "3"}', '{"health": "bad", "serving": 1}'],
)
def test_a_note_that_says_too_little(root: Root, text: str) -> None:
    with pytest.raises(VerbError, match=r"standard input is|keep and of are numbers|serving is"):
        verb.note(str(root.folder), text)
    assert kept.numbers(str(root.folder)) == []
