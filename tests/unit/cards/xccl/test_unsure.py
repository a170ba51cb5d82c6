"""Diagnoses of ranks of which nothing shows which card they had."""

from __future__ import annotations

import pytest

from klops.cards.xccl.judging.unsure import unsure
from klops.cards.xccl.results import FAIL, INCONCLUSIVE, TIMEOUT, UNKNOWN, Aim
from tests.unit.cards.xccl.machines import ADDR_WINDOW, LOW, WHOLE, Machine, aim, diagnosed, pair


@pytest.mark.parametrize(
    "machine",
    [
        Machine(dead=pair(3)),
        Machine(hang_collective=LOW),
        Machine(dead=pair(3), init_error=ADDR_WINDOW),
        Machine(links={pair(2, 6): TIMEOUT}),
        Machine(groups={LOW: TIMEOUT}),
        Machine(slow_cards={4: 0.5}),
        Machine(slow_links={pair(2, 6): 0.2}),
        Machine(dead=pair(3), budget=3),
    ],
)
def test_what_sets_some_cards_apart_is_only_known_to_be(machine: Machine) -> None:
    _, whole = diagnosed(machine, aim({}, first=((0, 1, 2, 3), (4, 5, 6, 7))))
    found = unsure(whole)
    assert found.verdict.scope == INCONCLUSIVE
    assert {one.verdict for one in found.verdict.cards.values()} == {UNKNOWN}
    assert (found.verdict.excluded, found.verdict.bad_links, found.verdict.pairs) == ((), (), ())
    assert (found.recommended, found.verified) == (None, False)
    # no group of some cards is kept as one that failed, or as one that was proven
    assert all(set(one.cards) == WHOLE for one in found.outcomes)
    assert found.why in found.verdict.summary
    assert found.verdict.summary.endswith(whole.verdict.summary)
    assert all(one.reason == found.why and not one.evidence for one in found.verdict.cards.values())


@pytest.mark.parametrize(
    "machine",
    [Machine(), Machine(init_error=ADDR_WINDOW), Machine(dead=WHOLE)],
    ids=["well", "stack", "host"],
)
def test_what_is_the_same_of_all_cards_is_true_in_any_order(machine: Machine) -> None:
    _, whole = diagnosed(machine)
    assert unsure(whole) == whole


def test_of_one_card_it_is_always_known_which() -> None:
    _, whole = diagnosed(Machine(dead=pair(3)), Aim((3,)))
    assert whole.verdict.cards[3].verdict == FAIL
    assert unsure(whole) == whole
