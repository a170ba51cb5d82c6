"""What a diagnosis costs at most, and what holds on any machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.agent.xccl.patience import Patience
from klops.agent.xccl.runner import TELLING
from klops.agent.xccl.settling import PATIENCE
from klops.cards.choice.selection import Wanted
from klops.cards.xccl.results import (
    ERROR,
    INCONCLUSIVE,
    OK,
    TIMEOUT,
    UNTESTED,
    WRONG,
    Aim,
)
from tests.unit.cards.xccl.machines import (
    ADDR_WINDOW,
    EIGHT,
    HIGH,
    KNOWN,
    LOW,
    MIB,
    WHOLE,
    WINGS,
    Host,
    Machine,
    aim,
    chosen,
    diagnosed,
    pair,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.cards.xccl.machines import Cards

#: no machine takes more batches beside one tournament: all that is repeated is in these
MANY = 60

# -- time


@pytest.mark.parametrize("machine", [Machine(hang_collective=LOW), Machine(worlds={8: ERROR}), Machine()])
@pytest.mark.parametrize("budget", range(12))
def test_when_the_time_is_over_the_diagnosis_ends_at_once(machine: Machine, budget: int) -> None:
    what = aim({})
    whole = len(diagnosed(machine, what)[0].batches)
    host, found = diagnosed(replace(machine, budget=budget), what)
    assert len(host.batches) == min(budget + 1, whole)
    if budget < whole:
        assert any(one.status == UNTESTED for one in host.ended[-1])
    assert found.verified == (found.recommended is not None)


def test_nothing_is_recommended_that_nobody_had_time_to_prove() -> None:
    _, found = diagnosed(Machine(budget=0))
    assert (found.verdict.scope, found.recommended, found.verified) == (INCONCLUSIVE, None, False)
    assert found.verdict.excluded == ()
    assert "time" in found.why


def test_whatever_cards_hang_few_tests_last_until_their_timeout() -> None:
    """For each of 2^8 sets: at 20 s a timeout, 180 s of the 600 that a diagnosis has."""
    worst = 0
    for bits in range(1 << 8):
        hanging = frozenset(card for card in EIGHT if bits >> card & 1)
        host, found = diagnosed(Machine(hang_collective=hanging))
        # one group of all, seven rounds, and one round in which cards set aside are repeated
        assert host.timeouts <= 9, f"{sorted(hanging)}: {host.timeouts}"
        assert host.tests(8) in ([WHOLE], [WHOLE] * 2)
        assert not any(cards & hanging for cards in chosen(found)), sorted(hanging)
        assert not set(found.verdict.excluded) - hanging, sorted(hanging)
        if len(hanging) <= 5:
            assert set(found.verdict.excluded) == hanging
            assert found.verified == (not hanging & LOW or not hanging & HIGH)
        worst = max(worst, host.timeouts)
    assert worst == 9, "the bound is one that is met"


#: Seconds, all of them more than were seen anywhere: a rank from its start until it has its card (torch is
#: imported then), a card until it gave back the memory of a rank that was killed, where it ever does, and a
#: batch that goes well.
START, BACK, WELL = 30.0, 1.0, 5.0
BUDGET = 600.0


def lasts(host: Host, silence: float, start: float = START) -> float:
    """Seconds that a diagnosis takes, at the usual settings, where healthy ranks are silent for so long.

    All that one batch needs goes on at the same time: it lasts as long as its slowest test. Once a card is
    waited for that never gives its memory back.
    """
    used: set[int] = set()
    patience, missing, total = Patience(20.0), set(EIGHT), PATIENCE
    for batch, ended in zip(host.batches, host.ended):  # noqa: B905 - Python 3.8 has no strict
        cards = {card for test in batch.tests for card in test.cards}
        total += start * bool(cards & (missing | used if batch.fresh else missing))
        missing, used = missing - cards, used | cards
        if any(one.status == OK and len(one.cards) > 1 for one in ended):
            patience.learn(silence)
        hung = any(one.status == TIMEOUT for one in ended)
        total += patience.of(fresh=batch.fresh) + TELLING + BACK if hung else WELL
        missing |= {card for one in ended if one.status != OK for card in one.cards}
    return total


@pytest.mark.parametrize(
    ("silence", "share"), [(0.2, 0.75), pytest.param(60.0, 0.85, marks=pytest.mark.long)]
)
def test_whatever_cards_hang_the_time_suffices(silence: float, share: float) -> None:
    """Also where healthy ranks are so slow that there is no short patience."""
    found = {}
    for bits in range(1 << 8):
        hanging = frozenset(card for card in EIGHT if bits >> card & 1)
        found[lasts(diagnosed(Machine(hang_collective=hanging))[0], silence)] = hanging
    worst = max(found)
    print(f"healthy ranks silent for {silence:g} s: at most {worst:g} s, cards {sorted(found[worst])} hang")
    assert worst < share * BUDGET


def test_one_card_that_hangs() -> None:
    host, _ = diagnosed(Machine(hang_collective=frozenset({5})))
    # ranks that are there at once, as those of a rehearsal are
    quick, whole = (lasts(host, silence, start=0.5) for silence in (0.2, 60.0))
    print(f"card 5 hangs: {quick:g} s, with the whole patience each time {whole:g} s")
    assert quick < 0.75 * whole


@pytest.mark.parametrize(
    ("machine", "timeouts"),
    [
        (Machine(hang_collective=frozenset({5})), 5),
        (Machine(hang_collective=LOW), 8),
        (Machine(hang_collective=WHOLE), 4),
        (Machine(links={pair(1, 4): TIMEOUT}), 3),
        (Machine(links={pair(1, 4): TIMEOUT, pair(2, 7): TIMEOUT}), 3),
        (Machine(worlds={8: TIMEOUT}), 2),
        (Machine(worlds={8: TIMEOUT, 4: TIMEOUT}), 6),
    ],
)
def test_timeouts_of_usual_faults(machine: Machine, timeouts: int) -> None:
    assert diagnosed(machine)[0].timeouts == timeouts


# -- whatever machine

cards = st.sampled_from(EIGHT)
few = st.frozensets(cards, max_size=3)
links = st.frozensets(cards, min_size=2, max_size=2)
statuses = st.sampled_from([ERROR, TIMEOUT, WRONG])
machines = st.builds(
    Machine,
    dead=few,
    hang_init=few,
    hang_collective=few,
    wrong=st.dictionaries(cards, st.just((3, MIB)), max_size=2),
    links=st.dictionaries(links, statuses, max_size=4),
    init_error=st.sampled_from(["", "", "", ADDR_WINDOW]),
    worlds=st.dictionaries(st.sampled_from([4, 8]), statuses, max_size=2),
    groups=st.dictionaries(st.sampled_from([LOW, HIGH]), statuses, max_size=2),
    slow_cards=st.dictionaries(cards, st.sampled_from([0.3, 0.7]), max_size=2),
    slow_links=st.dictionaries(links, st.just(1 / 6), max_size=2),
    hiccups=st.frozensets(st.frozensets(cards, min_size=1, max_size=2), max_size=4),
    budget=st.none() | st.integers(0, 20),
)
shaky = st.builds(
    Machine,
    dead=few,
    flaky=st.dictionaries(cards, st.floats(0.05, 0.9), max_size=8),
    links=st.dictionaries(links, statuses, max_size=4),
    seed=st.integers(0, 10_000),
)
aims = st.builds(
    aim,
    st.sampled_from([KNOWN, {}]),
    first=st.sampled_from([(), WINGS[:2], WINGS[1:2]]),
    wants=st.sampled_from([(), (Wanted("a", tp=4), Wanted("b", tp=4)), (Wanted("a"), Wanted("b", tp=2))]),
    min_tp=st.sampled_from([1, 2, 4]),
    serial=st.booleans(),
    full=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(machines | shaky, aims)
def test_any_machine(machine: Machine, what: Aim) -> None:
    host, found = diagnosed(machine, what)
    pairs = 28 if what.serial else 7
    assert len(host.batches) <= MANY + pairs

    # cards that are proven bad alone meet nobody
    failures: dict[int, int] = {}
    for number, ended in enumerate(host.ended):
        proven = {card for card, count in failures.items() if count >= what.needed}
        tests = [test.cards for test in host.batches[number].tests]
        if all(len(cards) == 2 for cards in tests):
            assert not proven & {card for cards in tests for card in cards}
        for one in ended:
            if len(one.cards) == 1:
                failures[one.cards[0]] = failures.get(one.cards[0], 0) + one.failures

    # what is recommended was proven, was not excluded, and is disjoint
    assert found.verified == (found.recommended is not None)
    proofs = {frozenset(one.cards) for ended in host.ended for one in ended if one.status == OK}
    for group in chosen(found):
        assert group in proofs
        assert not group & set(found.verdict.excluded)
        assert not any(set(link) <= group for link in found.verdict.bad_links)
    assert sum(map(len, chosen(found))) == len(frozenset().union(*chosen(found)))
    assert found.verified or found.why

    # each test that was asked for is told once, its runs counted
    told = [frozenset(one.cards) for one in found.outcomes]
    assert len(set(told)) == len(told)
    assert set(told) == set(host.tests())
    for one in found.outcomes:
        ran = [run for ended in host.ended for run in ended if set(run.cards) == set(one.cards)]
        assert one.runs == sum(run.status != UNTESTED for run in ran)
        assert one.failures == sum(run.failures for run in ran)
        assert one.failures <= what.needed
        assert one.runs <= what.tries


@settings(max_examples=60, deadline=None)
@given(machines, st.permutations(EIGHT), st.sampled_from([KNOWN, {}]))
def test_other_numbers_of_the_cards_change_nothing_else(
    machine: Machine, order: list[int], baseline: Mapping[int, Mapping[int, float]]
) -> None:
    names = {card: 2 * name + 1 for card, name in enumerate(order)}
    groups = tuple(tuple(names[card] for card in group) for group in WINGS)
    other = Aim(tuple(names[card] for card in EIGHT), groups=groups, baseline=baseline)
    host, found = diagnosed(machine, aim(baseline))
    again, renamed = diagnosed(machine.relabelled(names), other)
    moved = [
        {frozenset(names[card] for card in test.cards) for test in batch.tests} for batch in host.batches
    ]
    assert [{frozenset(test.cards) for test in batch.tests} for batch in again.batches] == moved
    assert renamed.verdict.scope == found.verdict.scope
    assert set(renamed.verdict.excluded) == {names[card] for card in found.verdict.excluded}
    assert chosen(renamed) == [frozenset(names[card] for card in group) for group in chosen(found)]


@settings(max_examples=60, deadline=None)
@given(st.frozensets(st.frozensets(cards, min_size=1, max_size=1), max_size=8))
def test_what_failed_once_alone_never_excludes_a_card(once: frozenset[Cards]) -> None:
    _, found = diagnosed(Machine(hiccups=once), aim({}))
    assert found.verdict.excluded == ()
    assert chosen(found) == [WHOLE]
