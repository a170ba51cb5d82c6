"""Who the peers of a pair are where nobody knows what links the host has."""

from __future__ import annotations

from itertools import combinations

import pytest

from klops.cards.xccl.judging.compare import peers
from klops.cards.xccl.judging.verdict import judge
from klops.cards.xccl.results import OK, Aim, Outcome, Sample
from tests.unit.cards.xccl.machines import EIGHT, MIB, WINGS

#: Published figures of a P800 host, each of one pair at 256 MiB in GB/s (p800.md 3.5; not measured by klops):
#: cards 4 and 7 over six XL rings, cards 3 and 4 over twelve PCIe rings. What links one group is the slower.
XL, SYS = 28.85, 37.88
SIZE = 256 * MIB
PAIRS = list(combinations(EIGHT, 2))


def healthy() -> list[Outcome]:
    """All pairs of a host with these links, each as fast as its kind is."""
    ended = []
    for a, b in PAIRS:
        us = SIZE / (XL if a // 4 == b // 4 else SYS) / 1000
        ended.append(Outcome((a, b), OK, samples=(Sample(SIZE, 10, us=us, spread_us=us / 1000),)))
    return ended


@pytest.mark.parametrize("groups", [WINGS, WINGS[:2], WINGS[2:], ()])
def test_by_the_two_published_figures_a_healthy_host_has_no_slow_pair(
    groups: tuple[tuple[int, ...], ...],
) -> None:
    verdict = judge(Aim(EIGHT, groups=groups), healthy())
    assert (verdict.scope, verdict.bad_links) == ("none", ())
    assert {one.status for one in verdict.pairs} == {OK}


def test_a_pair_that_is_slow_among_its_own_kind_is_seen_beside_them() -> None:
    ended = [one for one in healthy() if one.cards != (4, 7)]
    us = 2 * SIZE / XL / 1000
    slow = Outcome((4, 7), OK, samples=(Sample(SIZE, 10, us=us, spread_us=us / 1000),))
    verdict = judge(Aim(EIGHT, groups=WINGS), [*ended, slow])
    assert verdict.scope == "link"
    assert [(one.a, one.b) for one in verdict.pairs if one.status == "slow"] == [(4, 7)]


def test_what_peers_share() -> None:
    known = Aim(EIGHT, groups=WINGS, links={(1, 2): "XL"})
    assert peers((2, 1), known) == "XL pairs"
    assert peers((2, 3), known) == peers((4, 5), known) == "pairs in groups of 4"
    assert peers((3, 4), known) == "pairs between groups"
    # one group of all tells nothing, nor does a card that is in none
    assert peers((0, 1), Aim(EIGHT, groups=WINGS[2:])) == peers((0, 1), Aim(EIGHT)) == ""
    assert peers((3, 4), Aim(EIGHT, groups=((0, 1), (2, 3)))) == ""
