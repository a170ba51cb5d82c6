"""Whether requests of a server progress, told from the counters of its /metrics. Pure.

``/health`` of vLLM only says that no part has died. The counters say whether anything is done: tokens, ended
requests, and what the scheduler sets at each of its steps, the share of the KV cache in use among them. That
share is what moves while a long prompt is read in chunks: its tokens are counted only at the end.

An engine that hangs while they say that it is idle is found by :mod:`klops.agent.units.canary`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence, Tuple

IDLE = "idle"
MOVING = "moving"
STALLED = "stalled"
UNKNOWN = "unknown"

#: Gauges of what is to be done. ``swapped`` is of vLLM before 0.10.
_RUNNING = "num_requests_running"
_WAITING = ("num_requests_waiting", "num_requests_swapped")
_GENERATED = "generation_tokens"
#: What moves when something is done, beside the above. Names differ by version; one that is missing is 0.
_MARKS = (
    "prompt_tokens",
    "request_success",
    "num_preemptions",
    "prefix_cache_queries",
    "kv_cache_usage_perc",
    "gpu_cache_usage_perc",
)
_WANTED = frozenset((_RUNNING, *_WAITING, _GENERATED, *_MARKS))
#: Seconds over which the pace of the tokens is taken.
PACE_WINDOW = 60.0
#: Seconds a token of one request takes at least for the pace to be called slow: P1 was seen with 4.89,
#: whole large models with 0.02 to 0.2.
SLOW_TOKEN = 2.0
#: Percent of utilisation up to which a card is idle: a driver's own rounding, and xpu-smi that asks.
IDLE_CARD = 5


class Counters(NamedTuple):
    """One reading, summed over engines and labels: requests that run and wait, tokens generated, the rest."""

    running: float
    waiting: float
    generated: float
    #: of the other metrics, in the order of their names here
    marks: tuple[float, ...] = ()

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return self.running + self.waiting > 0

    def moved_from(self, earlier: Counters) -> bool:
        """Whether anything was done in between. A request more is none: one can be taken by a dead engine."""
        return (self.generated, self.marks) != (earlier.generated, earlier.marks)


def read(text: str) -> Counters | None:
    """Counters out of the text format of Prometheus; None if it isn't vLLM's, or can't be told from it.

    A name may begin with ``vllm:`` or ``vllm_`` and end with ``_total``; labels may hold anything.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith(("vllm:", "vllm_")):
            continue
        head, brace, rest = line.partition("{")
        name, _, value = (head + rest.rpartition("}")[2]).partition(" ") if brace else line.partition(" ")
        name = name[len("vllm:") :]
        name = name[: -len("_total")] if name.endswith("_total") else name
        if name not in _WANTED:
            continue
        try:
            number = float(value.split()[0])
        except (ValueError, IndexError):
            return None
        if not math.isfinite(number):
            return None
        found[name] = found.get(name, 0.0) + number
    if _RUNNING not in found or _GENERATED not in found:
        return None
    return Counters(
        running=found[_RUNNING],
        waiting=sum(found.get(name, 0.0) for name in _WAITING),
        generated=found[_GENERATED],
        marks=tuple(found.get(name, 0.0) for name in _MARKS),
    )


class Track(NamedTuple):
    """What was seen up to now. ``since``: monotonic seconds of the first busy reading with the newest values.

    ``known``: it has been seen to be idle, or to move, since the first reading. ``recent``: time, running
    requests and tokens generated of the readings of :data:`PACE_WINDOW`, since there was something to do.
    """

    newest: Counters
    since: float
    known: bool
    recent: tuple[tuple[float, float, float], ...] = ()


