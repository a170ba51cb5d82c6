"""What a diagnosis of cards is asked, what its tests found, and what it comes to. Data only.

Cards are smi indexes here; a diagnosis lives for minutes, in which they don't change. Everything can be
written as JSON and read back, as the plan runs on the host and its result is judged there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from klops.cards.choice.selection import Wanted

#: Outcomes of a test. ``untested``: the budget was over, or the ranks could not be started at all.
OK, WRONG, FLAKY, TIMEOUT, ERROR, UNTESTED = "ok", "wrong", "flaky", "timeout", "error", "untested"
#: Stages of a rank in which a test can end.
START, ALLOCATE, INIT, COLLECTIVE, CHECK = "start", "allocate", "init", "collective", "check"
#: Verdicts on a card.
PASS, DEGRADED, FAIL, UNKNOWN, NOT_APPLICABLE = "pass", "degraded", "fail", "unknown", "not-applicable"
#: What is to blame.
NONE, CARD, LINK, GROUP, STACK, HOST, INCONCLUSIVE = (
    *("none", "card", "link", "group"),
    *("stack", "host", "inconclusive"),
)
#: What is to be done about a card.
ACTIONS = ("none", "retry", "restart", "exclude", "reset", "reboot", "inspect")


@dataclass(frozen=True)
class Sample:
    """One message size of a test: ``bytes`` a rank, ``rounds`` measured, ``wrong`` of them with a wrong sum.

    ``us``: median of the rounds' synchronised wall clock, of the slowest rank of each round, in microseconds;
    ``spread_us``: median absolute deviation from it. All ranks begin a round together.
    """

    bytes: int
    rounds: int
    wrong: int = 0
    nan: int = 0
    us: float = 0.0
    spread_us: float = 0.0


@dataclass(frozen=True)
class Test:
    """One card alone (it allocates, fills, synchronises, reads back), or an all-reduce of several."""

    cards: tuple[int, ...]

    @property
    def single(self) -> bool:
        """Whether it is of one card alone."""
        return len(self.cards) == 1


@dataclass(frozen=True)
class Batch:
    """Tests of disjoint cards that run at the same time. ``fresh``: in rank processes started for them."""

    tests: tuple[Test, ...]
    fresh: bool = False
    #: what it is for, for people: "all 8 cards together", "pairs, round 3 of 7", "4,5,6,7 once more"
    title: str = ""
    #: only the sizes at which an earlier run failed, () for all
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of one test; ``runs`` of it, ``failures`` of them failed.

    ``stage`` and ``error``: where the first failure was and its first line, "" when there is none.
    ``silent``: cards whose rank didn't answer in time. ``told``: cards whose rank raised an error by itself,
    in the order in which they did.
    """

    cards: tuple[int, ...]
    status: str
    stage: str = ""
    error: str = ""
    silent: tuple[int, ...] = ()
    told: tuple[int, ...] = ()
    samples: tuple[Sample, ...] = ()
    runs: int = 1
    failures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Aim:
    """What a diagnosis is for: its cards, the groups they may serve in, and what is known of them."""

    #: cards that may be tested, in order
    cards: tuple[int, ...]
    #: what the services ask for, to say which cards they are to get
    wants: tuple[Wanted, ...] = ()
    #: ``cards.groups``
    groups: tuple[tuple[int, ...], ...] = ()
    min_tp: int = 1
    #: groups that are formed before all else, disjoint; () for one of all cards
    first: tuple[tuple[int, ...], ...] = ()
    #: kind of link of pairs (low, high) as ``xpu-smi topo -m`` has it, such as XL or SYS
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    #: learned algorithm bandwidth in GB/s by size of group, then bytes
    baseline: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    #: pairs one after another, where concurrent pairs share links
    serial: bool = False
    #: a test counts as failed that fails ``needed`` times of ``tries``
    tries: int = 3
    needed: int = 2
    #: singles, pairs and the first groups whatever comes of those: what ``klops cards learn`` asks
    full: bool = False
    #: cards that are kept out already, by hand or by an earlier verdict: they aren't tested, and no group of
    #: theirs is whole
    bad: tuple[int, ...] = ()
    #: other cards, on which a service is ready: they prove driver, container and host
    serving: tuple[int, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """Those of ``cards`` that are tested, and that no service is to get whatever comes of it."""
        never = {card for want in self.wants for card in want.never}
        return tuple(card for card in self.cards if card in never)

    def without(self, cards: Collection[int]) -> Aim:
        """The same with these out beforehand, and no first group that one of them is in."""
        return replace(
            self,
            cards=tuple(card for card in self.cards if card not in cards),
            first=tuple(group for group in self.first if not set(group) & set(cards)),
            bad=(*self.bad, *cards),
        )

    def as_json(self) -> dict[str, Any]:
        """For :meth:`of`."""
        said = asdict(self)
        said["links"] = [[a, b, kind] for (a, b), kind in self.links.items()]
        return said

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Aim:
        """From what :meth:`as_json` gave, also after a way through JSON."""
        return cls(
            **{
                **said,
                "cards": tuple(said["cards"]),
                "wants": tuple(Wanted.of(want) for want in said["wants"]),
                "groups": tuple(map(tuple, said["groups"])),
                "first": tuple(map(tuple, said["first"])),
                "bad": tuple(said.get("bad", ())),
                "serving": tuple(said.get("serving", ())),
                "links": {(a, b): kind for a, b, kind in said["links"]},
                "baseline": {
                    int(size): {int(count): float(gbps) for count, gbps in of.items()}
                    for size, of in said["baseline"].items()
                },
            }
        )


@dataclass(frozen=True)
class CardVerdict:
    """What is to be thought of one card. ``evidence``: a few sentences, the strongest first."""

    verdict: str
    reason: str = ""
    evidence: tuple[str, ...] = ()
    action: str = "none"


@dataclass(frozen=True)
class PairVerdict:
    """One pair: ``status`` ok, slow, wrong, flaky, timeout, error, untested; bandwidth at the largest."""

    a: int
    b: int
    status: str
    #: algorithm bandwidth, 10^9 bytes a second; None where nothing was measured
    gbps: float | None = None
    us: float | None = None
    runs: int = 0
    failures: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the tests together say."""

    scope: str
    #: one sentence for people
    summary: str
    cards: Mapping[int, CardVerdict]
    pairs: tuple[PairVerdict, ...] = ()
    #: the first line of the error that all pairs share, for scope stack; of the first failure else
    error: str = ""
    #: what to look at or to set by hand, a few sentences; never done by klops itself
    hints: tuple[str, ...] = ()

    @property
    def excluded(self) -> tuple[int, ...]:
        """Cards that must not serve."""
        return tuple(sorted(card for card, one in self.cards.items() if one.verdict == FAIL))

    @property
    def bad_links(self) -> tuple[tuple[int, int], ...]:
        """Pairs of cards that must not serve together, of cards that may serve."""
        return tuple(
            (pair.a, pair.b)
            for pair in self.pairs
            if pair.status in (WRONG, FLAKY, TIMEOUT, ERROR) and not {pair.a, pair.b} & set(self.excluded)
        )


@dataclass(frozen=True)
class Diagnosis:
    """All of it: the verdict, and the cards that services are to have."""

    verdict: Verdict
    #: every test in the order in which they ended, runs of one merged
    outcomes: tuple[Outcome, ...] = ()
    #: cards of each service (of ``""`` where none is set) whose own group was proven; None: none can be had
    recommended: Mapping[str, tuple[int, ...]] | None = None
    #: whether the recommended groups each ran their own collective, with right values
    verified: bool = False
    #: why nothing is recommended, or why it is fewer cards than asked for
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Lists and objects, keys as the fields are called."""
        return asdict(self)
