"""What a start looks at, and in which order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.digests import spec_digest
from klops.agent.units import unit
from klops.agent.units.managed import Managed
from tests.unit.agent.test_strays import units


def spec_of(folder: Path) -> dict[str, Any]:
    """A unit on one card."""
    card = {"index": 0, "minor": 0, "node": "/dev/xpu0", "bdf": "0000:03:00", "uuid": "", "serial": ""}
    spec: dict[str, Any] = {
        **dict.fromkeys(("model", "visible_env"), "llm"),
        **{key: {} for key in ("env", "health", "restart", "log")},
        "schema": 1,
        "name": "llm",
        "argv": ["vllm", "serve", "/m"],
        "env_script": None,
        "cards": [card],
        "device_dir": str(folder),
        "tp": 1,
        "port": 1,
        "stop": {"timeout": 1},
        "smi": "/bin/true",
    }
    return {**spec, "digest": spec_digest(spec)}


def test_xpu_smi_is_not_asked_for_a_unit_whose_cards_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    (one,) = units(tmp_path / "root", "llm")
    store.write_json(one.around.paths.spec("llm"), spec_of(devices))
    asked = []
    monkeypatch.setattr(one.around.memory, "ask", lambda smi, since: asked.append(smi))
    one.record.desired = unit.RUNNING
    one.launch({})
    assert (one.record.state, one.record.waits) == (unit.BACKOFF, True)
    assert "/xpu0) is not in this container" in one.record.error
    assert asked == []


def test_what_an_earlier_supervisor_saw_missing_is_no_verdict_of_the_next(tmp_path: Path) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    (before,) = units(tmp_path / "root", "llm")
    store.write_json(before.around.paths.spec("llm"), spec_of(devices))
    before.record.desired, before.record.home = unit.RUNNING, before.around.home
    before.launch({})
    assert before.report()["waits"]
    after = Managed("llm", before.around)
    told = after.report()
    assert (told["state"], told["waits"], told["error"]) == ("backoff", False, "")
    assert after.step({}, time.monotonic(), closing=False) == unit.LAUNCH
    after.launch({})
    assert after.report()["waits"]
