"""A host whose cards fail as they are told: answers the batches of a diagnosis, and counts what they cost.

>>> host = Host(Machine(dead=frozenset({5})))
>>> host.drive(aim()).verdict.excluded
(5,)
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from klops.cards.xccl.planning.plan import diagnose
from klops.cards.xccl.results import (
    ALLOCATE,
    COLLECTIVE,
    ERROR,
    INIT,
    OK,
    TIMEOUT,
    UNTESTED,
    WRONG,
    Aim,
    Batch,
    Diagnosis,
    Outcome,
    Sample,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Cards = frozenset[int]

WINGS = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7))
LOW, HIGH, WHOLE = map(frozenset, WINGS)
EIGHT = tuple(range(8))
ALL_PAIRS = {frozenset(two) for two in combinations(EIGHT, 2)}
MIB = 1 << 20
SIZES = (64 << 10, MIB, 2_600_000, 16 * MIB, 256 * MIB)
#: what a healthy group of any size does here: time to start an all-reduce, then bytes at this speed
LATENCY_US, GBPS = 40.0, 25.0
ADDR_WINDOW = "[XCCL][util.cpp:346] dev {} addr_window not properly set"


def none() -> Cards:
    return frozenset()


def pair(*cards: int) -> Cards:
    return frozenset(cards)


def broken(how: str, cards: Cards) -> Machine:
    """These cards all have the same fault; ``wrong``: of 3 rounds of 10 at 1 MiB."""
    return {
        "dead": Machine(dead=cards),
        "hang_init": Machine(hang_init=cards),
        "hang_collective": Machine(hang_collective=cards),
        "wrong": Machine(wrong=dict.fromkeys(cards, (3, MIB))),
    }[how]


def time_us(size: int) -> float:
    """Of an all-reduce of ``size`` bytes a rank where nothing is slow."""
    return LATENCY_US + size / GBPS / 1000


def learned(*worlds: int) -> dict[int, dict[int, float]]:
    """The baseline that a healthy machine would have taught, for groups of these sizes."""
    return {world: {size: size / time_us(size) / 1000 for size in SIZES} for world in worlds}


@dataclass(frozen=True)
class Machine:
    """What is broken. Cards are those of the aim; a set of cards stands for the test of exactly these."""

    #: fails alone, by an error
    dead: Cards = field(default_factory=none)
    #: every group with it hangs, in its init or in the collective
    hang_init: Cards = field(default_factory=none)
    hang_collective: Cards = field(default_factory=none)
    #: every group with it has wrong sums: card to (rounds that are wrong of those measured, at which size)
    wrong: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: status of every group that holds both
    links: Mapping[Cards, str] = field(default_factory=dict)
    #: every group has this error at its init; {} is the place of the rank
    init_error: str = ""
    #: status of every group of so many cards, or of exactly these
    worlds: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[Cards, str] = field(default_factory=dict)
    #: speed of every test with this card, and of every group that holds both: 1.0 is healthy
    slow_cards: Mapping[int, float] = field(default_factory=dict)
    slow_links: Mapping[Cards, float] = field(default_factory=dict)
    #: tests that hang the first time only
    hiccups: frozenset[Cards] = frozenset()
    #: chance of every test with this card to fail by an error
    flaky: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    #: batches until the time is over
    budget: int | None = None
    rounds: int = 10

    def relabelled(self, names: Mapping[int, int]) -> Machine:
        """The same machine, its cards numbered otherwise."""

        def moved(cards: Cards) -> Cards:
            return frozenset(names[card] for card in cards)

        return replace(
            self,
            dead=moved(self.dead),
            hang_init=moved(self.hang_init),
            hang_collective=moved(self.hang_collective),
            wrong={names[card]: how for card, how in self.wrong.items()},
            links={moved(link): status for link, status in self.links.items()},
            groups={moved(group): status for group, status in self.groups.items()},
            slow_cards={names[card]: speed for card, speed in self.slow_cards.items()},
            slow_links={moved(link): speed for link, speed in self.slow_links.items()},
            hiccups=frozenset(map(moved, self.hiccups)),
            flaky={names[card]: chance for card, chance in self.flaky.items()},
        )


class Host:
    """Runs tests on a machine, as the runner of a host does: ranks that hung or failed are replaced."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.batches: list[Batch] = []
        self.ended: list[tuple[Outcome, ...]] = []
        #: groups of two and more that were formed
        self.groups = 0
        #: rank processes that were started, after the first one of each card
        self.fresh_starts = 0
        #: batches that lasted until a timeout
        self.timeouts = 0
        self._random = random.Random(machine.seed)
        self._used: set[int] = set()

    def drive(self, aim: Aim) -> Diagnosis:
        """A whole diagnosis, to its end."""
        plan = diagnose(aim)
        try:
            batch = next(plan)
            while True:
                batch = plan.send(self.answer(batch))
        except StopIteration as end:
            found: Diagnosis = end.value
            return found

    def answer(self, batch: Batch) -> tuple[Outcome, ...]:
        """One outcome a test."""
        cards = [card for test in batch.tests for card in test.cards]
        assert cards, "an empty batch"
        assert len(set(cards)) == len(cards), f"a card twice in {batch}"
        over = self.machine.budget is not None and len(self.batches) >= self.machine.budget
        self.batches.append(batch)
        if over:
            ended = tuple(Outcome(test.cards, UNTESTED) for test in batch.tests)
        else:
            if batch.fresh:
                self._replace(cards)
            ended = tuple(self._test(test.cards, batch.sizes or SIZES) for test in batch.tests)
            self.groups += sum(not test.single for test in batch.tests)
            self.timeouts += any(one.status == TIMEOUT for one in ended)
            self._used.update(cards)
            for one in ended:
                if one.status != OK:
                    self._replace(one.cards)
        self.ended.append(ended)
        return ended

    def tests(self, size: int | None = None) -> list[Cards]:
        """All tests that were run, of this many cards."""
        asked = [frozenset(test.cards) for batch in self.batches for test in batch.tests]
        return [cards for cards in asked if size in (None, len(cards))]

    def _replace(self, cards: Sequence[int]) -> None:
        self.fresh_starts += len(self._used & set(cards))
        self._used -= set(cards)

    def _test(self, cards: Sequence[int], sizes: Sequence[int]) -> Outcome:
        here, order = frozenset(cards), tuple(cards)
        again = here in {frozenset(one.cards) for ended in self.ended for one in ended}
        fault = _fault(self.machine, here)
        if fault is None and here in self.machine.hiccups and not again:
            fault = (TIMEOUT, COLLECTIVE if len(here) > 1 else ALLOCATE, "")
        chance = max((self.machine.flaky.get(card, 0.0) for card in here), default=0.0)
        if fault is None and self._random.random() < chance:
            fault = (ERROR, ALLOCATE if len(here) == 1 else COLLECTIVE, "now and then")
        if fault is None or fault[0] == WRONG:
            return self._measured(order, sizes, wrong=fault is not None)
        status, stage, error = fault
        silent = order if status == TIMEOUT else ()
        told = order if status == ERROR else ()
        return Outcome(order, status, stage, error, silent, told, failures=1)

    def _measured(self, cards: tuple[int, ...], sizes: Sequence[int], wrong: bool) -> Outcome:
        bad = {size: count for count, size in (self.machine.wrong.get(card, (0, 0)) for card in cards)}
        if len(cards) == 1:
            bad = {}
        speed = _speed(self.machine, frozenset(cards))
        samples = tuple(
            Sample(
                bytes=size,
                rounds=self.machine.rounds,
                wrong=self.machine.rounds if wrong else bad.get(size, 0),
                us=LATENCY_US + (time_us(size) - LATENCY_US) / speed,
                spread_us=1.0,
            )
            for size in sizes
        )
        failed = any(one.wrong for one in samples)
        status, stage = (WRONG, COLLECTIVE) if failed else (OK, "")
        return Outcome(cards, status, stage, samples=samples, failures=int(failed))


