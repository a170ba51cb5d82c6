from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from klops.cards.choice.selection import NoChoiceError, Wanted, choose
from klops.cards.xccl.judging.judgement import SLOW
from klops.cards.xccl.judging.verdict import judge
from klops.cards.xccl.planning.known import Known
from klops.cards.xccl.results import (
    DEGRADED,
    ERROR,
    HOST,
    STACK,
    TIMEOUT,
    UNKNOWN,
    WRONG,
    Aim,
    Diagnosis,
    Outcome,
    Verdict,
)
from tests.unit.cards.xccl.verdict_reading import aim_of, cases, numbers, outcome, outcomes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CASES = dict(cases())


def recommended(aim: Aim, outcomes: Iterable[Outcome], verdict: Verdict) -> tuple[int, ...] | str | None:
    """The cards of the service by this verdict; else why there are none, None where no choice helps."""
    if verdict.scope in (STACK, HOST):
        return None
    failed = [one.cards for one in outcomes if len(one.cards) > 2 and one.status in (WRONG, TIMEOUT, ERROR)]
    quality = {frozenset((pair.a, pair.b)): pair.gbps for pair in verdict.pairs if pair.gbps is not None}
    usable = [card for card in aim.cards if card not in verdict.excluded]
    try:
        chosen = choose(
            aim.wants,
            usable,
            aim.groups,
            aim.min_tp,
            [*verdict.bad_links, *failed],
            quality or None,
            bad=verdict.excluded,
        )
    except NoChoiceError as error:
        return str(error)
    return chosen["svc"]


def the(verdict: Verdict, what: str) -> list[int]:
    return sorted(card for card, one in verdict.cards.items() if one.verdict == what)


def check(case: Mapping[str, Any]) -> Verdict:
    aim, outcomes, expect = aim_of(case), outcomes_of(case), case["expect"]
    verdict = judge(aim, outcomes)
    assert set(expect) <= {
        *("scope", "excluded", "degraded", "unknown", "bad_links", "slow"),
        *("says", "hint", "error", "takes", "why"),
    }
    assert verdict.scope == expect["scope"], verdict.summary
    assert list(verdict.excluded) == expect.get("excluded", []), verdict.summary
    assert the(verdict, DEGRADED) == expect.get("degraded", []), verdict.summary
    assert the(verdict, UNKNOWN) == expect.get("unknown", []), verdict.summary
    links = expect.get("bad_links", [])
    wanted = list(combinations(aim.cards, 2)) if links == "all" else sorted(map(numbers, links))
    assert list(verdict.bad_links) == wanted
    slow = [(pair.a, pair.b) for pair in verdict.pairs if pair.status == SLOW]
    assert slow == sorted(map(numbers, expect.get("slow", [])))
    assert expect.get("says", "") in verdict.summary
    assert "\n" not in verdict.summary
    assert expect.get("error", "") in verdict.error
    if "hint" in expect:
        assert expect["hint"] in " ".join(verdict.hints)
    takes = recommended(aim, outcomes, verdict)
    if expect["takes"] is None:
        assert not isinstance(takes, tuple)
        assert expect.get("why", "") in (takes or "")
    else:
        assert takes == tuple(expect["takes"])
    for card, one in verdict.cards.items():
        assert one.reason, f"card {card} has no reason"
    return verdict


def named(word: str) -> list[Any]:
    return [pytest.param(case, id=name) for name, case in CASES.items() if word in name]


