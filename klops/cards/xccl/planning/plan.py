"""What a diagnosis tests, in which order, and when it knows enough. Pure: whoever runs the tests drives it.

A collective that hangs costs its whole timeout, and its ranks are replaced. What follows from that:

- The first groups are formed before all else. Right values at the speed that was learned need no more.
- Else cards alone, all at the same time; those that fail are out. Then all pairs, in rounds, once each.
- A card is *set aside* whose pairs all failed, two of them with cards that work with each other: that is the
  same failure with two partners. Two bad links that meet at it would look the same, so it meets a third card
  that works. Its other pairs would only hang as well and are left out; one of those that failed is repeated
  in fresh processes, and if it goes well the card is back with all its pairs.
- Failed pairs that no such card explains are repeated in fresh processes, as many at a time as are disjoint.
- The pairs end early once all of them failed alike and half of the cards can't be good any more, as no half
  is left of which no two failed together: what fails so is the stack, or nearly all cards, and every card
  has failed with several others by then. Eight cards in two wings get there after three rounds.
- A larger group is formed again only if nothing within it failed. First groups are repeated if nothing
  explains their failure; then the groups that services would get are formed, best choice first, those of one
  choice together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.cards.choice.selection import NoChoiceError, Wanted, choices, choose, shortfall
from klops.cards.xccl.judging.verdict import judge
from klops.cards.xccl.planning import tournament
from klops.cards.xccl.planning.known import Known
from klops.cards.xccl.results import HOST, STACK, UNTESTED, Batch, Diagnosis, Test

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import TypedDict, TypeVar

    from klops.cards.xccl.results import Aim, Outcome, Verdict

    T = TypeVar("T")
    Cards = tuple[int, ...]
    Choice = Mapping[str, Cards]
    Steps = Generator[Batch, Sequence[Outcome], T]

    class Stock(TypedDict):
        """Arguments of ``choices``, ``choose`` and ``shortfall``."""

        wants: Sequence[Wanted]
        usable: Cards
        groups: Sequence[Cards]
        min_tp: int
        bad: Cards
        bad_links: Sequence[Cards]


#: Groups formed for choices before no other is tried. Eight cards in two wings have three groups that are
#: larger than a pair; pairs and cards alone were tested before.
CANDIDATES = 6


class _Over(Exception):
    """The runner has no more time."""


def diagnose(aim: Aim) -> Steps[Diagnosis]:
    """Yields batches, is sent the outcomes of each (one run a test, in their order), returns the diagnosis.

    Ends at once when an outcome is ``untested``, with what is known by then.
    """
    plan = _Plan(aim)
    over = False
    try:
        yield from plan.gather()
        yield from plan.prove()
    except _Over:
        over = True
    return plan.diagnosis(over)


class _Plan:
    """One diagnosis."""

    def __init__(self, aim: Aim) -> None:
        self.aim = aim
        self.known = Known(aim)
        self.runs = self.known.runs
        #: groups formed for choices
        self.tried = 0

    # -- what is tested

    def run(self, tests: Sequence[Cards], title: str, fresh: bool = False) -> Steps[None]:
        """One batch of these tests."""
        ended = yield Batch(tuple(map(Test, tests)), fresh, title, self.known.sizes(tests) if fresh else ())
        answered = [outcome.cards for outcome in ended]
        if list(map(set, answered)) != list(map(set, tests)):
            raise ValueError(f"asked for a test of {_named(tests)}, got that of {_named(answered)}")
        for outcome in ended:
            self.runs.add(outcome)
        if any(outcome.status == UNTESTED for outcome in ended):
            raise _Over

    def repeat(self, tests: Sequence[Cards]) -> Steps[None]:
        """These disjoint tests in fresh processes, until nothing can change whether they count as failed."""
        while True:
            doubtful = [cards for cards in tests if self.runs.doubtful(cards)]
            if not doubtful:
                return
            yield from self.run(doubtful, f"{_named(doubtful)} once more", fresh=True)

    def gather(self) -> Steps[None]:
        """First groups; if those don't do: cards alone, pairs, groups whose failure nothing explains."""
        groups = self.aim.first or (self.aim.cards,)
        if not self.aim.cards:
            return
        whole = len(groups) == 1 and len(groups[0]) == len(self.aim.cards)
        together = f"all {len(groups[0])} cards" if whole else _named(groups)
        yield from self.run(groups, f"{together} together")
        if all(map(self.known.convincing, groups)) and not self.aim.full:
            return
        alone = [(card,) for card in self.aim.cards]
        untested = [one for one in alone if self.runs.of(one) is None]
        if untested:
            yield from self.run(untested, "each card alone")
        yield from self.repeat(alone)
        yield from self.meet()
        yield from self.repeat([cards for cards in groups if not self.known.explained(cards)])

    def meet(self) -> Steps[None]:
        """All pairs once, and again those that are in doubt; cards that come back bring theirs along."""
        rounds = tournament.rounds(self.known.standing(), self.aim.serial)
        while True:
            for number, two in enumerate(rounds, 1):
                known = self.known.pairs()
                untested = list(filter(self.known.telling, two))
                if untested:
                    # so that what ends early has failed in several processes of each card
                    fresh = bool(known) and all(one.failures == one.runs for one in known.values())
                    yield from self.run(untested, f"pairs, round {number} of {len(rounds)}", fresh)
                if self.known.hopeless():
                    return
            for thirds in iter(self.known.thirds, []):
                for some in tournament.packed(thirds, self.aim.serial):
                    yield from self.run(some, f"{_named(some)} together", fresh=True)
            doubtful = self.known.doubtful()
            if not doubtful:
                return
            for two in tournament.packed(doubtful, self.aim.serial):
                yield from self.run(two, f"{_named(two)} once more", fresh=True)

    # -- what comes of it

    def stock(self, verdict: Verdict) -> Stock:
        """What there is to choose from, for the functions of :mod:`klops.cards.choice.selection`."""
        larger = [one.cards for one in self.runs.outcomes() if len(one.cards) > 2]
        return {
            "wants": self.aim.wants or (Wanted(""),),
            "usable": self.aim.cards,
            "groups": self.aim.groups,
            "min_tp": self.aim.min_tp,
            "bad": (*self.aim.bad, *verdict.excluded),
            "bad_links": [*verdict.bad_links, *(cards for cards in larger if self.known.useless(cards))],
        }

    def candidates(self, verdict: Verdict) -> Iterator[Choice]:
        """Choices of which no group failed by itself, best first; none where no choice of cards helps."""
        if verdict.scope in (STACK, HOST):
            return
        quality = {frozenset((pair.a, pair.b)): pair.gbps for pair in verdict.pairs if pair.gbps is not None}
        for choice in choices(**self.stock(verdict), quality=quality):
            if not any(map(self.known.useless, choice.values())):
                yield choice

    def prove(self) -> Steps[None]:
        """Forms the groups of the best choice, of the next one if one of them fails, until one is proven."""
        while self.tried < CANDIDATES:
            choice = next(self.candidates(judge(self.aim, self.runs.outcomes())), None)
            unproven = [cards for cards in (choice or {}).values() if self.known.unknown(cards)]
            if not unproven:
                return
            self.tried += len(unproven)
            new = [cards for cards in unproven if self.runs.of(cards) is None]
            if new:
                yield from self.run(new, f"{_named(new)} together")
            yield from self.repeat(unproven)

    def diagnosis(self, over: bool) -> Diagnosis:
        """What is known, and the best choice if each of its groups was proven."""
        verdict = judge(self.aim, self.runs.outcomes())
        choice = next(self.candidates(verdict), None)
        if choice is not None and not any(map(self.known.unknown, choice.values())):
            return Diagnosis(verdict, self.runs.outcomes(), dict(choice), True, self.smaller(verdict))
        if verdict.scope in (STACK, HOST):
            why = verdict.summary
        elif over:
            why = "the time for the diagnosis was over before a group was proven"
        elif choice is not None:
            why = f"{self.tried} groups were formed, none was proven"
        else:
            why = self.nothing(verdict)
        return Diagnosis(verdict, self.runs.outcomes(), None, False, why)

    def smaller(self, verdict: Verdict) -> str:
        """Why there are no more cards than these, "" where there are no more."""
        return "; ".join(f"tp {size}: {why}" for size, why in shortfall(**self.stock(verdict)).items())

    def nothing(self, verdict: Verdict) -> str:
        """Why there is no choice."""
        try:
            choose(**self.stock(verdict))
        except NoChoiceError as none:
            return str(none)
        return "each group that could be had failed by itself"


def _named(tests: Sequence[Cards]) -> str:
    return " and ".join(",".join(map(str, cards)) for cards in tests)
