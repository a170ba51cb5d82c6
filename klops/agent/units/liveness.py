"""Whether the generation that runs is live: its checks, put together with what /metrics said at each of them.

Startup, ready and live are three things. A start has a long deadline of its own (``start_timeout``); ready is
a model that is listed and has completed something; live is that requests progress, or that there are none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from klops.agent.units import memory, progress, unit
from klops.agent.units.canary import Canary
from klops.agent.units.memory import Memory
from klops.agent.units.progress import Counters, Track, Verdict
from klops.agent.units.unit import Check

#: Name of the problem in klops' own list: the sampler fell back to the CPU, and a step takes seconds.
P1 = "P1"
#: Looks at the cards, in a row, by which they count as idle: between two steps they rest for a moment.
_LOOKS = 3


class Liveness:
    """What is known of one generation."""

    def __init__(self, asked: Memory) -> None:
        self._cards = _Cards(asked)
        self._track: Track | None = None
        self._newest: Counters | None = None
        self._verdict = Verdict(progress.UNKNOWN)
        self._canary = Canary()
        self._p1 = False
        #: what is wrong, in words; "" when nothing is
        self.trouble = ""
        #: the newest check has shown that it stalls, or has problem P1, or no longer
        self.turned = False
        self._told = (False, False)

    def judge(self, check: Check, now: float, stall: float, spec: Mapping[str, Any]) -> Check:
        """Take a check that ended; returned as it is, or as one of a server that stalls.

        A check that went badly says nothing of requests; a completion that came back says that they progress.
        """
        if check.smoked:
            self._track = None
        before = self._newest
        self._track, self._verdict = progress.judge(self._track, check.counters, now, stall)
        if check.counters is not None:
            idle = self._verdict.kind == progress.IDLE
            moved = before is None or check.counters.moved_from(before)
            self._canary.saw(now, stall, idle, moved, check.answered)
            self._newest = check.counters
            silent = self._canary.silent(now, stall)
            if silent:
                self._verdict = Verdict(progress.STALLED, silent)
        # xpu-smi is asked only when it matters: it opens every card
        stalled = self._verdict.kind == progress.STALLED
        cards = None
        if stalled or self._verdict.slow:
            cards = self._cards.look(spec, now)
        else:
            self._cards.forget()
        self.trouble = progress.describe(self._verdict, self._newest, cards)
        self._p1 = progress.is_p1(self._verdict, cards)
        found = (stalled, self._p1)
        self.turned = self._verdict.kind != progress.UNKNOWN and found != self._told
        if self.turned:
            self._told = found
        if check.kind != unit.OK:
            return check
        if stalled:
            return replace(check, kind=unit.STALLED, message=self.trouble)
        check, said = replace(check, live=self._verdict.live), self.trouble
        if check.unmeasured:
            said = f"whether requests progress isn't known: {check.unmeasured}"
        return replace(check, message=f"{check.message}; {said}") if said else check

    def asks(self, now: float) -> tuple[bool, bool]:
        """Whether the next check has to ask for a completion, as it may seem idle wrongly; and to insist."""
        return self._canary.due(now), self._canary.doubts

    def shown(self, kind: str) -> dict[str, Any]:
        """The part of ``health`` that ``status`` shows; ``kind`` is the newest check's.

        ``live`` is null where it can't be told: a check that had no answer in time says nothing of requests.
        """
        live = False if kind == unit.LOST else self._verdict.live
        return {"live": live, "progress": self._verdict.kind, "problem": P1 if self._p1 else None}


def unchecked(message: str = "") -> dict[str, Any]:
    """``health`` of a unit at which nobody has looked, and why."""
    return {
        "ok": None,
        "checked": None,
        "message": message,
        "live": None,
        "progress": progress.UNKNOWN,
        "problem": None,
    }


class _Cards:
    """How busy the cards of a unit are, over the last looks."""

    def __init__(self, asked: Memory) -> None:
        self._asked = asked
        self._since: float | None = None
        self._looks: list[list[int]] = []

    def look(self, spec: Mapping[str, Any], now: float) -> list[int] | None:
        """The most that each was seen at, in percent; None while that isn't known."""
        self._since = now if self._since is None else self._since
        answer = self._asked.ask(str(spec.get("smi") or ""), self._since)
        if not answer.undecided:
            self._since = None
            uses = answer.uses or {}
            busy = [uses[bdf].busy for bdf in memory.indexes(spec) if bdf in uses]
            known = [one for one in busy if one is not None]
            whole = known and len(known) == len(spec["cards"])
            self._looks = [*self._looks, known][-_LOOKS:] if whole else []
        if len(self._looks) < _LOOKS:
            return None
        return [max(look[card] for look in self._looks) for card in range(len(spec["cards"]))]

    def forget(self) -> None:
        """What was seen doesn't count for the next time."""
        self._since, self._looks = None, []