class Verdict(NamedTuple):
    """``kind``; for how many ``seconds`` nothing has moved; and what a token takes one request, in seconds.

    ``token`` is None when too little was seen to tell.
    """

    kind: str
    seconds: float = 0.0
    token: float | None = None

    @property
    def live(self) -> bool | None:
        """Whether requests progress, or there are none; None: not known."""
        return None if self.kind == UNKNOWN else self.kind != STALLED

    @property
    def slow(self) -> bool:
        """Whether tokens come so slowly that something must be wrong, or the engine reads long prompts."""
        return self.token is not None and self.token >= SLOW_TOKEN


def judge(
    track: Track | None, newest: Counters | None, now: float, stall: float
) -> tuple[Track | None, Verdict]:
    """Take a reading (None: it could not be had) at ``now``; ``stall``: seconds without any movement.

    One that could not be had changes nothing: a request that came to its end in between has left its tokens
    in the counters, so that equal values before and after it mean that nothing moved.
    """
    if newest is None:
        return track, Verdict(UNKNOWN)
    if not newest.busy:
        return Track(newest, now, known=True), Verdict(IDLE)
    if track is None:
        return Track(newest, now, known=False, recent=_with((), newest, now)), Verdict(UNKNOWN)
    # a stall that is over says nothing of the pace since
    recent = _with(track.recent if now - track.since < stall else (), newest, now)
    if newest.moved_from(track.newest):
        return Track(newest, now, known=True, recent=recent), Verdict(MOVING, 0.0, _token(recent))
    if not track.newest.busy:
        track = track._replace(since=now)  # what waits now may have come just now
    quiet = now - track.since
    track = track._replace(newest=newest, recent=recent)
    if quiet >= stall:
        return track, Verdict(STALLED, quiet)
    return track, Verdict(MOVING if track.known else UNKNOWN, quiet, _token(recent))


_Readings = Tuple[Tuple[float, float, float], ...]


def _with(recent: _Readings, newest: Counters, now: float) -> _Readings:
    """The readings with one more, without those that the window no longer needs."""
    kept = [*recent, (now, newest.running, newest.generated)]
    while len(kept) > 2 and kept[1][0] <= now - PACE_WINDOW:
        del kept[0]
    return tuple(kept)


def _token(recent: _Readings) -> float | None:
    """Seconds a token takes one request: the time that requests ran, all together, by the tokens made."""
    if len(recent) < 2 or recent[-1][0] - recent[0][0] < PACE_WINDOW:
        return None
    ran = 0.0
    for number in range(1, len(recent)):
        (began, before, _), (ended, after, _) = recent[number - 1 : number + 1]
        ran += (ended - began) * min(before, after)
    made = recent[-1][2] - recent[0][2]
    return ran / made if made > 0 else None


def is_p1(verdict: Verdict, cards: Sequence[int] | None) -> bool:
    """Whether this is problem P1: decoding stands or crawls while the cards, by their utilisation, idle."""
    return bool(cards) and max(cards or ()) <= IDLE_CARD and (verdict.kind == STALLED or verdict.slow)


def describe(verdict: Verdict, newest: Counters | None, cards: Sequence[int] | None) -> str:
    """What is wrong, for people; "" when nothing is. ``cards``: utilisation in percent, None: not known."""
    if verdict.kind == STALLED and newest is not None and not newest.busy:
        what = f"no completion is answered since {verdict.seconds:.0f} s, though it says that no request runs"
    elif verdict.kind == STALLED and newest is not None:
        what = (
            f"no request progresses: {newest.running:g} running and {newest.waiting:g} waiting, and nothing"
            f" in /metrics has moved for {verdict.seconds:.0f} s"
        )
    elif verdict.slow and cards is not None and is_p1(verdict, cards):
        # with cards at work, or when that isn't known, it may as well be reading long prompts
        what = f"a token takes a request {verdict.token:.1f} s"
    else:
        return ""
    if cards is None:
        return f"{what}; whether its cards work meanwhile isn't known"
    shown = f"its cards are at {'/'.join(f'{one}' for one in cards)} %"
    if is_p1(verdict, cards):
        return f"{what} while {shown}: problem P1, decoding has fallen back to the CPU or hangs"
    return f"{what}; {shown}"
