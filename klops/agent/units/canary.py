"""When a server that seems idle is asked for a completion, and what its silence says. Pure.

vLLM sets its gauges with the results of a step. An engine that hangs in the first step after it was idle goes
on saying that nothing runs, though requests wait for it: so it was seen with workers that were stopped. Only
an answer tells. One token is asked for, and only while somebody is connected: who else could wait?
"""

from __future__ import annotations

#: Shares of the time after which a stall is called one: without movement until the first question; between
#: questions that are not answered; and until the next once it is known what the answer is.
_QUIET, _RETRY, _AGAIN = 0.5, 0.25, 2.5
#: Questions that at least have to be unanswered.
_LEAST = 2


class Canary:
    """The questions to one generation. Times are monotonic seconds; ``stall``: the setting stall_timeout."""

    def __init__(self) -> None:
        self._next: float | None = None
        self._since = 0.0
        self._unanswered = 0

    def saw(self, now: float, stall: float, idle: bool, moved: bool, answered: bool | None) -> None:
        """Take a check: what its counters say, and whether a question was answered; None: none was asked."""
        if answered is False and idle and not moved:
            self._since = self._since if self._unanswered else now
            self._unanswered += 1
            # each question is one request more for a server that hangs: few, once that is certain
            self._next = now + stall * (_AGAIN if self.silent(now, stall) else _RETRY)
        elif moved or answered or not idle or self._next is None:
            self._unanswered = 0
            self._next = now + stall * (_AGAIN if answered else _QUIET)

    def due(self, now: float) -> bool:
        """Whether to ask now."""
        return self._next is not None and now >= self._next

    @property
    def doubts(self) -> bool:
        """Whether the last question was not answered: then it is asked again, whoever is connected."""
        return self._unanswered > 0

    def silent(self, now: float, stall: float) -> float:
        """Seconds since the first question that wasn't answered, once they count as a stall; 0 before."""
        if self._unanswered < _LEAST or now - self._since < stall:
            return 0.0
        return now - self._since
