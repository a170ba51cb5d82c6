"""What a diagnosis knows so far, and which tests could still tell it more. Pure."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from klops.cards.xccl import bandwidth
from klops.cards.xccl.judging.found import PARTNERS, alike, apart
from klops.cards.xccl.planning.merge import Runs, wrong
from klops.cards.xccl.results import OK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from klops.cards.xccl.results import Aim, Outcome

    Cards = tuple[int, ...]

#: Rounds at each size from which right values of a whole group need no further test.
ROUNDS = 10


class Known:
    """One diagnosis: what is asked, and all runs of its tests so far."""

    def __init__(self, aim: Aim) -> None:
        """Nothing is known yet."""
        self.aim = aim
        self.runs = Runs(aim.tries, aim.needed)

    def unknown(self, cards: Cards) -> bool:
        """Whether a run of this test could still say something."""
        return self.runs.of(cards) is None or self.runs.doubtful(cards)

    def useless(self, cards: Cards) -> bool:
        """Whether this test was run, and proves nothing."""
        return not self.unknown(cards) and not self.runs.good(cards)

    def convincing(self, cards: Cards) -> bool:
        """Whether values were right often enough, at the speed that was learned; a card alone has none."""
        outcome = self.runs.of(cards)
        if outcome is None or outcome.status != OK or any(one.rounds < ROUNDS for one in outcome.samples):
            return False
        if len(cards) == 1:
            return True
        ratio = bandwidth.against(outcome, self.aim.baseline.get(len(cards), {}))
        return ratio is not None and ratio >= bandwidth.ENOUGH

    def standing(self) -> Cards:
        """Cards that didn't fail alone, those of a wing together."""
        wings = sorted(self.aim.groups, key=len)

        def place(card: int) -> int:
            return next((number for number, wing in enumerate(wings) if card in wing), len(wings))

        return tuple(card for card in sorted(self.aim.cards, key=place) if not self.runs.bad((card,)))

    def pairs(self) -> dict[frozenset[int], Outcome]:
        """What pairs that were tested came to, of cards that didn't fail alone."""
        found = {frozenset(two): self.runs.of(two) for two in combinations(self.standing(), 2)}
        return {two: outcome for two, outcome in found.items() if outcome is not None}

    def aside(self, pairs: Mapping[frozenset[int], Outcome]) -> set[int]:
        """Cards with which no pair went well, and that failed with two others that work with each other."""
        well = [two for two, outcome in pairs.items() if outcome.failures < outcome.runs]
        working = {card for two in well for card in two}
        partners: dict[int, set[int]] = {}
        for two in pairs:
            for card in two - working:
                partners.setdefault(card, set()).update(two - {card})
        return {card for card, others in partners.items() if any(two <= others for two in well)}

    def telling(self, two: Cards) -> bool:
        """Whether the test of this pair could tell something: not of cards that are set aside for good."""
        pairs = self.pairs()
        aside = self.aside(pairs)
        return (
            frozenset(two) not in pairs
            and not aside >= set(two)
            and not set(two) & aside - self.short(pairs, aside)
        )

    def thirds(self) -> list[tuple[int, int]]:
        """Disjoint untested pairs of cards set aside that failed with too few others to be blamed."""
        pairs = self.pairs()
        short = self.short(pairs, self.aside(pairs))
        working = _working(pairs)
        taken: set[int] = set()
        found = []
        for card in (card for card in self.standing() if card in short):
            tested = {other for two in pairs if card in two for other in two}
            free = [other for other in self.standing() if other in working - tested - taken]
            taken.update(free[:1])
            found += [_two((card, other)) for other in free[:1]]
        return found

    def short(self, pairs: Mapping[frozenset[int], Outcome], aside: Collection[int]) -> set[int]:
        """Those of ``aside`` that failed with too few others to be blamed."""
        working = _working(pairs)
        return {
            card
            for card in aside
            if sum(card in two and not working.isdisjoint(two) for two in pairs) < PARTNERS
        }

    def hopeless(self) -> bool:
        """Whether all pairs so far failed alike, and no half of the cards could be good."""
        pairs = self.pairs()
        if any(outcome.failures < outcome.runs for outcome in pairs.values()):
            return False
        cards = self.standing()
        return alike(list(pairs.values())) and 2 * apart(cards, pairs) < len(cards)

    def explained(self, cards: Cards) -> bool:
        """Whether something smaller within these cards failed, even once."""
        within = (one for one in self.runs.outcomes() if set(one.cards) < set(cards))
        return any(one.failures for one in within)

    def sizes(self, tests: Sequence[Cards]) -> tuple[int, ...]:
        """Sizes that came out wrong, if that is all that is wrong with these tests; () for all sizes."""
        known = [outcome for outcome in map(self.runs.of, tests) if outcome is not None]
        if len(known) < len(tests) or not all(map(wrong, known)):
            return ()
        return tuple(sorted({one.bytes for of in known for one in of.samples if one.wrong or one.nan}))

    def doubtful(self) -> list[tuple[int, int]]:
        """Pairs to be repeated: one of each card set aside, and all that no such card explains."""
        pairs = self.pairs()
        aside = self.aside(pairs)
        found = [two for two in pairs if not aside & two and self.runs.doubtful(two)]
        # those set aside all at the same time, so that they last one timeout: with a card that works while
        # there is a free one, then with each other; who is left over comes after
        waiting = aside - {card for two in pairs if self.runs.bad(two) for card in two}
        again = [two for two in pairs if waiting & two and self.runs.doubtful(two)]
        taken = {card for two in found for card in two}
        with_working = [two for two in again if len(two & aside) == 1]
        with_each_other = [two for two in again if two <= waiting]
        # one of these in front, if more of the cards find another then
        orders = [
            [*first, *with_working, *with_each_other] for first in ([], *([two] for two in with_each_other))
        ]
        again = max(
            (_disjoint(order, taken) for order in orders), key=lambda some: len(waiting & _cards(some))
        )
        found += again
        taken |= _cards(again)
        late: list[frozenset[int]] = []
        for card in (card for card in self.standing() if card in waiting - taken):
            late += _disjoint([two for two in with_working if card in two], _cards(late))[:1]
        return [_two(two) for two in (*found, *late)]


def _working(pairs: Mapping[frozenset[int], Outcome]) -> set[int]:
    """Cards with which some pair went well."""
    return {card for two, outcome in pairs.items() if outcome.failures < outcome.runs for card in two}


def _cards(pairs: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*pairs)


def _disjoint(pairs: Iterable[frozenset[int]], taken: Collection[int]) -> list[frozenset[int]]:
    """Those that share no card with one of ``taken``, nor with one before."""
    found: list[frozenset[int]] = []
    for two in pairs:
        if two.isdisjoint(taken) and two.isdisjoint(_cards(found)):
            found.append(two)
    return found


def _two(cards: Collection[int]) -> tuple[int, int]:
    low, high = sorted(cards)
    return low, high
