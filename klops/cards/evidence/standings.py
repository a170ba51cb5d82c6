"""What findings without load come to: which cards may be tested, and which are in doubt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from klops.cards.evidence import findings as severities
from klops.cards.evidence.findings import Finding
from klops.cards.xccl.results import DEGRADED, FAIL, PASS, UNKNOWN

USABLE, UNTESTABLE, SUSPICIOUS = "usable", "untestable", "suspicious"

#: Kind of the finding that which card an index means, or which node that has, isn't known.
UNIDENTIFIED = "unidentified"
#: Kinds of findings about a card that a test of it can't be had against: it isn't known which node to open,
#: it isn't there, it can't be reached from the container, or somebody works on it.
BLOCKING = (
    UNIDENTIFIED,
    *("absent", "node-missing", "node-type", "not-inside", "access-lost", "driver-refuses"),
    *("in-use", "held", "memory-unexplained"),
)
_ORDER = (severities.FAIL, severities.DEGRADED, severities.UNKNOWN, severities.NOTE)
_VERDICTS = {severities.FAIL: FAIL, severities.DEGRADED: DEGRADED, severities.UNKNOWN: UNKNOWN}
#: A broken card may have every counter in order.
_CLEAN = "nothing speaks against it; not tested under load"


@dataclass(frozen=True)
class Standing:
    """Of one card: whether it may be tested, and what is to be thought of it until then.

    ``state``: ``untestable`` cards are no part of a diagnosis, ``suspicious`` ones are. ``verdict`` is one of
    :mod:`klops.cards.xccl.results`; ``evidence``: the texts of the findings, the gravest first.
    """

    state: str
    verdict: str
    reason: str
    evidence: tuple[str, ...] = ()
    action: str = "none"


def standings(cards: Iterable[int], findings: Sequence[Finding]) -> dict[int, Standing]:
    """The standing of each card.

    What hinders a test decides before what makes a card suspicious: of a card that is in use nothing else is
    said but that, so that it is never called broken for what its user does.
    """
    found = {}
    for card in cards:
        own = sorted((f for f in findings if f.card == card), key=lambda one: _ORDER.index(one.severity))
        blocking = [one for one in own if one.kind in BLOCKING]
        against = [one for one in own if one.severity != severities.NOTE]
        state = UNTESTABLE if blocking else SUSPICIOUS if against else USABLE
        gravest = next(iter(blocking or against), None)
        found[card] = Standing(
            state,
            PASS if gravest is None else _VERDICTS[gravest.severity],
            _CLEAN if gravest is None else gravest.text,
            tuple(one.text for one in own),
            "none" if gravest is None else gravest.action,
        )
    return found