@pytest.mark.parametrize("case", named("row F37"))
def test_row_F37_whole_groups_only(case: Mapping[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", named("row F38"))
def test_row_F38_who_is_to_blame(case: Mapping[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", named("row F40"))
def test_row_F40_hanging_and_slow(case: Mapping[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CASES.items() if "row" not in name]
)
def test_case(case: Mapping[str, Any]) -> None:
    check(case)


def test_there_are_enough_cases_beyond_the_rows() -> None:
    assert sum("row" not in name for name in CASES) >= 45
    assert len({case["name"] for case in CASES.values()}) == len(CASES)


def test_row_F38_what_is_never_done_is_only_hinted_at() -> None:
    verdict = check(CASES["stack: row F38, first: all 28 pairs fail with one init error, singles pass"])
    hints = [hint for hint in verdict.hints if "BKCL_CHECK_AW" in hint]
    assert len(hints) == 1
    assert "klops never sets them" in hints[0]
    assert verdict.summary.endswith("first error: [XCCL][util.cpp:346] dev 0 addr_window not properly set")


def test_what_is_said_of_a_bad_card() -> None:
    case = CASES["cards: row F38, second: only pairs with card 5 fail"]
    card = judge(aim_of(case), outcomes_of(case)).cards[5]
    assert (card.verdict, card.action) == ("fail", "exclude")
    assert card.reason == "7 of its 7 tested pairs fail: an error while the group is formed"
    assert card.evidence == (
        "fails with cards 0, 1, 2, 3, 4, 6, 7: an error while the group is formed",
        "1 larger group(s) with it failed: no answer while the group is formed",
        "first error: connection closed by peer [10.0.0.1]:29513",
    )


def test_pairs_carry_their_figures() -> None:
    case = CASES["slow: row F40: one pair at a sixth of the speed of its peers"]
    pairs = {(pair.a, pair.b): pair for pair in judge(aim_of(case), outcomes_of(case)).pairs}
    assert len(pairs) == 28
    assert pairs[0, 1].gbps == pytest.approx(10.0)
    assert (pairs[1, 2].status, pairs[1, 2].reason) == ("slow", "16% of the speed of other XL pairs")
    assert pairs[1, 2].gbps == pytest.approx(1.6)
    case = CASES["cards: row F37: card 2"]
    untested = [pair for pair in judge(aim_of(case), outcomes_of(case)).pairs if pair.status == "untested"]
    assert {(pair.a, pair.b) for pair in untested} == {tuple(sorted((2, b))) for b in range(8) if b != 2}


def test_the_worst_of_two_tests_of_the_same_cards_counts() -> None:
    aim = aim_of({"cards": 8})
    well = [outcome(pair, "ok") for pair in combinations(range(8), 2)]
    assert judge(aim, [*well, outcome((6, 2), "timeout init")]).bad_links == ((2, 6),)
    assert judge(aim, [outcome((6, 2), "timeout init"), *well]).bad_links == ((2, 6),)


def test_what_a_bad_link_explains_is_no_evidence_against_a_card() -> None:
    aim = aim_of({"cards": 8})
    pairs = [outcome(pair, "ok") for pair in combinations(range(8), 2) if pair != (2, 6)]
    link = "error init: xpulink not active"
    verdict = judge(aim, [outcome(tuple(range(8)), link), *pairs, outcome((2, 6), link)])
    assert verdict.scope == "link"
    assert [card for card, one in verdict.cards.items() if one.evidence] == [2, 6]


def test_what_is_none_of_its_business_is_left_out() -> None:
    aim = aim_of({"cards": [0, 1, 2, 3]})
    well = [outcome(pair, "ok") for pair in combinations(range(4), 2)]
    verdict = judge(aim, [*well, outcome((3, 4), "timeout init")])
    assert (verdict.scope, set(verdict.cards), len(verdict.pairs)) == ("none", {0, 1, 2, 3}, 6)


def test_a_verdict_can_be_written_as_json() -> None:
    case = CASES["flaky: a pair that failed once of three runs"]
    said = Diagnosis(judge(aim_of(case), outcomes_of(case))).as_json()
    assert said["verdict"]["cards"][2]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("tested", "bad", "endings", "scope", "said"),
    [
        (6, (1, 6), {}, "card", "the 6 cards that were tested work together; out beforehand: cards 1 and 6"),
        (1, (3,), {}, "inconclusive", "card 0 not tested, or not with others; out beforehand: card 3"),
        (
            3,
            (7,),
            {(0, 1): "wrong", (0, 2): "wrong"},
            "card",
            (
                "card 0 is bad: 2 of its 2 tested pairs fail: wrong sums; cards 1 and 2 work;"
                " out beforehand: card 7"
            ),
        ),
        (6, (), {}, "none", "all 6 cards work together"),
    ],
)
def test_cards_that_are_out_beforehand_are_told_of(
    tested: int, bad: tuple[int, ...], endings: dict[tuple[int, ...], str], scope: str, said: str
) -> None:
    cards = tuple(card for card in range(9) if card not in bad)[:tested]
    ended = [outcome((card,), "ok") for card in cards]
    ended += [outcome(pair, endings.get(pair, "ok")) for pair in combinations(cards, 2)]
    if tested > 2 and not endings:
        ended.append(outcome(cards, "ok"))
    verdict = judge(Aim(cards, bad=bad), ended)
    assert (verdict.scope, verdict.summary) == (scope, said)
    assert set(verdict.cards) == set(cards)


@pytest.mark.parametrize(
    ("first", "ended", "scope", "said"),
    [
        (
            ((0, 1, 2, 3),),
            {(0, 1, 2, 3): "ok"},
            "none",
            "the 4 cards that were tested work together; cards 4, 5, 6, 7 not tested",
        ),
        (((5,),), {(5,): "ok"}, "none", "the one card that was tested works"),
        (((0, 1, 2, 3), (4, 5)), {(0, 1, 2, 3): "ok"}, "inconclusive", "4, 5, 6, 7 not tested, or not with"),
        (((0, 1, 2, 3),), {(0, 1, 2, 3): "ok", (6, 7): "timeout init"}, "inconclusive", "cards 6 and 7"),
        ((), {(0, 1, 2, 3): "ok"}, "inconclusive", "4, 5, 6, 7 not tested, or not with others"),
    ],
)
def test_cards_without_a_test_leave_nothing_open_where_all_groups_that_are_wanted_work(
    first: tuple[tuple[int, ...], ...], ended: dict[tuple[int, ...], str], scope: str, said: str
) -> None:
    aim = Aim(tuple(range(8)), wants=tuple(Wanted(str(of), tp=len(of)) for of in first), first=first)
    verdict = judge(aim, [outcome(cards, end) for cards, end in ended.items()])
    assert verdict.scope == scope
    assert said in verdict.summary
    assert {verdict.cards[card].verdict for card in (4, 7) if (card,) not in ended} == {"unknown"}


@pytest.mark.parametrize(
    ("alone", "pairs", "without", "scope", "verdicts"),
    [
        ("error allocate", None, "host", "card", {"fail"}),
        ("timeout collective", None, "host", "card", {"fail"}),
        # of a rank that doesn't even start it isn't the card that is to be suspected
        ("error start", None, "stack", "inconclusive", {"unknown"}),
        ("ok", "error init", "stack", "inconclusive", {"unknown"}),
        ("ok", "timeout init", "inconclusive", "inconclusive", {"unknown"}),
    ],
)
def test_cards_on_which_a_service_is_ready_prove_host_and_stack(
    alone: str, pairs: str | None, without: str, scope: str, verdicts: set[str]
) -> None:
    aim = Aim((4, 5, 6, 7))
    ended = [outcome((card,), alone) for card in aim.cards]
    ended += [outcome(pair, pairs) for pair in combinations(aim.cards, 2) if pairs]
    assert judge(aim, ended).scope == without
    verdict = judge(replace(aim, serving=(0, 1, 2, 3)), ended)
    assert verdict.scope == scope
    assert {one.verdict for one in verdict.cards.values()} == verdicts
    if scope == "inconclusive":
        assert verdict.summary.partition("; first error")[0].endswith("cards 0, 1, 2, 3 serve meanwhile")


def test_of_an_aim_without_word_of_services_none_serves() -> None:
    said = Aim((0, 1), serving=(4,)).as_json()
    assert Aim.of(said).serving == (4,)
    del said["serving"]
    assert Aim.of(said).serving == ()


@pytest.mark.parametrize("speed", [0.80, 0.84, 0.849, 0.85, 0.86, 1.0])
def test_what_is_too_slow_is_so_to_plan_and_verdict_alike(speed: float) -> None:
    cards = tuple(range(8))
    aim = Aim(cards, baseline={8: dict.fromkeys((1 << 20, 2_600_000, 16 << 20), 10.0)})
    found = outcome(cards, f"ok x{speed}")
    known = Known(aim)
    known.runs.add(found)
    assert known.convincing(cards) == (judge(aim, [found]).scope == "none")


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "pass"),
        ({"bad": (1,)}, "unknown"),
        ({"groups": ((0, 1, 2, 3),)}, "unknown"),
        ({"groups": ((0, 1, 2, 3),), "wants": (Wanted("a", tp=1), Wanted("b", cards=(0,)))}, "pass"),
        ({"groups": ((0, 1, 2, 3),), "wants": (Wanted("a", tp=1), Wanted("b"))}, "unknown"),
    ],
)
def test_row_C16_that_a_card_works_alone_says_nothing_of_it_with_others(
    more: dict[str, Any], verdict: str
) -> None:
    judged = judge(Aim((0,), **more), [outcome((0,), "ok")])
    assert judged.cards[0].verdict == verdict
    assert judged.scope == ("inconclusive" if verdict == "unknown" else "card" if more.get("bad") else "none")
