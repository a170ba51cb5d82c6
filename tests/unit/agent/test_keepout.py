"""A member that KILL does not end, seen by its unit with little patience; the whole of it is a long test."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.processes import procs
from klops.agent.units import ending, quarantine, unit
from klops.agent.units.managed import Managed
from tests.frozen import Frozen, freezer
from tests.unit.agent.test_launches import spec_of
from tests.unit.agent.test_strays import units
from tests.waiting import until

#: Says that it is up, and that TERM does not end it.
SHELL = ["sh", "-c", "trap '' TERM; echo up; read _"]


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """What freezes processes."""
    with freezer() as made:
        yield made


def looked(one: Managed) -> str:
    """The state after one more look."""
    processes = procs.table()
    one.look(processes)
    one.step(processes, time.monotonic(), False)
    return one.record.state


def test_its_card_is_kept_out_and_the_other_member_is_not_called_unkillable(
    tmp_path: Path, frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "GRACE", 0.2)
    monkeypatch.setattr(ending, "UNKILLABLE", 0.5)
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "xpu0").symlink_to("/dev/full")
    spec: dict[str, Any] = spec_of(devices)
    (one,) = units(tmp_path / "root", "llm")
    root = one.around.paths.root
    store.write_json(one.around.paths.spec("llm"), spec)
    one.read_spec()
    with contextlib.ExitStack() as last:
        card = last.enter_context(Path("/dev/full").open("rb"))
        stuck = last.enter_context(subprocess.Popen(["sleep", "300"], stdin=card))
        last.callback(stuck.kill)
        last.callback(frozen.thaw)
        frozen.freeze(stuck.pid)
        member = procs.read(stuck.pid)
        assert member is not None
        one.lineage.record(member, 1)
        one.record.generation, one.record.state = 1, unit.UNHEALTHY
        unit.command_stop(one.record)
        until(lambda: looked(one) == unit.FAILED, what="it is called unkillable")
        with subprocess.Popen(SHELL, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as late:
            assert late.stdout is not None
            late.stdout.readline()
            newcomer = procs.read(late.pid)
            assert newcomer is not None
            one.lineage.record(newcomer, 1)
            looked(one)
            assert late.wait(5) == -9
        assert f"unkillable: pid {stuck.pid} (sleep) in state D, card 0;" in one.record.error
        assert str(late.pid) not in one.record.error
        (note,) = json.loads((Path(root) / "cards.json").read_text())["notes"]
        assert (note["process"]["pid"], note["card"]["index"]) == (stuck.pid, 0)
        assert "klops reap HOST lifts this" in note["reason"]
        assert quarantine.obstacle(root, spec) == f"card 0 is kept out of service: {note['reason']}"
        frozen.thaw()
        assert stuck.wait(5) < 0  # by TERM or KILL, which both wait
    assert quarantine.obstacle(root, spec) == ""
    assert looked(one) == unit.STOPPED
    lines = [json.loads(line) for line in (Path(root) / "audit.jsonl").read_text().splitlines()]
    assert [line["card"] for line in lines if line["event"] == "quarantine"] == [0]
    assert Path(one.around.paths.state("llm")).exists()
