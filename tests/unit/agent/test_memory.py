"""Asking xpu-smi: one child, a deadline, and nobody waits for one that doesn't answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.processes import procs
from klops.agent.trouble import Troubles
from klops.agent.units import memory
from klops.agent.units.memory import Admission, Memory, Room
from klops.agent.units.unit import Record
from klops.agent.verbs import stopping
from klops.cards import memory as cards
from klops.cards.memory import Held, Use
from tests.waiting import until

BDF = "0000:9a:00"
CARD = {"index": 4, "minor": 4, "node": "/dev/xpu4", "bdf": BDF, "uuid": "", "serial": ""}


class Smi:
    """A program that says what a file says, and how it ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "xpu-smi"
        self.text = folder / "said"
        self.asked = folder / "asked"
        self.does(f"echo $1 >>{self.asked}; cat {self.text}")

    def does(self, script: str) -> None:
        """Replace the program."""
        new = self.path.with_name("new")
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(0o755)
        new.replace(self.path)

    def says(self, used: int, total: int = 98304) -> None:
        """One card with that much in use."""
        new = self.text.with_name("said.new")
        new.write_text(f"00000000:9A:00.0 4 4 SN 36 0 0 0 86 1 1 1 1 1 1 2 96 {used} {total} 0 1.0 'P800'\n")
        new.replace(self.text)


@pytest.fixture
def smi(tmp_path: Path) -> Smi:
    """One that says that the card is empty."""
    made = Smi(tmp_path)
    made.says(0)
    return made


@pytest.fixture
def asks(tmp_path: Path) -> Iterator[Memory]:
    """Who asks, with an audit log beside it."""
    made = Memory(Audit(str(tmp_path / "audit.jsonl"), "test", Troubles()))
    yield made
    made.close()


def decided(asks: Memory, smi: Smi, since: float) -> dict[str, Use] | None:
    """The answer, once there is one."""

    def look() -> list[dict[str, Use] | None]:
        answer = asks.ask(str(smi.path), since)
        return [] if answer.undecided else [answer.uses]

    found: list[dict[str, Use] | None] = until(look, what="it has said something")
    return found[0]


def over(asks: Memory) -> bool:
    """Whether nobody asks any more."""
    asks.hear()
    return asks.pids == set()


def spec(smi: Smi, *args: str) -> dict[str, Any]:
    """As much of a specification as is looked at."""
    return {"argv": ["vllm", "serve", "/m", *args], "cards": [CARD], "smi": str(smi.path)}


