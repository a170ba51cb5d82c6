"""A scan: which groups it forms, which of them again, and what it says of those that did not do well."""

from __future__ import annotations

from typing import cast

import pytest

from klops.agent.xccl import run
from klops.agent.xccl.runner import Runner
from klops.cards.xccl.results import COLLECTIVE, OK, TIMEOUT, UNTESTED, Aim, Batch, Outcome, Sample

ALL = Aim(tuple(range(8)))


class Ranks:
    """Answers as it is told, by size of group: ``O`` well, ``T`` it hangs, ``U`` there is no time."""

    def __init__(self, **answers: str) -> None:
        self.answers = {int(size[1:]): list(letters) for size, letters in answers.items()}
        #: size of group, in fresh processes
        self.asked: list[tuple[int, bool]] = []

    def batch(self, batch: Batch) -> list[Outcome]:
        (test,) = batch.tests
        size = len(test.cards)
        self.asked.append((size, batch.fresh))
        letter = self.answers[size].pop(0)
        if letter == "U":
            return [Outcome(test.cards, UNTESTED, runs=0)]
        if letter == "T":
            return [Outcome(test.cards, TIMEOUT, COLLECTIVE, "no answer", silent=(3,), failures=1)]
        return [Outcome(test.cards, OK, samples=(Sample(1 << 20, 10, us=100.0),))]


def scanned(ranks: Ranks, aim: Aim = ALL) -> tuple[list[int], dict[int, tuple[str, int, int]], list[int]]:
    """Sizes that have rows; what failed: status, failures, runs; sizes that there was no time for."""
    said = run.scan(cast("Runner", ranks), aim, lambda what, percent: None)
    failed = {one["world"]: (one["status"], one["failures"], one["runs"]) for one in said["failed"]}
    assert not [letter for left in ranks.answers.values() for letter in left], "something was not asked for"
    return [row["world"] for row in said["scan"]], failed, said["untested"]


def test_what_there_was_no_time_for_has_not_failed() -> None:
    assert scanned(Ranks(w2="O", w4="U", w8="U")) == ([2], {}, [4, 8])


def test_a_group_that_fails_is_repeated_in_fresh_processes_while_that_can_change_it() -> None:
    ranks = Ranks(w2="O", w4="TOO", w8="TT")
    assert scanned(ranks) == ([2, 4], {4: ("flaky", 1, 3), 8: ("timeout", 2, 2)}, [])
    assert ranks.asked == [(2, False), (4, False), (4, True), (4, True), (8, False), (8, True)]


@pytest.mark.parametrize(("again", "failed"), [("TU", ("timeout", 1, 1)), ("TOU", ("flaky", 1, 2))])
def test_a_failure_that_there_was_no_time_to_repeat_is_told_with_its_number(
    again: str, failed: tuple[str, int, int]
) -> None:
    _, found, untested = scanned(Ranks(w2="O", w4=again, w8="U"))
    assert (found, untested) == ({4: failed}, [8])


def test_where_one_failure_counts_nothing_is_repeated() -> None:
    ranks = Ranks(w2="T", w4="O")
    assert scanned(ranks, Aim((4, 1, 6, 3), tries=1, needed=1)) == ([4], {2: ("timeout", 1, 1)}, [])
    assert ranks.asked == [(2, False), (4, False)]
