"""What can be said of each card, link and group of a host on which something works. Pure."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from klops.cards.xccl import bandwidth
from klops.cards.xccl.judging import blame, compare, proof, words
from klops.cards.xccl.judging.found import FAILING, Found, pairs_only
from klops.cards.xccl.results import (
    CARD,
    DEGRADED,
    FAIL,
    FLAKY,
    GROUP,
    INCONCLUSIVE,
    LINK,
    NONE,
    OK,
    PASS,
    UNKNOWN,
    UNTESTED,
    WRONG,
    CardVerdict,
    PairVerdict,
)

if TYPE_CHECKING:
    from klops.cards.xccl.results import Aim, Outcome

    Cards = frozenset[int]

#: Status of a pair that went well, and slower than its peers.
SLOW = "slow"
#: Of what must fail again, in fresh processes, to count.
ONCE = "failed once, was not repeated"


def pair_verdict(cards: Cards, one: Outcome, reason: str = "", status: str = "") -> PairVerdict:
    """Of a pair: how its test ended and why, or ``status`` and ``reason`` where others tell more."""
    if not reason and one.status not in (OK, UNTESTED):
        error = words.line(one.error)
        reason = words.how(one) + (f": {error}" if error else "")
    a, b = sorted(cards)
    largest = bandwidth.largest(one) if one.status == OK else None
    return PairVerdict(
        a,
        b,
        status or one.status,
        gbps=bandwidth.algorithm(largest.bytes, largest.us) if largest else None,
        us=largest.us if largest else None,
        runs=one.runs,
        failures=one.failures,
        reason=reason,
    )


class Judgement:
    """Of a host on which something works."""

    def __init__(self, aim: Aim, found: Found) -> None:
        """Finds out who is to blame, and what is slow."""
        self.aim, self.found = aim, found
        dead = found.dead()
        failed, well = found.ended(FAILING, dead), found.ended((OK,))
        seen = blame.Seen(
            frozenset(failed),
            frozenset(well),
            frozenset(cards for cards, one in failed.items() if one.status == WRONG),
        )
        blamed = blame.find(seen)
        self.bad = dead | proof.proven(blamed.guilty, blame.by_sums(seen), found, failed)
        self.doubtful = (blamed.doubtful | blamed.guilty | found.once()) - self.bad
        self.working = {card for cards in well for card in cards}
        self.links = pairs_only(found.ended(FAILING, self.bad))
        least = found.least(self.bad)
        #: larger groups that failed, all of whose pairs work; and those of which that isn't known
        self.only = {
            cards: one
            for cards, one in least.items()
            if found.counts(one) and all(map(self._works, combinations(cards, 2)))
        }
        self.open = {cards: one for cards, one in least.items() if cards not in self.only}
        self.flaky = found.ended((FLAKY,), self.bad)
        self.flaky.update(
            (frozenset((card,)), one)
            for card, one in found.alone.items()
            if one.status == FLAKY and card not in self.bad
        )
        tests = (*found.alone.values(), *found.together.values())
        speeds = compare.slow_pairs(tests, aim, self.bad)
        self.slow_cards = compare.slow_cards(tests, speeds, self.bad)
        kinds = {pair: compare.peers(pair, aim) for pair in speeds}
        self.slow = {
            pair: f"{ratio:.0%} of the speed of other {kinds[pair] or 'pairs'}"
            for pair, ratio in speeds.items()
            if kinds[pair] or pair & set(self.slow_cards)
        }
        self.cards = {card: self._card(card) for card in aim.cards}
        self.unknown = {card for card, one in self.cards.items() if one.verdict == UNKNOWN}
        self.spared = self._spared()

    def _works(self, cards: tuple[int, ...]) -> bool:
        alone = self.found.alone.get(cards[0]) if len(cards) == 1 else None
        one = alone or self.found.together.get(frozenset(cards))
        return one is not None and one.status == OK

    def _spared(self) -> set[int]:
        """Cards without any test, where all groups that it was for work without them: nobody lacks it."""
        if not self.aim.first or not all(map(self._works, self.aim.first)):
            return set()
        return self.unknown.difference(self.found.alone, *self.found.together)

    def _card(self, card: int) -> CardVerdict:
        reason, evidence = words.against(self.found, card)
        if card in self.bad:
            return CardVerdict(FAIL, reason, evidence, "exclude")
        if card in self.doubtful:
            doubt = "another card may be to blame for it" if self.found.repeated(card) else ONCE
            why = f"{reason}; {doubt}"
            return CardVerdict(UNKNOWN, why, evidence, "retry")
        alone = self.found.alone.get(card)
        if alone is not None and alone.status == FLAKY:
            return CardVerdict(UNKNOWN, f"alone it {words.how(alone)}", evidence, "retry")
        if card in self.slow_cards:
            return CardVerdict(DEGRADED, self.slow_cards[card], evidence, "inspect")
        if card in self.working or (alone is not None and self._single(card)):
            return CardVerdict(PASS, self._passes(card), evidence)
        if evidence:
            return CardVerdict(UNKNOWN, f"no group with it worked: {reason}", evidence, "retry")
        why = "not tested" if alone is None else "works alone; not tested together with others"
        return CardVerdict(UNKNOWN, why, (), "retry")

    def _single(self, card: int) -> bool:
        """Whether working alone is all that is asked of a card.

        Where a host has others it is not: a card whose collectives hang works alone.
        """
        aim = self.aim
        others = {*aim.cards, *aim.bad}.union(*aim.groups) - {card}
        sizes = [want.tp or len(want.cards or ()) for want in aim.wants]
        return not others or (bool(sizes) and set(sizes) == {1})

    def _passes(self, card: int) -> str:
        apart = [other for pair in self.links if card in pair for other in pair if other != card]
        if card not in self.working:
            return "works alone, which is all that is asked of it"
        once = [other for other in apart if not self.found.counts(self.links[frozenset((card, other))])]
        apart = [other for other in apart if other not in once]
        said = [f"not with {words.cards(apart)}"] if apart else []
        said += [f"with {words.cards(once)} it {ONCE}"] if once else []
        return f"works, but {', and '.join(said)}" if said else "works"

    def pair(self, pair: Cards, one: Outcome) -> PairVerdict:
        """The verdict on a tested pair."""
        if pair in self.slow:
            return pair_verdict(pair, one, self.slow[pair], SLOW)
        bad = pair & self.bad
        if bad and one.status != OK:
            return pair_verdict(pair, one, f"{words.cards(bad)} {'is' if len(bad) == 1 else 'are'} bad")
        if one.status in FAILING and not self.found.counts(one):
            return pair_verdict(pair, one, f"{words.how(one)}; {ONCE}")
        return pair_verdict(pair, one)

    def proven(self) -> set[Cards]:
        """Bad links whose ends are known to be good."""
        return {
            pair for pair, one in self.links.items() if self.found.counts(one) and not pair & self.unknown
        }

    def late(self) -> dict[Cards, float]:
        """Larger groups with right values, slower than learned though no card or pair in them is slow."""
        ratios = {
            cards: bandwidth.against(one, self.aim.baseline.get(len(cards), {}))
            for cards, one in self.found.ended((OK,)).items()
            if len(cards) > 2 and not cards & set(self.slow_cards)
        }
        slow = {
            cards: ratio for cards, ratio in ratios.items() if ratio is not None and ratio < bandwidth.ENOUGH
        }
        return {cards: ratio for cards, ratio in slow.items() if not any(pair <= cards for pair in self.slow)}

    def scope(self) -> str:
        """What is to blame."""
        if self.bad:
            return CARD
        if self.doubtful:
            return INCONCLUSIVE
        if self.proven():
            return LINK
        if self.only:
            return GROUP
        if self.links or self.open or self.flaky or self.unknown - self.spared:
            return INCONCLUSIVE
        if self.slow_cards:
            return CARD
        if self.slow:
            return LINK
        if self.late():
            return GROUP
        return CARD if self.aim.bad or self.aim.kept else NONE