def test_the_answer_is_of_then_or_later(asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_APART", 0.0)
    begun = time.monotonic()
    assert decided(asks, smi, begun) == {BDF: Use(0, 98304, 0)}
    smi.says(700)
    assert decided(asks, smi, begun) == {BDF: Use(0, 98304, 0)}
    assert decided(asks, smi, time.monotonic()) == {BDF: Use(700, 98304, 0)}
    assert smi.asked.read_text() == "-m\n-m\n"
    until(lambda: over(asks), what="who said it has ended")


def test_where_it_is_not_to_be_asked_or_is_not_there_nothing_is_known(
    asks: Memory, smi: Smi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asks.ask("", 0.0) == memory.Answer()
    gone = str(smi.path.with_name("gone"))
    for _ in range(2):
        assert asks.ask(gone, time.monotonic()).uses is None
    smi.does("echo no driver >&2; exit 1")
    assert decided(asks, smi, time.monotonic()) is None
    said = capsys.readouterr().err
    assert said.count("No such file or directory") == 1
    assert said.count("it says nothing") == 1


def test_one_that_does_not_answer_is_ended_and_not_asked_twice_at_a_time(
    asks: Memory, smi: Smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DEADLINE", 0.5)
    smi.does(f"echo $1 >>{smi.asked}; exec sleep 300")
    begun = time.monotonic()
    first = asks.ask(str(smi.path), begun)
    assert first.undecided
    assert time.monotonic() - begun < 1.0
    (pid,) = asks.pids
    assert asks.ask(str(smi.path), time.monotonic()).undecided
    assert decided(asks, smi, begun) is None
    until(lambda: over(asks), what="it has ended")
    assert procs.read(pid) is None  # reaped too
    (line,) = [json.loads(text) for text in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert (line["pid"], line["signal"], line["outcome"]) == (pid, "SIGKILL", "sent")
    assert smi.asked.read_text() == "-m\n"


def test_one_that_kill_does_not_end_keeps_nobody(
    asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DEADLINE", 0.2)
    # what it has started has its output open: it is not over, whatever became of the child
    smi.does("sleep 300 & echo $! >" + str(smi.asked) + "; wait")
    assert decided(asks, smi, time.monotonic()) is None
    left = int(smi.asked.read_text())
    try:
        assert asks.ask(str(smi.path), time.monotonic()) == memory.Answer()
        assert len(asks.pids) == 1
    finally:
        os.kill(left, 9)
    until(lambda: over(asks), what="it is over")


def test_room_names_card_free_and_asked(asks: Memory, smi: Smi) -> None:
    smi.says(90000)
    since = time.monotonic()
    decided(asks, smi, since)
    found = memory.room(spec(smi), asks, since)
    assert "card 4 (0000:9a:00) has 8304 of 98304 MiB free and 88473 will be asked for" in found.problem
    assert "klops reap HOST lists them" in found.problem
    assert memory.room(spec(smi, "--gpu-memory-utilization=0.08"), asks, since) == Room(idle={BDF: 90000})
    assert memory.room({**spec(smi), "smi": ""}, asks, since) == Room()
    assert memory.room({**spec(smi), "cards": []}, asks, since) == Room()


def test_a_card_that_is_missing_from_the_answer_is_named(
    asks: Memory, smi: Smi, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**CARD, "index": 5, "bdf": "0000:9b:00"}
    since = time.monotonic()
    decided(asks, smi, since)
    assert memory.room({**spec(smi), "cards": [CARD, other]}, asks, since) == Room(idle={BDF: 0})
    assert "does not list card 5 (0000:9b:00)" in capsys.readouterr().err


def test_what_one_that_had_to_be_killed_had_said_by_then_is_no_answer(
    asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DEADLINE", 0.3)
    smi.does(f"cat {smi.text}; exec sleep 300")
    begun = time.monotonic()
    assert decided(asks, smi, begun) is None
    until(lambda: over(asks), what="it has ended")
    assert asks.ask(str(smi.path), begun).uses is None


def test_one_that_has_answered_and_does_not_end_holds_up_nobody(
    asks: Memory, smi: Smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DEADLINE", 1.0)
    smi.does(f"cat {smi.text}; exec sleep 300 >&-")
    begun = time.monotonic()
    assert decided(asks, smi, begun) == {BDF: Use(0, 98304, 0)}
    assert len(asks.pids) == 1
    # another isn't started beside it
    assert asks.ask(str(smi.path), time.monotonic()).undecided
    until(lambda: over(asks), what="it was ended")
    (line,) = [json.loads(text) for text in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert line["why"] == "it does not end within 1 s"


def test_shortage_is_waited_out_for_a_while(asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_APART", 0.0)
    monkeypatch.setattr(memory, "PATIENCE", 1.0)
    smi.says(90000)
    admission, begun = Admission(asks), time.monotonic()

    def look() -> Room | None:
        now = time.monotonic()
        found = admission.look(spec(smi), now)
        return None if found.undecided or (found.problem and admission.patient(now)) else found

    refused: Room = until(look, what="it is refused")
    assert refused.problem
    assert time.monotonic() - begun >= memory.PATIENCE
    assert len(smi.asked.read_text().split()) > 1  # it may have passed meanwhile
    smi.says(0)

    def room() -> Room | None:
        found = look()
        return found if found is not None and not found.problem else None

    now: Room = until(room, what="there is room")
    assert now.idle == {BDF: 0}
    asked = smi.asked.read_text()
    assert look() == now  # what else the start needs may take a while
    assert smi.asked.read_text() == asked
    admission.again()
    assert until(look, what="it is asked again") == now
    assert smi.asked.read_text() != asked


def test_given_back_is_waited_for(asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_APART", 0.0)
    monkeypatch.setattr(memory, "_PAUSE", 0.01)
    smi.says(90000)
    real, looks = cards.returned, []

    def returned(*args: Any) -> Any:
        looks.append(found := real(*args))
        smi.says(500)
        return found

    monkeypatch.setattr(cards, "returned", returned)
    assert memory.given_back(asks, str(smi.path), {BDF: 0}) == []
    assert looks[0] == [Held(BDF, 90000, 0)]


def test_what_others_go_on_holding_is_not_waited_for(
    asks: Memory, smi: Smi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_APART", 0.0)
    monkeypatch.setattr(memory, "_PAUSE", 0.01)
    monkeypatch.setattr(memory, "HELD_BY_OTHERS", 0.0)
    smi.says(90000)
    held, begun = [Held(BDF, 90000, 0)], time.monotonic()
    assert memory.given_back(asks, str(smi.path), {BDF: 0}, lambda: {BDF: {(21, 5)}}) == held
    assert time.monotonic() - begun < memory.GIVING_BACK
    # nobody whom two looks show holds it
    monkeypatch.setattr(memory, "GIVING_BACK", 0.3)
    looks: list[int] = []

    def passing() -> dict[str, set[tuple[int, int]]]:
        looks.append(len(looks))
        return {BDF: {(21, len(looks))}}

    begun = time.monotonic()
    assert memory.given_back(asks, str(smi.path), {BDF: 0}, passing) == held
    assert time.monotonic() - begun > memory.GIVING_BACK
    assert len(looks) > 1


def test_who_has_a_unit_s_card_open_here(tmp_path: Path) -> None:
    (tmp_path / "xpu4").symlink_to("/dev/full")
    unit = {"device_dir": str(tmp_path), "cards": [{"index": 4, "minor": 4, "node": "/dev/xpu4", "bdf": BDF}]}
    me = procs.read(os.getpid())
    assert me is not None
    assert (me.pid, me.start) not in stopping._holders(unit)[BDF]
    with (tmp_path / "xpu4").open("rb"):
        assert (me.pid, me.start) in stopping._holders(unit)[BDF]


def test_what_a_stop_says_of_the_memory(tmp_path: Path, smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GIVING_BACK", 0.1)
    paths = store.Paths(str(tmp_path))
    paths.make()
    unit = {"generation": 1, "idle": {BDF: 0}}
    assert stopping.memory_of(paths, "llm", unit)["state"] == "none"  # there is no such unit
    whole = {
        **spec(smi),
        **dict.fromkeys(("name", "digest", "model", "visible_env", "device_dir"), "llm"),
        **dict.fromkeys(("schema", "port", "tp"), 1),
        **{key: {} for key in ("env", "health", "restart", "log")},
        "env_script": None,
        "stop": {"timeout": 1},
    }
    store.write_json(paths.spec("llm"), whole)
    smi.says(500)
    assert stopping.memory_of(paths, "llm", unit) == {"state": "returned", "held": [], "why": ""}
    smi.says(90000)
    assert stopping.memory_of(paths, "llm", unit) == {
        "state": "held",
        "held": [{"index": 4, "bdf": BDF, "used": 90000, "before": 0}],
        "why": "",
    }
    # by now its specification may name another card, or none: what it had counts
    record = Record("llm", running={"cards": [4]}, idle={BDF: 0})
    store.write_json(paths.state("llm"), record.dump())
    for cards_now in ([{**CARD, "index": 7, "bdf": "0000:07:00"}], []):
        store.write_json(paths.spec("llm"), {**whole, "cards": cards_now})
        (held,) = stopping.memory_of(paths, "llm", unit)["held"]
        assert (held["index"], held["bdf"]) == (4, BDF)
    store.write_json(paths.spec("llm"), whole)
    assert stopping.memory_of(paths, "llm", {**unit, "idle": {}})["state"] == "unknown"
    assert stopping.memory_of(paths, "llm", {**unit, "generation": 0})["state"] == "none"
    smi.path.unlink()
    found = stopping.memory_of(paths, "llm", unit)
    assert (found["state"], found["why"]) == ("unknown", "xpu-smi can't be asked inside the container")
    Path(paths.spec("llm")).write_text("{")
    assert stopping.memory_of(paths, "llm", unit)["state"] == "unknown"
