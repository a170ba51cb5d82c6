"""The tests of a diagnosis by their cards, and which of them are open once bad cards are known. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.cards.xccl.planning.merge import kind
from klops.cards.xccl.results import ERROR, FLAKY, OK, TIMEOUT, UNTESTED, WRONG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from klops.cards.xccl.results import Aim, Outcome

    Cards = frozenset[int]
    Tests = dict[Cards, Outcome]

FAILING = (WRONG, TIMEOUT, ERROR)
#: With so many good cards a card must have failed to be told from one at which two bad links meet.
PARTNERS = 3
#: What counts where the same cards were tested under two orders: the last of these.
_WEIGHT = (UNTESTED, OK, FLAKY, TIMEOUT, ERROR, WRONG)


@dataclass(frozen=True)
class Found:
    """Tests that were run, by their cards: of one alone, and of two or more together."""

    cards: tuple[int, ...]
    alone: dict[int, Outcome]
    together: Tests
    #: a test counts that failed so often
    needed: int
    #: cards beside these, on which a service is ready
    serving: tuple[int, ...] = ()

    @classmethod
    def of(cls, aim: Aim, outcomes: Iterable[Outcome]) -> Found:
        """The tests among the cards of ``aim``."""
        tests: Tests = {}
        for one in outcomes:
            cards = frozenset(one.cards)
            if one.status == UNTESTED or not cards <= set(aim.cards):
                continue
            if cards not in tests or _WEIGHT.index(tests[cards].status) < _WEIGHT.index(one.status):
                tests[cards] = one
        return cls(
            aim.cards,
            {one.cards[0]: one for cards, one in tests.items() if len(cards) == 1},
            {cards: one for cards, one in tests.items() if len(cards) > 1},
            aim.needed,
            aim.serving,
        )

    def counts(self, one: Outcome) -> bool:
        """Whether a test failed as often as is asked for; else it was not repeated, or is flaky."""
        return one.status in FAILING and one.failures >= self.needed

    def dead(self) -> set[int]:
        """Cards that fail alone."""
        return {card for card, one in self.alone.items() if self.counts(one)}

    def once(self) -> set[int]:
        """Cards that failed alone, which was not repeated."""
        return {card for card, one in self.alone.items() if one.status in FAILING} - self.dead()

    def repeated(self, card: int) -> bool:
        """Whether any test with this card counts as failed."""
        alone = [self.alone[card]] if card in self.alone else []
        return any(map(self.counts, (*alone, *(one for of, one in self.together.items() if card in of))))

    def ended(self, statuses: Collection[str], without: Collection[int] = ()) -> Tests:
        """Groups whose test ended so, without a card of ``without``."""
        return {
            cards: one
            for cards, one in self.together.items()
            if one.status in statuses and not cards & set(without)
        }

    def pairs(self, card: int) -> list[Outcome]:
        """Tested pairs of a card."""
        return [one for cards, one in self.together.items() if len(cards) == 2 and card in cards]

    def least(self, bad: Collection[int]) -> Tests:
        """Larger groups that failed, without a bad card, and in which nothing smaller ever failed."""
        failed = self.ended((*FAILING, FLAKY), bad)
        return {
            cards: one
            for cards, one in failed.items()
            if len(cards) > 2 and one.status in FAILING and not any(other < cards for other in failed)
        }


def pairs_only(tests: Tests) -> Tests:
    """The pairs among them."""
    return {cards: one for cards, one in tests.items() if len(cards) == 2}


def alike(outcomes: Sequence[Outcome]) -> bool:
    """Whether these failures are one and the same."""
    return len(set(map(kind, outcomes))) == 1


def apart(cards: Sequence[int], failed: Collection[frozenset[int]]) -> int:
    """How many of ``cards`` there can be at most of which no two failed together."""
    if not cards:
        return 0
    first, others = cards[0], cards[1:]
    with_first = [card for card in others if frozenset((first, card)) not in failed]
    if len(with_first) == len(others):
        return 1 + apart(others, failed)
    return max(1 + apart(with_first, failed), apart(others, failed))
