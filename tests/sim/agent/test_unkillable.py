"""A member that KILL does not end: said, tried a few times, its card kept out of service until it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.processes import identity, procs
from klops.agent.units import quarantine
from klops.agent.units.ending import GRACE, KILLS, UNKILLABLE
from klops.cards.record import quarantine as notes
from tests.frozen import Frozen, freezer
from tests.sim.agent.cards import Cards
from tests.sim.agent.site import Site, alive
from tests.sim.agent.test_cards_memory import on_cards
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")


def children(pid: int) -> list[int]:
    """Pids of a process' children that run a program of their own by now."""
    return [p.pid for p in procs.table().values() if p.ppid == pid and p.name == "sleep"]


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """What freezes processes."""
    with freezer() as made:
        yield made


def test_a_note_of_an_earlier_life_of_the_container_is_lifted_from_the_host(held: Site, cards: Cards) -> None:
    card = cards.identity(2)
    # of another pid namespace, as what was stuck in the container before it was started anew
    apart = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "300"]
    with subprocess.Popen(apart) as outside, contextlib.ExitStack() as last:
        last.callback(outside.kill)
        inner = until(lambda: children(outside.pid), what="somebody lives there")[0]
        process = procs.read(inner)
        assert process is not None
        who = {"pid": 1, "start": process.start, "ns": Path(f"/proc/{inner}/ns/pid").stat().st_ino}
        quarantine.add(
            str(held.root),
            [
                notes.note(
                    card,
                    "",
                    by="a test",
                    at=1.0,
                    boot_id=identity.here()[0],
                    process={**who, "name": "sleep"},
                )
            ],
        )
        held.start(on_cards(held, cards, 2))
        why = until(lambda: (u := held.unit())["waits"] and u["error"], what="it waits for its card")
        assert why.startswith("card 2 is kept out of service: pid 1 (sleep")
        assert "klops reap HOST lifts this" in why
        held.verb("reap", "--host")
        assert len(held.verb("status")["quarantine"]) == 1, "it lives"
        os.kill(inner, signal.SIGKILL)
    assert len(held.verb("status")["quarantine"]) == 1, "which nobody can tell from inside"
    held.verb("reap", "--host")
    assert held.verb("status")["quarantine"] == []
    held.reaches("ready")


@pytest.mark.long
def test_its_card_is_kept_out_of_service_until_it_is_gone(held: Site, cards: Cards, frozen: Frozen) -> None:
    spec = on_cards(held, cards, 2, 3, stop={"timeout": 1})
    held.start(spec)
    unit = held.reaches("ready")
    (stuck,) = [p["cpid"] for p in unit["lineage"] if p["name"].startswith("VLLM::Worker")][:1]
    frozen.freeze(stuck)
    began = time.monotonic()
    error = held.verb("stop", "llm")["error"]
    assert time.monotonic() - began < 1 + GRACE + UNKILLABLE + 15
    assert error["code"] == "unkillable"
    assert f"pid {stuck} (" in error["message"]
    assert "in state D, card 2;" in error["message"] or "in state D, card 3;" in error["message"]
    assert not any(alive(p["cpid"]) for p in unit["lineage"] if p["cpid"] != stuck)

    def kills() -> int:
        return sum(one["signal"] == "SIGKILL" and one["pid"] == stuck for one in held.audit("signal"))

    assert kills() == KILLS
    (note,) = held.verb("status")["quarantine"]
    assert (note["process"]["pid"], note["process"]["state"], note["kind"]) == (stuck, "D", "unkillable")
    index = note["card"]["index"]
    (line,) = held.audit("quarantine")
    assert line["card"] == index
    # a second stop says the same, at once, and sends nothing more
    assert held.verb("stop", "llm")["error"]["code"] == "unkillable"
    assert kills() == KILLS
    # neither it nor another unit starts on that card; on another one it does
    other = on_cards(held, cards, index, name="other")
    held.start(other)
    waits = until(lambda: (u := held.unit("other"))["waits"] and u, what="it waits for its card")
    assert waits["error"].startswith(f"card {index} is kept out of service: pid {stuck} (")
    free = on_cards(held, cards, 6, name="free")
    held.start(free)
    held.reaches("ready", "free")
    frozen.thaw()
    until(lambda: not alive(stuck), what="the driver lets it go")
    held.reaches("ready", "other")
    assert held.verb("status")["quarantine"] == []
    assert held.reaches("stopped")["error"] == ""
    assert len(json.loads((held.root / "cards.json").read_text())["notes"]) == 1  # as it was
