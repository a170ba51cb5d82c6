"""Reads the cases in verdict_cases; its README.md says what they hold."""

from __future__ import annotations

import json
import re
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klops.cards.choice.selection import Wanted
from klops.cards.xccl.results import ERROR, FLAKY, OK, TIMEOUT, UNTESTED, WRONG, Aim, Outcome, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).parent / "verdict_cases"
GROUPS = ("0123", "4567", "01234567")
SIZES = (65536, 1 << 20, 2_600_000, 16 << 20)
#: Usual speed in GB/s, a round number so that ratios are exact.
SPEED = 10.0
ENDING = re.compile(
    r"(?P<status>ok|wrong|flaky|untested|timeout|error)(?: (?P<stage>[a-z]+))?"
    r"(?: (?P<failures>\d)/(?P<runs>\d))?(?: x(?P<speed>[\d.]+))?(?:: (?P<error>.*))?"
)


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """All of them with their titles."""
    for path in sorted(FOLDER.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            yield f"{path.stem}: {case['name']}", case


def numbers(text: str) -> tuple[int, ...]:
    """``0123`` is cards 0 to 3, ``10`` after a dash is card 10 where there are so many."""
    return tuple(map(int, text))


def aim_of(case: Mapping[str, Any]) -> Aim:
    """What the diagnosis was for."""
    cards = case["cards"]
    cards = tuple(range(cards)) if isinstance(cards, int) else tuple(cards)
    want = case.get("want", {})
    heads = want.get("heads")
    return Aim(
        cards=cards,
        wants=(Wanted("svc", tp=want.get("tp"), heads=tuple(heads) if heads else None),),
        groups=tuple(map(numbers, case.get("groups", GROUPS))),
        min_tp=want.get("min_tp", 1),
        links={
            (a, b): "XL" if a // 4 == b // 4 else "SYS"
            for a, b in combinations(cards, 2)
            if case.get("links") == "wings"
        },
        baseline={int(size): dict.fromkeys(SIZES, gbps) for size, gbps in case.get("baseline", {}).items()},
    )


def _end(side: str, cards: tuple[int, ...]) -> tuple[int, ...]:
    if side == "*":
        return cards
    return (int(side),) if int(side) in cards and int(side) >= 10 else numbers(side)


def _endings(given: Mapping[str, str], cards: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """Of pairs; a later line wins."""
    found: dict[tuple[int, ...], str] = {}
    for key, ending in given.items():
        left, _, right = ("*", "", "*") if key == "*" else key.partition("-")
        for a in _end(left, cards):
            found.update(((min(a, b), max(a, b)), ending) for b in _end(right, cards) if a != b)
    return dict(sorted(found.items()))


def outcomes_of(case: Mapping[str, Any]) -> list[Outcome]:
    """How its tests ended: groups first, then cards alone, then pairs, as a diagnosis goes."""
    cards, ports = aim_of(case).cards, count(29500)
    given = [(numbers(group), ending) for group, ending in case.get("together", {}).items()]
    alone = case.get("alone", {"*": "ok"})
    given += [
        ((card,), alone.get(str(card), alone.get("*")))
        for card in cards
        if alone.get(str(card), alone.get("*"))
    ]
    given += _endings(case.get("pairs", {}), cards).items()
    return [outcome(tested, ending, next(ports), case.get("spread", 0.01)) for tested, ending in given]


def outcome(cards: tuple[int, ...], ending: str, port: int = 29500, spread: float = 0.01) -> Outcome:
    """One test that ended so."""
    match = ENDING.fullmatch(ending)
    assert match, f"no such ending: {ending}"
    status = match["status"]
    assert status in (OK, WRONG, FLAKY, UNTESTED, TIMEOUT, ERROR)
    us = {size: size / SPEED / 1000 / float(match["speed"] or 1) for size in SIZES}
    bad = int(status in (WRONG, TIMEOUT, ERROR))
    text = (match["error"] or "").replace("{a}", str(cards[0])).replace("{b}", str(cards[-1]))
    return Outcome(
        cards=cards,
        status=status,
        stage=match["stage"] or ("check" if status == WRONG else ""),
        error=text.replace("{port}", str(port)),
        samples=tuple(
            Sample(size, 10, wrong=3 * (status == WRONG), us=us[size], spread_us=us[size] * spread)
            for size in SIZES
            if status in (OK, WRONG)
        ),
        runs=int(match["runs"] or (0 if status == UNTESTED else 1 + bad)),
        failures=int(match["failures"] or 2 * bad),
    )
