"""What several runs of one test come to. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from klops.cards.xccl.judging import quotes
from klops.cards.xccl.results import FLAKY, OK, TIMEOUT, UNTESTED, WRONG, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from klops.cards.xccl.results import Sample


def failed(run: Outcome) -> bool:
    """Whether this run failed. One wrong sum, or one NaN, in any round is enough."""
    return run.status not in (OK, UNTESTED) or wrong(run)


def wrong(outcome: Outcome) -> bool:
    """Whether any round of it came to a wrong value."""
    return any(sample.wrong or sample.nan for sample in outcome.samples)


def kind(outcome: Outcome) -> tuple[str, str, str]:
    """What two failures must share to be the same: status, stage, essence of the error.

    What a rank that didn't answer said last, and which sizes came out wrong, is by chance: a timeout and
    wrong sums have no error here.
    """
    error = "" if outcome.status in (TIMEOUT, WRONG) else quotes.essence(outcome.error)
    return outcome.status, outcome.stage, error


def merged(runs: Sequence[Outcome], needed: int) -> Outcome:
    """The runs of one test as one outcome, ``runs`` and ``failures`` counted; at least one run.

    The status is ``ok`` if none failed; that of the first failure if ``needed`` failed, or if all did (one
    that was not repeated, as other tests explain it: nothing speaks against it); ``flaky`` if fewer failed
    than ``needed`` and others went well. ``stage`` and ``error`` are those of the first failure. Runs that
    the budget didn't allow don't count; ``untested`` (of 0 runs) is what has no other.
    """
    ran = [run for run in runs if run.status != UNTESTED]
    if not ran:
        return replace(runs[0], runs=0, failures=0)
    failures = [run for run in ran if failed(run)]
    first = failures[0] if failures else ran[0]
    status = first.status
    if failures and len(failures) < min(needed, len(ran)):
        status = FLAKY
    elif failures and status == OK:
        status = WRONG
    return Outcome(
        cards=ran[0].cards,
        status=status,
        stage=first.stage,
        error=first.error,
        silent=_once(card for run in ran for card in run.silent),
        told=_once(card for run in ran for card in run.told),
        samples=_samples(ran),
        runs=len(ran),
        failures=len(failures),
        seconds=sum(run.seconds for run in ran),
    )


def _once(cards: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(cards))


def _samples(runs: Sequence[Outcome]) -> tuple[Sample, ...]:
    """By size: rounds and wrong ones of all runs together, the time of the fastest run.

    Whatever else the host did can only have slowed a run.
    """
    found: dict[int, Sample] = {}
    for sample in (sample for run in runs for sample in run.samples):
        other = found.get(sample.bytes, replace(sample, rounds=0, wrong=0, nan=0))
        faster = min((one for one in (other, sample) if one.us > 0), key=lambda one: one.us, default=sample)
        found[sample.bytes] = replace(
            faster,
            rounds=other.rounds + sample.rounds,
            wrong=other.wrong + sample.wrong,
            nan=other.nan + sample.nan,
        )
    return tuple(found[size] for size in sorted(found))


class Runs:
    """All runs of all tests of a diagnosis, by the set of their cards."""

    def __init__(self, tries: int, needed: int) -> None:
        """A test counts as failed that fails ``needed`` times of ``tries``."""
        self.tries, self.needed = tries, needed
        self._runs: dict[frozenset[int], list[Outcome]] = {}
        self._merged: dict[frozenset[int], Outcome] = {}

    def add(self, run: Outcome) -> None:
        """One more run of its test."""
        cards = frozenset(run.cards)
        runs = self._runs.setdefault(cards, [])
        runs.append(run)
        self._merged[cards] = merged(runs, self.needed)

    def of(self, cards: Iterable[int]) -> Outcome | None:
        """What the test of these cards, in whatever order, came to; None without a run."""
        found = self._merged.get(frozenset(cards))
        return found if found and found.runs else None

    def outcomes(self) -> tuple[Outcome, ...]:
        """All tests, in the order in which they first ended; ``untested`` ones too."""
        return tuple(self._merged.values())

    def doubtful(self, cards: Iterable[int]) -> bool:
        """Whether a run failed, and another run could still change whether the test counts as failed."""
        found = self.of(cards)
        if found is None or not found.failures or found.failures >= self.needed:
            return False
        return found.failures + self.tries - found.runs >= self.needed

    def bad(self, cards: Iterable[int]) -> bool:
        """Whether the test counts as failed."""
        found = self.of(cards)
        return found is not None and found.failures >= self.needed

    def good(self, cards: Iterable[int]) -> bool:
        """Whether the test was run and doesn't count as failed. A wrong value always speaks against it."""
        found = self.of(cards)
        if found is None or self.bad(cards) or self.doubtful(cards):
            return False
        return found.failures < found.runs and not wrong(found)
