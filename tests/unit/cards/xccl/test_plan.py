"""The order of a diagnosis, and what comes of it, on machines that fail in many ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from klops.cards.choice.selection import Wanted
from klops.cards.xccl.planning.plan import CANDIDATES, diagnose
from klops.cards.xccl.results import (
    CARD,
    ERROR,
    FAIL,
    GROUP,
    HOST,
    LINK,
    NONE,
    OK,
    STACK,
    TIMEOUT,
    WRONG,
    Aim,
    Outcome,
)
from tests.unit.cards.xccl.machines import (
    ADDR_WINDOW,
    ALL_PAIRS,
    EIGHT,
    HIGH,
    KNOWN,
    LOW,
    MIB,
    WHOLE,
    WINGS,
    Machine,
    aim,
    broken,
    chosen,
    diagnosed,
    learned,
    pair,
)

if TYPE_CHECKING:
    from tests.unit.cards.xccl.machines import Cards


# -- healthy hosts


def test_a_healthy_host_with_a_baseline_forms_one_group() -> None:
    host, found = diagnosed(Machine())
    assert (host.groups, len(host.batches), host.fresh_starts) == (1, 1, 0)
    assert (found.verdict.scope, found.recommended, found.verified, found.why) == (
        NONE,
        {"": EIGHT},
        True,
        "",
    )


def test_a_healthy_host_without_a_baseline_meets_in_pairs_too() -> None:
    host, found = diagnosed(Machine(), aim({}))
    assert [len(batch.tests) for batch in host.batches] == [1, 8] + 7 * [4]
    assert set(host.tests(2)) == ALL_PAIRS
    assert (host.groups, host.fresh_starts) == (1 + 28, 0)
    assert (found.verdict.scope, found.recommended, found.verified) == (NONE, {"": EIGHT}, True)


def test_a_baseline_of_another_size_of_group_is_none() -> None:
    host, _ = diagnosed(Machine(), aim(learned(4)))
    assert host.groups == 29


def test_whoever_learns_asks_for_all_of_it() -> None:
    host, _ = diagnosed(Machine(), aim(full=True))
    assert (host.groups, len(host.batches)) == (29, 9)


@pytest.mark.parametrize(("rounds", "groups"), [(10, 1), (9, 29)])
def test_fewer_than_ten_rounds_are_not_enough(rounds: int, groups: int) -> None:
    host, _ = diagnosed(Machine(rounds=rounds))
    assert host.groups == groups


@pytest.mark.parametrize(("speed", "groups"), [(0.86, 1), (0.84, 29)])
def test_slower_than_was_learned_leads_to_pairs_and_forms_no_large_group_again(
    speed: float, groups: int
) -> None:
    host, found = diagnosed(Machine(slow_cards={4: speed}))
    assert host.groups == groups
    assert host.tests(8) == [WHOLE]
    assert found.verdict.excluded == ()
    assert (found.recommended, found.verified) == ({"": EIGHT}, True)


def test_where_links_are_shared_one_pair_is_tested_at_a_time() -> None:
    host, _ = diagnosed(Machine(), aim({}, serial=True))
    assert [len(batch.tests) for batch in host.batches] == [1, 8] + 28 * [1]


def test_cards_of_a_wing_meet_each_other_first_however_wings_are_numbered() -> None:
    wings = ((0, 1, 4, 5), (2, 3, 6, 7), EIGHT)
    host, _ = diagnosed(Machine(), Aim(EIGHT, groups=wings))
    first = [frozenset(test.cards) for batch in host.batches[2:5] for test in batch.tests]
    assert all(any(two <= set(wing) for wing in wings[:2]) for two in first)


def test_groups_of_two_services_are_formed_at_the_same_time() -> None:
    two = (Wanted("a", tp=4), Wanted("b", tp=4))
    host, found = diagnosed(Machine(), aim(wants=two, first=WINGS[:2]))
    assert (host.groups, len(host.batches)) == (2, 1)
    assert (found.recommended, found.verified) == ({"a": WINGS[0], "b": WINGS[1]}, True)


def test_one_bad_card_of_two_services_leads_to_pairs_of_all() -> None:
    host, found = diagnosed(Machine(dead=frozenset({5})), aim(first=WINGS[:2]))
    assert set(host.tests(2)) == {two for two in ALL_PAIRS if 5 not in two}
    assert found.verdict.excluded == (5,)
    assert chosen(found) == [LOW]
    assert host.tests(4) == [LOW, HIGH], "a group that was proven first needs no second proof"


def test_a_card_that_is_kept_out_already_is_in_no_test() -> None:
    seven = Aim(EIGHT[:7], groups=WINGS, baseline=KNOWN, bad=(7,), first=WINGS[:1])
    host, found = diagnosed(Machine(), seven)
    assert (host.tests(), found.recommended, found.verified) == ([LOW], {"": WINGS[0]}, True)
    assert "bad card 7" in found.why
    host, found = diagnosed(Machine(dead=frozenset({2})), seven)
    assert not any(7 in cards for cards in host.tests())
    assert (found.recommended, found.verified) == (None, False)


# -- small hosts


def test_no_card_no_test() -> None:
    host, found = diagnosed(Machine(), Aim(()))
    assert (host.batches, found.outcomes, found.recommended) == ([], (), None)


@pytest.mark.parametrize("dead", [frozenset(), frozenset({3})])
def test_one_card(dead: Cards) -> None:
    host, found = diagnosed(Machine(dead=dead), Aim((3,), groups=((3,),)))
    assert set(host.tests()) == {frozenset({3})}
    assert found.recommended == (None if dead else {"": (3,)})
    assert len(host.batches) == (2 if dead else 1)


def test_two_cards_whose_group_is_their_pair() -> None:
    two = Aim((3, 5), groups=((3, 5),))
    host, found = diagnosed(Machine(), two)
    assert (host.groups, found.recommended) == (1, {"": (3, 5)})
    host, found = diagnosed(Machine(links={pair(3, 5): TIMEOUT}), two)
    assert host.tests(2) == [pair(3, 5)] * 2, "once, and once more in fresh processes"
    assert host.batches[-1].fresh


def test_cards_for_themselves_have_no_bandwidth_to_compare() -> None:
    each = tuple((card,) for card in EIGHT)
    wants = tuple(Wanted(f"s{card}", tp=1) for card in EIGHT)
    host, found = diagnosed(Machine(), aim({}, first=each, wants=wants))
    assert (len(host.batches), host.groups, found.verified) == (1, 0, True)


# -- rows of the field reports


def test_row_F40_one_pair_hangs() -> None:
    host, found = diagnosed(Machine(links={pair(2, 3): TIMEOUT}))
    assert set(host.tests(2)) == ALL_PAIRS, "the remaining 27 pairs are tested"
    assert [two for two in host.tests(2) if two == pair(2, 3)] == [pair(2, 3)] * 2
    assert host.tests(8) == [WHOLE], "what holds the pair is not formed again"
    assert host.timeouts == 3
    assert found.verdict.scope == LINK
    assert found.verdict.bad_links == ((2, 3),)
    assert found.verdict.excluded == ()
    assert chosen(found) == [HIGH]
    assert found.verified
    assert found.why.startswith("tp 8: ")


@pytest.mark.parametrize(
    "slow", [Machine(slow_links={pair(2, 6): 1 / 6}), Machine(slow_cards={4: 0.7})], ids=["pair", "card"]
)
def test_row_F40_slow_is_no_failure(slow: Machine) -> None:
    host, found = diagnosed(slow)
    assert (set(host.tests(2)), host.groups, host.fresh_starts) == (ALL_PAIRS, 29, 0)
    assert found.verdict.excluded == ()
    assert found.verified


def test_row_F38_all_pairs_fail_alike() -> None:
    host, found = diagnosed(Machine(init_error=ADDR_WINDOW))
    assert found.verdict.scope == STACK
    assert "addr_window" in found.verdict.error
    assert found.verdict.excluded == ()
    assert (found.recommended, found.verified, found.why) == (None, False, found.verdict.summary)
    assert host.tests(4) == [], "no group of four is tried"
    # three rounds: no four cards are left of which no two failed together
    assert len(host.tests(2)) == 12
    assert [batch.fresh for batch in host.batches if len(batch.tests[0].cards) == 2] == [False, True, True]


@pytest.mark.parametrize("status", [ERROR, TIMEOUT, WRONG])
def test_row_F38_all_pairs_of_one_card_fail(status: str) -> None:
    host, found = diagnosed(Machine(links={pair(5, other): status for other in EIGHT if other != 5}))
    assert (found.verdict.scope, found.verdict.excluded) == (CARD, (5,))
    assert {two for two in ALL_PAIRS if 5 not in two} <= set(host.tests(2))
    assert chosen(found) == [LOW]
    # with its own wing, then with one of those once more; no other pair of it is tried
    assert [two for two in host.tests(2) if 5 in two] == [pair(4, 5), pair(5, 7), pair(5, 6), pair(4, 5)]


def test_row_F38_one_pair_fails() -> None:
    host, found = diagnosed(Machine(links={pair(2, 6): ERROR}))
    assert (found.verdict.scope, found.verdict.excluded) == (LINK, ())
    assert found.verdict.bad_links == ((2, 6),)
    assert found.verified
    assert all(not pair(2, 6) <= cards for cards in chosen(found))
    assert host.tests(8) == [WHOLE]


@pytest.mark.parametrize("status", [ERROR, TIMEOUT, WRONG])
def test_row_F38_only_the_group_of_eight_fails(status: str) -> None:
    host, found = diagnosed(Machine(worlds={8: status}))
    assert host.tests(8) == [WHOLE] * 2, "nothing explains it, so it is repeated"
    assert (found.verdict.scope, found.verdict.excluded, found.verdict.bad_links) == (GROUP, (), ())
    assert chosen(found) == [LOW]
    assert found.verified
    assert found.why


# -- bad cards


@pytest.mark.parametrize("how", ["dead", "hang_init", "hang_collective", "wrong"])
@pytest.mark.parametrize(
    ("bad", "group"), [(LOW, HIGH), (HIGH, LOW), (frozenset({2}), HIGH), (frozenset({4, 6, 7}), LOW)]
)
def test_the_other_wing_is_proven_and_taken(how: str, bad: Cards, group: Cards) -> None:
    host, found = diagnosed(broken(how, bad))
    assert set(found.verdict.excluded) == bad
    assert chosen(found) == [group]
    assert found.verified
    assert found.why.startswith("tp 8: ")
    assert host.tests(8) == [WHOLE]
    assert host.tests(4) == [group]


def test_wrong_sums_are_repeated_at_their_size_in_fresh_processes() -> None:
    host, found = diagnosed(Machine(wrong={2: (3, MIB)}))
    again = [batch for batch in host.batches if batch.fresh]
    assert again
    assert all(batch.sizes == (MIB,) for batch in again)
    assert found.verdict.cards[2].verdict == FAIL


def test_cards_that_fail_alone_are_repeated_and_meet_nobody() -> None:
    host, found = diagnosed(Machine(dead=frozenset({1, 6})))
    assert [batch.fresh for batch in host.batches[:3]] == [False, False, True]
    assert [test.cards for test in host.batches[2].tests] == [(1,), (6,)]
    assert not any({1, 6} & two for two in host.tests(2))
    assert found.verdict.excluded == (1, 6)


def test_no_card_works_alone() -> None:
    host, found = diagnosed(Machine(dead=WHOLE))
    assert [[len(test.cards) for test in batch.tests] for batch in host.batches] == [[8], 8 * [1], 8 * [1]]
    assert found.verdict.scope == HOST
    assert found.verdict.excluded == ()
    assert (found.recommended, found.why) == (None, found.verdict.summary)


def test_links_between_the_wings_are_down() -> None:
    between = {pair(a, b): TIMEOUT for a in LOW for b in HIGH}
    host, found = diagnosed(Machine(links=between))
    assert set(host.tests(2)) == ALL_PAIRS
    assert {frozenset(link) for link in found.verdict.bad_links} == set(between)
    assert found.verdict.excluded == ()
    assert chosen(found) == [LOW]
    assert found.verified
    assert host.timeouts == 1 + 4 + 4, "as many at a time the second time as the first"


def test_a_second_group_is_tried_when_the_first_fails_by_itself() -> None:
    host, found = diagnosed(Machine(worlds={8: ERROR}, groups={LOW: TIMEOUT}))
    assert host.tests(4) == [LOW, LOW, HIGH]
    assert chosen(found) == [HIGH]
    assert found.verified


def test_no_group_is_recommended_that_failed() -> None:
    machine = Machine(worlds={8: ERROR, 4: TIMEOUT})
    host, found = diagnosed(machine, aim(min_tp=4))
    assert (found.recommended, found.verified) == (None, False)
    assert found.why
    assert host.tests(4) == [LOW, LOW, HIGH, HIGH]


def test_a_few_groups_are_tried_and_no_more() -> None:
    # the quads across the wings that others allocate: two cards of each wing, every other link between them
    across = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
    many = Aim(EIGHT, groups=(*WINGS, *across), baseline=KNOWN, min_tp=4)
    host, found = diagnosed(Machine(worlds={8: TIMEOUT, 4: TIMEOUT}), many)
    assert len(set(host.tests(4))) == CANDIDATES
    assert (found.recommended, found.verified) == (None, False)
    assert found.why == "6 groups were formed, none was proven"


# -- now and then


def test_a_card_that_failed_once_alone_is_not_excluded() -> None:
    host, found = diagnosed(Machine(hiccups=frozenset({frozenset({3}), WHOLE})))
    assert host.tests(1).count(frozenset({3})) == 3
    assert found.verdict.excluded == ()
    assert {3} | {other for two in host.tests(2) if 3 in two for other in two} == set(EIGHT)


def test_a_group_that_failed_once_is_repeated_and_taken() -> None:
    host, found = diagnosed(Machine(hiccups=frozenset({WHOLE})))
    assert host.tests(8) == [WHOLE] * 3
    assert found.verdict.excluded == ()
    assert chosen(found) == [WHOLE]


def test_a_card_comes_back_whose_pair_goes_well_in_fresh_processes() -> None:
    once = frozenset({WHOLE, pair(4, 5), pair(5, 7), pair(5, 6)})
    host, found = diagnosed(Machine(hiccups=once))
    assert set(host.tests(2)) == ALL_PAIRS
    assert found.verdict.excluded == ()
    first = host.tests(2)
    assert first.index(pair(0, 5)) > first.index(pair(3, 4)), "it was set aside, then its pairs were tested"


# -- the runner


def test_a_runner_that_answers_something_else_is_told_so() -> None:
    plan = diagnose(aim())
    next(plan)
    with pytest.raises(ValueError, match="asked for a test of"):
        plan.send([Outcome((0, 1), OK)])


@pytest.mark.parametrize(("tries", "needed", "runs"), [(1, 1, 1), (3, 2, 2), (5, 3, 3), (4, 4, 4)])
def test_a_test_is_repeated_as_often_as_it_takes_to_count(tries: int, needed: int, runs: int) -> None:
    host, found = diagnosed(Machine(dead=frozenset({5})), aim(tries=tries, needed=needed))
    assert host.tests(1).count(frozenset({5})) == runs
    assert found.verdict.excluded == (5,)


def test_batches_say_what_they_are_for() -> None:
    host, _ = diagnosed(Machine(links={pair(2, 3): TIMEOUT}))
    titles = [batch.title for batch in host.batches]
    assert titles[:3] == ["all 8 cards together", "each card alone", "pairs, round 1 of 7"]
    assert titles[-2:] == ["2,3 once more", "4,5,6,7 together"]
