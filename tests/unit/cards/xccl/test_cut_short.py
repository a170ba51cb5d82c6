"""A diagnosis whose time is over in the middle of it blames nobody for what was not repeated."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from klops.cards.xccl.judging.verdict import judge
from klops.cards.xccl.planning.merge import Runs
from klops.cards.xccl.results import (
    CARD,
    INCONCLUSIVE,
    LINK,
    PASS,
    STACK,
    TIMEOUT,
    UNKNOWN,
    Outcome,
)
from tests.unit.cards.xccl.machines import EIGHT, WHOLE, Host, Machine, aim, diagnosed, pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from klops.cards.xccl.results import Aim, Verdict

WORLDS = 200


def world(seed: int) -> Machine:
    """Up to four cards that fail alone or in every collective, and up to two bad links between others."""
    chance = random.Random(seed)
    bad = chance.sample(EIGHT, chance.randint(0, 4))
    alone = chance.randint(0, len(bad))
    good = [frozenset(two) for two in combinations(EIGHT, 2) if not set(two) & set(bad)]
    return Machine(
        dead=frozenset(bad[:alone]),
        hang_collective=frozenset(bad[alone:]),
        links=dict.fromkeys(chance.sample(good, chance.randint(0, 2)), TIMEOUT),
    )


def cut(machine: Machine, what: Aim) -> Iterator[Verdict]:
    """What is known of this machine after each batch, the last one with the whole diagnosis."""
    host = Host(machine)
    whole = host.drive(what)
    runs = Runs(what.tries, what.needed)
    for ended in host.ended[:-1]:
        for one in ended:
            runs.add(one)
        yield judge(what, runs.outcomes())
    yield whole.verdict


def blamed_links(verdict: Verdict) -> set[frozenset[int]]:
    """Links that are said to be at fault: the scope says so, and their failure was repeated."""
    if verdict.scope != LINK:
        return set()
    failures = {frozenset((one.a, one.b)): one.failures for one in verdict.pairs}
    return {link for link in map(frozenset, verdict.bad_links) if failures[link] > 1}


def test_no_good_card_or_link_is_blamed_whenever_the_time_is_over() -> None:
    said = set()
    for seed in range(WORLDS):
        machine = world(seed)
        for length, verdict in enumerate(cut(machine, aim())):
            told = f"world {seed} after {length} batches, {machine}: {verdict.summary}"
            assert not set(verdict.excluded) - machine.dead - machine.hang_collective, told
            assert not blamed_links(verdict) - set(machine.links), told
            # all that is not well is known only once it was repeated
            assert verdict.scope != LINK or machine.links, told
            said.add(verdict.scope)
    assert {CARD, LINK, INCONCLUSIVE} <= said


@pytest.mark.parametrize("tests", [2, 3])
def test_a_card_that_failed_alone_once(tests: int) -> None:
    """The whole group and the card hang, and the time is over before the card is tried again."""
    machine = Machine(groups={WHOLE: TIMEOUT, pair(3): TIMEOUT})
    whole = diagnosed(machine)[0]
    assert [len(batch.tests) for batch in whole.batches[:3]] == [1, 8, 1]
    _, found = diagnosed(replace(machine, budget=tests))
    card = found.verdict.cards[3]
    if tests == 2:
        assert (found.verdict.scope, found.verdict.excluded, card.verdict) == (INCONCLUSIVE, (), UNKNOWN)
        assert card.reason == "fails alone: no answer in the collective; failed once, was not repeated"
        assert "card 3: no answer in the collective, which was not repeated" in found.verdict.summary
    else:
        assert (found.verdict.scope, found.verdict.excluded) == (CARD, (3,))


def test_a_link_that_failed_once() -> None:
    machine = Machine(links={pair(2, 6): TIMEOUT})
    host, whole = diagnosed(machine)
    assert (whole.verdict.scope, whole.verdict.bad_links) == (LINK, ((2, 6),))
    again = next(n for n, batch in enumerate(host.batches) if "2,6 once more" in batch.title)
    _, found = diagnosed(replace(machine, budget=again))
    assert (found.verdict.scope, found.verdict.excluded) == (INCONCLUSIVE, ())
    assert "cards 2 and 6 failed together once (no answer in the collective), which was not repeated" in (
        found.verdict.summary
    )
    # it serves nobody before it was looked at again
    assert found.verdict.bad_links == ((2, 6),)
    (link,) = (one for one in found.verdict.pairs if (one.a, one.b) == (2, 6))
    assert link.reason == "no answer in the collective; failed once, was not repeated"
    assert {one.verdict for one in found.verdict.cards.values()} == {PASS}
    assert found.verdict.cards[2].reason == "works, but with card 6 it failed once, was not repeated"


def test_pairs_that_failed_once_support_a_card_of_which_one_test_counts() -> None:
    host, whole = diagnosed(Machine(hang_collective=pair(3)))
    assert whole.verdict.excluded == (3,)
    failures = sorted(one.failures for one in whole.verdict.pairs if 3 in (one.a, one.b) and one.failures)
    assert failures == [1, 1, 2]
    again = next(n for n, batch in enumerate(host.batches) if "once more" in batch.title)
    _, found = diagnosed(Machine(hang_collective=pair(3), budget=again))
    assert (found.verdict.scope, found.verdict.excluded) == (INCONCLUSIVE, ())
    assert found.verdict.cards[3].verdict == UNKNOWN
    assert found.verdict.cards[3].reason.endswith("; failed once, was not repeated")


def test_a_group_that_failed_once_is_not_known_to_fail() -> None:
    ended = [Outcome(two, "ok") for two in combinations(EIGHT, 2)]
    once = Outcome(EIGHT, TIMEOUT, "collective", failures=1)
    assert judge(aim(), [*ended, once]).scope == INCONCLUSIVE
    assert judge(aim(), [*ended, replace(once, runs=2, failures=2)]).scope == "group"


def test_two_rounds_of_pairs_that_failed_are_not_yet_the_stack() -> None:
    """Half of the cards may be good as long as no half is left of which no two failed together."""
    machine = Machine(init_error="refused")
    host, whole = diagnosed(machine, aim())
    assert whole.verdict.scope == STACK
    for budget in range(len(host.batches)):
        verdict = diagnosed(replace(machine, budget=budget))[1].verdict
        assert (verdict.scope, verdict.excluded) == (INCONCLUSIVE, ())
