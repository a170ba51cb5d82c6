"""The lock of a host on its way: taken at once, or beside what a step begins with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Taking:
    """``take`` takes the lock, once. Whoever carries a plan out has one; a thread of its own may help."""

    def __init__(self, take: Callable[[], None]) -> None:
        self._take = take
        self._outcome: Future[None] | None = None

    def begin(self) -> None:
        """Have it taken beside what the caller does until it waits."""
        self._outcome = Future()
        threading.Thread(target=self._settle, args=(self._outcome,), name="lock", daemon=True).start()

    def wait(self) -> None:
        """Go on once it is taken. Raises what taking it raised."""
        if self._outcome is None:
            self._outcome = Future()
            self._settle(self._outcome)
        self._outcome.result()

    def held(self) -> bool:
        """Whether it was taken, now that nobody waits for it any more; a try under way ends first."""
        return self._outcome is not None and self._outcome.exception() is None

    def _settle(self, outcome: Future[None]) -> None:
        try:
            self._take()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)