def _fault(machine: Machine, cards: Cards) -> tuple[str, str, str] | None:
    """Status, stage and error of a test that fails every time; wrong sums at one size are not among them."""
    if cards & machine.dead:
        return ERROR, ALLOCATE, "RuntimeError: device is not available"
    if cards in machine.groups:
        return _status(machine.groups[cards])
    if len(cards) == 1:
        return None
    if machine.init_error:
        return ERROR, INIT, machine.init_error.format(min(cards))
    if cards & machine.hang_init:
        return TIMEOUT, INIT, ""
    if cards & machine.hang_collective:
        return TIMEOUT, COLLECTIVE, ""
    if len(cards) in machine.worlds:
        return _status(machine.worlds[len(cards)])
    for link in map(frozenset, combinations(sorted(cards), 2)):
        if link in machine.links:
            return _status(machine.links[link])
    return None


def _status(status: str) -> tuple[str, str, str]:
    return status, COLLECTIVE, "RuntimeError: [PROCESS_FAILED]" if status == ERROR else ""


def _speed(machine: Machine, cards: Cards) -> float:
    cards_speed = [machine.slow_cards.get(card, 1.0) for card in cards]
    return min(cards_speed + [speed for link, speed in machine.slow_links.items() if link <= cards])


#: what a healthy machine taught, for the groups that services get
KNOWN = learned(4, 8)


def aim(baseline: Mapping[int, Mapping[int, float]] = KNOWN, **other: object) -> Aim:
    """Of eight cards in two wings."""
    return Aim(EIGHT, groups=WINGS, baseline=baseline, **other)  # type: ignore[arg-type]


def diagnosed(machine: Machine, what: Aim | None = None) -> tuple[Host, Diagnosis]:
    """The host after a whole diagnosis, and what came of it."""
    host = Host(machine)
    return host, host.drive(aim() if what is None else what)


def chosen(found: Diagnosis) -> list[Cards]:
    """The groups that services are to have."""
    return [frozenset(cards) for cards in (found.recommended or {}).values()]
