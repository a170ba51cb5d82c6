"""What came of one run of one test, from what its ranks have said. Pure."""

from __future__ import annotations

from statistics import median
from typing import Any, Mapping, NamedTuple, Sequence, Tuple

from klops.cards.xccl.judging.quotes import LOG
from klops.cards.xccl.results import CHECK, ERROR, OK, TIMEOUT, WRONG, Outcome, Sample

#: Share of the patience that a rank must have waited for its error to count as one of waiting: libraries
#: measure it in their own way.
_WAITED = 0.9


class Report(NamedTuple):
    """One rank's part."""

    card: int
    #: by bytes a rank: ``us`` of the measured rounds, numbers of those that were ``wrong`` or had a ``nan``
    sizes: Mapping[int, Mapping[str, Any]] = {}
    #: what it raised, or how it ended, "" for nothing
    error: str = ""
    stage: str = ""
    #: monotonic seconds at which it did, and seconds that it had waited by then in what failed
    at: float = 0.0
    waited: float = 0.0
    #: its process ended by itself
    died: bool = False
    #: it didn't answer in time
    silent: bool = False
    #: the last lines of its log
    log: str = ""


def outcome(reports: Sequence[Report], patience: float, seconds: float) -> Outcome:
    """Of one run. ``patience``: seconds that ranks wait for each other.

    A rank that is silent is what the others wait for, so it comes before what those say of it; one that died
    before what those say that it left alone.
    """
    cards = tuple(one.card for one in reports)
    silent = tuple(one.card for one in reports if one.silent)
    told = sorted(
        (one for one in reports if one.error and not one.silent), key=lambda one: (not one.died, one.at)
    )
    samples = _samples(reports)
    wrong = [sample for sample in samples if sample.wrong]
    status, stage, error = OK, "", ""
    if silent:
        first = next(one for one in reports if one.silent)
        status, stage = TIMEOUT, first.stage
        error = f"no answer within {patience:g} s" + _quoted(first)
        error += f"; a peer said: {told[0].error}" if told else ""
    elif told:
        status = TIMEOUT if told[0].waited >= _WAITED * patience else ERROR
        stage, error = told[0].stage, told[0].error + _quoted(told[0])
    elif wrong:
        status, stage, error = WRONG, CHECK, "; ".join(_said(one, reports) for one in wrong)
    return Outcome(
        cards=cards,
        status=status,
        stage=stage,
        error=error,
        silent=silent,
        told=tuple(one.card for one in told),
        samples=samples,
        runs=1,
        failures=int(status != OK),
        seconds=round(seconds, 3),
    )


def _quoted(report: Report) -> str:
    return f"{LOG}{report.log}" if report.log else ""


def _said(sample: Sample, reports: Sequence[Report]) -> str:
    seen = [one for one in reports if one.sizes[sample.bytes]["wrong"]]
    by = "all ranks" if len(seen) == len(reports) else f"card {', '.join(str(one.card) for one in seen)}"
    return f"wrong values at {sample.bytes} bytes in {sample.wrong} of {sample.rounds} rounds, seen by {by}"


def _samples(reports: Sequence[Report]) -> Tuple[Sample, ...]:
    """Of the sizes that every rank has done; each round took as long as its slowest rank."""
    sizes = [size for size in reports[0].sizes if all(size in one.sizes for one in reports)]
    found = []
    for size in sizes:
        parts = [one.sizes[size] for one in reports]
        count = min(len(part["us"]) for part in parts)
        rounds = [max(part["us"][turn] for part in parts) for turn in range(count)]
        middle = median(rounds) if rounds else 0.0
        found.append(
            Sample(
                bytes=size,
                rounds=len(rounds),
                wrong=_counted(parts, "wrong"),
                nan=_counted(parts, "nan"),
                us=round(middle, 1),
                spread_us=round(median([abs(one - middle) for one in rounds]), 1) if rounds else 0.0,
            )
        )
    return tuple(found)


def _counted(parts: Sequence[Mapping[str, Any]], what: str) -> int:
    """Measured rounds with such a value at any rank; warm-ups, which are below 0, alone count as one."""
    turns = {turn for part in parts for turn in part[what]}
    return len([turn for turn in turns if turn >= 0]) or min(1, len(turns))
