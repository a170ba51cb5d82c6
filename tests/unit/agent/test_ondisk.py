"""What is made of a unit's files: sound, damaged, of a newer klops."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.units import intake, ondisk, recovery, report, unit
from klops.agent.units.lineage import Lineage
from klops.agent.units.unit import Record, Seen

SPEC: dict[str, Any] = {
    "schema": 1,
    "name": "llm",
    "argv": ["vllm"],
    "env": {},
    "env_script": None,
    "cards": [],
    "visible_env": "XPU_VISIBLE_DEVICES",
    "device_dir": "/dev",
    "tp": 1,
    "port": 1,
    "model": "llm",
    "health": {},
    "stop": {"timeout": 1},
    "restart": {},
    "log": {},
    "digest": "d",
}
SENT = {"spec": SPEC, "secrets": {"VLLM_API_KEY": "made-up"}}


@pytest.fixture
def paths(tmp_path: Path) -> store.Paths:
    """A root with one unit taken in."""
    made = store.Paths(str(tmp_path))
    intake.take(made, "llm", SENT)
    return made


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 1}', json.dumps({**SPEC, "health": {"failures": 1e999}})]
)
def test_a_damaged_specification_is_replaced_and_kept_aside(paths: store.Paths, text: str) -> None:
    path = Path(paths.spec("llm"))
    path.write_text(text)
    found, fault = ondisk.attempt(ondisk.spec, paths, "llm")
    assert found is None
    assert fault is not None
    assert (fault.code, str(path) in fault.message) == ("damaged", True)
    intake.take(paths, "llm", SENT)
    assert ondisk.spec(paths, "llm") == SPEC
    assert Path(f"{path}.damaged").read_text() == text
    assert paths.names() == ["llm"]


def test_a_newer_file_is_never_replaced(paths: store.Paths) -> None:
    for path in (paths.spec("llm"), paths.secret("llm")):
        whole = Path(path).read_text()
        Path(path).write_text('{"schema": 2}')
        with pytest.raises(VerbError, match="schema 2"):
            intake.take(paths, "llm", SENT)
        assert Path(path).read_text() == '{"schema": 2}'
        Path(path).write_text(whole)


@pytest.mark.parametrize("change", [{"state": "dancing"}, {"desired": ""}, {"name": 7, "root": []}])
def test_a_state_that_says_nothing_is_damaged(paths: store.Paths, change: dict[str, Any]) -> None:
    store.write_json(paths.state("llm"), Record("llm").dump())
    assert ondisk.record(paths, "llm") == Record("llm")
    store.write_json(paths.state("llm"), {**Record("llm").dump(), **change})
    _, fault = ondisk.attempt(ondisk.record, paths, "llm")
    assert fault is not None
    assert fault.code == "damaged"


def test_a_record_made_anew_keeps_what_lives_and_starts_nothing(paths: store.Paths) -> None:
    lineage, me = Lineage(paths.lineage("llm")), procs.read(os.getpid())
    assert me is not None
    seen = Seen(now=5.0, clock=9.0)
    for replaced, desired in ((True, unit.STOPPED), (False, unit.RUNNING)):
        dead = recovery.rebuilt("llm", lineage, {}, {}, seen, "it was damaged", replaced)
        assert unit.step(dead, unit.Policy(), seen) == unit.NOTHING
        assert (dead.state, dead.error, dead.root) == (unit.FAILED, "it was damaged", None)
        assert dead.desired == desired
    lineage.record(me, 4)
    living = recovery.rebuilt("llm", lineage, {me.pid: me}, {"digest": "d"}, seen, "it was damaged", True)
    assert (living.state, living.generation, living.root) == (unit.STARTING, 4, [me.pid, me.start])
    assert living.desired == unit.RUNNING
    assert living.running == {"digest": "d"}


def test_without_a_supervisor_a_wanted_unit_says_why_it_does_not_run(paths: store.Paths) -> None:
    store.write_json(paths.state("llm"), Record("llm", desired="running", state="ready").dump())
    shown = report.from_disk(paths, {})["llm"]
    assert shown["state"] == "stopped"
    assert shown["error"].startswith("it is wanted, but no supervisor answers")
    store.write_json(paths.state("llm"), Record("llm").dump())
    assert report.from_disk(paths, {})["llm"]["error"] == ""
