"""Checks of one generation put together: what becomes of a check, and what status and audit say."""

from __future__ import annotations

from typing import Any

import pytest

from klops.agent.units import unit
from klops.agent.units.liveness import Liveness, unchecked
from klops.agent.units.memory import Answer, Memory
from klops.agent.units.progress import Counters
from klops.agent.units.unit import Check
from klops.cards.memory import Use

SPEC: dict[str, Any] = {"smi": "/xpu-smi", "cards": [{"index": 4, "bdf": "0000:03:00"}]}


class Asked(Memory):
    """Answers what it is told to."""

    def __init__(self, *busy: int | None) -> None:
        self.answers = list(busy)
        self.asked: list[str] = []

    def ask(self, smi: str, since: float) -> Answer:
        self.asked.append(smi)
        busy = self.answers.pop(0)
        return Answer(undecided=True) if busy is None else Answer({"0000:03:00": Use(1, 2, busy)})


def ok(running: float, generated: float) -> Check:
    return Check(unit.OK, "/health answers", counters=Counters(running, 0, generated))


def test_while_it_moves_nobody_asks_the_cards() -> None:
    asked = Asked()
    one = Liveness(asked)
    for now in range(0, 600, 5):
        check = one.judge(ok(3, 10.0 * now), 1000.0 + now, 120, SPEC)
        assert (check.kind, check.message, one.turned) == (unit.OK, "/health answers", False)
    assert one.shown(check.kind) == {"live": True, "progress": "moving", "problem": None}
    assert asked.asked == []


def test_a_stall_is_p1_when_the_cards_were_idle_at_each_of_several_looks() -> None:
    one = Liveness(Asked(0, None, 0, 1, 0))
    said, turns = [], []
    for now in (0, 120, 125, 130, 135, 140):
        check = one.judge(ok(1, 9), 1000.0 + now, 120, SPEC)
        said.append("P1" in check.message)
        turns.append(one.turned)
        assert check.kind == (unit.STALLED if now else unit.OK)
    assert said == [False, False, False, False, True, True]
    assert turns == [False, True, False, False, True, False], "each is told once"
    assert one.shown(check.kind) == {"live": False, "progress": "stalled", "problem": "P1"}
    silent = one.judge(Check(unit.SLOW, "no answer"), 1145.0, 120, SPEC)
    assert (silent.kind, one.turned) == (unit.SLOW, False)
    assert one.shown(silent.kind) == {"live": None, "progress": "unknown", "problem": None}
    again = one.judge(ok(1, 10), 1150.0, 120, SPEC)
    assert (again.kind, one.turned, one.trouble) == (unit.OK, True, "")


def test_one_look_at_busy_cards_is_enough_for_no_p1() -> None:
    one = Liveness(Asked(0, 80, 0))
    for now in (0, 120, 125, 130):
        check = one.judge(ok(1, 9), 1000.0 + now, 120, SPEC)
    assert check.message.endswith("its cards are at 80 %")


def test_tokens_that_crawl_on_idle_cards_are_p1_though_it_answers() -> None:
    one = Liveness(Asked(*[0] * 100))
    for now in range(0, 100, 5):
        check = one.judge(ok(1, now // 5), 1000.0 + now, 120, SPEC)
    assert check.kind == unit.OK
    assert "a token takes a request 5.0 s while its cards are at 0 %: problem P1" in check.message
    assert one.shown(check.kind) == {"live": True, "progress": "moving", "problem": "P1"}


def test_where_xpu_smi_can_not_be_asked_p1_is_not_named() -> None:
    one = Liveness(Asked(*[None] * 9))
    for now in (0, 120, 125, 130):
        check = one.judge(ok(1, 9), 1000.0 + now, 120, SPEC)
    assert check.message.endswith("whether its cards work meanwhile isn't known")


def test_without_metrics_health_decides_and_it_is_said() -> None:
    one = Liveness(Asked())
    check = one.judge(Check(unit.OK, "fine", unmeasured="/metrics answers 404"), 1.0, 120, SPEC)
    assert check.kind == unit.OK
    assert check.message == "fine; whether requests progress isn't known: /metrics answers 404"
    assert one.shown(check.kind) == {"live": None, "progress": "unknown", "problem": None}


@pytest.mark.parametrize(("kind", "live"), [(unit.LOST, False), (unit.SLOW, None)])
def test_a_dead_engine_is_not_live_and_a_silent_one_may_be(kind: str, live: bool | None) -> None:
    one = Liveness(Asked())
    one.judge(Check(kind, "x"), 1.0, 120, SPEC)
    assert one.shown(kind)["live"] is live
    assert unchecked("why") == {"ok": None, "checked": None, "message": "why", **Liveness(Asked()).shown("")}
