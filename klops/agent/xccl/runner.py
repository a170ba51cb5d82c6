"""Runs batches of tests on ranks: at the same time, each with its deadlines, failed ranks replaced.

The time for the whole is over when it is over, whatever hangs: what is left to be tested is then answered
``untested``. All deadlines are monotonic.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, List, Mapping, NamedTuple, Optional, Sequence

from klops.agent.errors import VerbError
from klops.agent.trouble import reason
from klops.agent.xccl.outcome import Report, outcome
from klops.agent.xccl.patience import Patience
from klops.agent.xccl.ranks.pool import Pool
from klops.agent.xccl.ranks.process import BUSY, FAILED, GONE, IDLE, STARTING, Rank
from klops.agent.xccl.ranks.seats import Seats, seat
from klops.cards.xccl.results import OK, START, UNTESTED, WRONG, Batch, Outcome, Test

#: Seconds beyond the ranks' own patience after which one that has said nothing counts as silent: those that
#: wait for it are to have said so by then (with gloo one second more than asked for was measured).
TELLING = 2.0
#: Seconds that the peers of a rank that has failed have to say what they saw.
GRACE = 3.0
#: Rounds before those that are measured: their values count, their times don't.
WARMUPS = 2
#: The backend whose ranks can be used again after a group of theirs has failed.
GLOO = "gloo"
_OVER = "the time for the diagnosis is over"


class Limits(NamedTuple):
    """Rounds that are measured, and seconds."""

    rounds: int = 10
    start_timeout: float = 120.0
    timeout: float = 20.0


class _Run:
    """One run of one test."""

    def __init__(
        self, test: Test, places: Sequence[int], lacking: List[Report], patience: float, fresh: bool
    ) -> None:
        self.test = test
        self.fresh = fresh
        #: seconds that its ranks wait for each other; and that they may be silent: less, once it is known
        #: how long others are that run at the same time
        self.told = self.patience = patience
        #: of its cards that have one
        self.places = places
        #: cards that can't take part: it fails before it begins
        self.lacking = lacking
        #: ranks by card once it has begun
        self.ranks: dict[int, Rank] = {}
        self.begun = self.failed_at = 0.0
        #: cards whose rank is not waited for any longer: it was silent; it only waits for another
        self.silent: set[int] = set()
        self.waiting: set[int] = set()
        #: once it is decided
        self.outcome: Optional[Outcome] = None


class Runner:
    """Runs batches on the ranks of a pool."""

    def __init__(
        self,
        pool: Pool,
        cards: Sequence[int],
        limits: Limits,
        end: float,
        *,
        absent: Collection[int] = (),
        check: Callable[[], None] = lambda: None,
        settle: Callable[[Sequence[int]], None] = lambda cards: None,
    ) -> None:
        """``cards`` by place. ``end``: monotonic seconds. ``absent``: cards without a node in this container.

        ``check`` raises what ends it all early; ``settle`` waits for the memory of cards after a KILL there.
        """
        self._pool = pool
        self._limits = limits
        self._patience = Patience(limits.timeout)
        self._end = end
        self._absent = absent
        self._check = check
        self._settle = settle
        self._cards = tuple(cards)
        #: tells cards by device numbers once it is known which rank has which
        self._read: Callable[[Sequence[int]], Optional[int]] = lambda numbers: None
        self.seats = Seats({card: place for place, card in enumerate(self._cards)}, sure=False)
        #: by place: how the start of a rank failed, which is the answer of the next test of its card
        self._unstarted: dict[int, Report] = {}
        #: what Python says where there is no torch
        self.no_torch = ""
        #: sizes of messages, and what the ranks say of torch: known once they are up
        self.sizes: Sequence[int] = ()
        self.facts: dict[str, Any] = {}
        self.collectives = self.rounds = 0
        #: ranks that ended by themselves because a test was to run in fresh ones
        self.renewed = 0

    def start(
        self, read: Callable[[Sequence[int]], Optional[int]], *, others: bool = False
    ) -> Mapping[int, Optional[int]]:
        """Start a rank for each place, wait for them, and see which card each has: that, by place.

        ``read`` tells the one card of some device numbers, None when they don't name one. ``others``: there
        are cards that no place is meant for.
        """
        for place in range(len(self._cards)):
            self._begin(place)
        while self._time() and any(rank.state == STARTING for rank in self._pool.ranks.values()):
            self._look()
        up = {place: rank for place, rank in self._pool.ranks.items() if rank.state == IDLE}
        found = {place: read(rank.facts.get("nodes", ())) for place, rank in up.items()}
        failed = [place for place in range(len(self._cards)) if place not in up]
        reordered = any(rank.facts.get("device_order") for rank in up.values())
        self.seats = seat(self._cards, found, failed, others=others, reordered=reordered)
        self._read = read
        return found

    def batch(self, batch: Batch) -> List[Outcome]:
        """One outcome a test, in their order."""
        if not self._time():
            return [Outcome(test.cards, UNTESTED, runs=0) for test in batch.tests]
        self._pool.listen(0.0)  # one may have ended since
        if batch.fresh:
            self.renewed += self._pool.leave(
                [
                    place
                    for test in batch.tests
                    for place in self._places(test)
                    if place in self._pool.ranks and self._pool.ranks[place].used
                ]
            )
        runs = [self._prepared(test, batch.fresh) for test in batch.tests]
        while True:
            for one in runs:
                if one.outcome is None:
                    self._step(one, batch.sizes or self.sizes)
            undecided = [one for one in runs if one.outcome is None]
            if not undecided or not self._time():
                break
            self._look()
        self._kill({place: _OVER for one in undecided for place in one.places if one.begun})
        self.rounds += any(one.begun for one in runs)
        return [one.outcome or Outcome(one.test.cards, UNTESTED, runs=0) for one in runs]

    # -- ranks

    def _time(self) -> bool:
        return time.monotonic() < self._end

    def _look(self) -> None:
        self._check()
        self._pool.listen(self._end - time.monotonic())
        for rank in self._pool.ranks.values():
            self.facts = self.facts or rank.facts
        self._give_up_starts()

    def _begin(self, place: int) -> None:
        try:
            self._pool.start(place)
        except OSError as error:
            self._unstarted[place] = Report(-1, error=f"no rank can be started: {reason(error)}", stage=START)

    def _give_up_starts(self) -> None:
        """Ranks that have failed to begin, or take too long, are ended; that is how their next test fails."""
        late, patience = {}, self._limits.start_timeout
        for place, rank in list(self._pool.ranks.items()):
            if rank.facts:
                continue
            if rank.state in (FAILED, GONE):
                self.no_torch = self.no_torch or (rank.error if rank.no_torch else "")
                self._unstarted[place] = _report(-1, rank)
                self._pool.leave([place])
            elif time.monotonic() - rank.since > patience:
                self._unstarted[place] = _report(-1, rank, silent=True)
                late[place] = f"it was not ready within {patience:g} s (stage {rank.stage})"
        self._kill(late)

    def _kill(self, why: Mapping[int, str]) -> None:
        if not why:
            return
        self._pool.kill(why)
        card = {place: card for card, place in self.seats.places.items()}
        self._settle([card[place] for place in why if place not in self._pool.stuck])
        # that may have taken a while, in which the others went on: what they said meanwhile counts
        self._pool.listen(0.0)

    def _places(self, test: Test) -> list[int]:
        return [self.seats.places[card] for card in test.cards if card in self.seats.places]

    # -- one run

    def _prepared(self, test: Test, fresh: bool) -> _Run:
        """With a rank for each card, started where there is none, or with why that can't be."""
        lacking = []
        for card in test.cards:
            place = self.seats.places.get(card)
            if place is None or card in self._absent:
                lacking.append(Report(card, error=f"card {card} has no node in this container", stage=START))
            elif place in self._pool.stuck:
                lacking.append(Report(card, error=unkillable(self._pool.stuck[place], card), stage=START))
            elif place not in self._unstarted:
                rank = self._pool.ranks.get(place)
                if rank is not None and rank.state not in (IDLE, STARTING):
                    self._pool.leave([place])  # it ended between two tests
                if place not in self._pool.ranks:
                    self._begin(place)
        return _Run(test, self._places(test), lacking, self._patience.of(fresh=fresh), fresh)

    def _step(self, run: _Run, sizes: Sequence[int]) -> None:
        """What is due for a run now."""
        if not run.begun:
            self._step_before(run, sizes)
            return
        run.patience = min(run.patience, self._patience.of(fresh=run.fresh))
        now, patience = time.monotonic(), run.patience + TELLING
        for card, rank in run.ranks.items():
            if rank.state == BUSY and now - rank.heard > patience:
                run.silent.add(card)
            if not run.failed_at and (rank.error or card in run.silent):
                run.failed_at = now
        left = [card for card, rank in run.ranks.items() if rank.state == BUSY and card not in run.silent]
        if left and run.failed_at and now - run.failed_at > GRACE:
            run.waiting.update(left)
        if set(left) <= run.waiting:
            self._decide(run, now)

    def _step_before(self, run: _Run, sizes: Sequence[int]) -> None:
        for card in run.test.cards:
            place = self.seats.places.get(card)
            if place in self._unstarted:
                run.lacking.append(self._unstarted.pop(place)._replace(card=card))
                continue
            rank = self._pool.ranks.get(place) if place is not None else None
            if rank is not None and rank.state == GONE:
                # it was ready, and ended while others still begin
                error = f"its rank {rank.exit}"
                run.lacking.append(
                    Report(card, error=error, stage=START, died=True, log=rank.quoted(), at=time.monotonic())
                )
                self._pool.leave([rank.place])
        if run.lacking:
            lacking = {one.card: one for one in run.lacking}
            reports = [lacking.get(card, Report(card)) for card in run.test.cards]
            run.outcome = outcome(reports, self._limits.start_timeout, 0.0)
        elif all(self._pool.ranks[place].state == IDLE for place in run.places):
            run.ranks = {card: self._pool.ranks[self.seats.places[card]] for card in run.test.cards}
            self._compare(run)
            self._ask(run, sizes)

    def _compare(self, run: _Run) -> None:
        """Raises :class:`VerbError` if a rank that was started later has another card than its place had."""
        for card, rank in run.ranks.items():
            read = self._read(rank.facts.get("nodes", ())) if not rank.used else None
            if read not in (None, card) and read in self.seats.places:
                raise VerbError(
                    "order-changed",
                    f"a rank started anew at place {rank.place} has card {read}, where card {card} was: the"
                    " runtime's order has changed, and what was found can't be told of one card or the other",
                    "repeat it; if that happens again, see whether a card comes and goes in the kernel log",
                )

    def _ask(self, run: _Run, sizes: Sequence[int]) -> None:
        run.begun = time.monotonic()
        work = {"sizes": list(sizes), "rounds": self._limits.rounds, "warmups": WARMUPS}
        if run.test.single:
            (rank,) = run.ranks.values()
            self._pool.ask(rank, {"do": "single", **work})
            return
        self.collectives += 1
        group = {
            "do": "group",
            "store": f"{self._pool.setting.folder}/group-{self.collectives}",
            "world": len(run.ranks),
            "timeout": run.told,
        }
        for number, rank in enumerate(run.ranks.values()):
            self._pool.ask(rank, {**group, **work, "rank": number})
            rank.groups += 1

    def _decide(self, run: _Run, now: float) -> None:
        """All ranks have said what they have to say, or are not waited for."""
        reports = [_report(card, rank, silent=card in run.silent) for card, rank in run.ranks.items()]
        run.outcome = outcome(reports, run.patience if run.silent else run.told, now - run.begun)
        self._learn(run)
        why = {}
        for card, rank in run.ranks.items():
            if card in run.silent:
                why[rank.place] = f"no answer within {run.patience + TELLING:g} s (stage {rank.stage})"
            elif card in run.waiting:
                why[rank.place] = "it waits for a rank that has failed"
            elif rank.state == GONE:
                self._pool.drop(rank.place)
            elif run.outcome.status not in (OK, WRONG) and self.facts.get("backend") != GLOO:
                why[rank.place] = "its test failed, and what that left in it would make the next one fail"
        self._kill(why)

    def _learn(self, run: _Run) -> None:
        """How long healthy ranks are silent; with gloo the first collective in one is as any other."""
        ranks = run.ranks.values()
        first = self.facts.get("backend") == GLOO or all(rank.groups == 1 for rank in ranks)
        if not run.test.single and run.outcome is not None and run.outcome.status == OK and first:
            self._patience.learn(max(rank.silence for rank in ranks))


def _report(card: int, rank: Rank, *, silent: bool = False) -> Report:
    failed = silent or bool(rank.error)
    return Report(
        card=card,
        sizes=rank.sizes,
        error=rank.error,
        stage=rank.error_stage or rank.stage,
        at=rank.error_at,
        waited=rank.waited,
        died=rank.died,
        silent=silent,
        log=rank.quoted() if failed else "",
    )


def unkillable(rank: Rank, card: int) -> str:
    """What is said of one that KILL doesn't end."""
    process = rank.process()
    state = process.state if process is not None else "?"
    return (
        f"unkillable: pid {rank.pid} (rank of card {card}) in state {state}: it sits in the driver; the card"
        " needs a reset, or the host a reboot"
    )
