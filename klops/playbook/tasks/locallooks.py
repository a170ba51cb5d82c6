"""Looks at the control node, each carried out once for all hosts of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from klops.errors import KlopsError

if TYPE_CHECKING:
    from klops.actions.base import LocalLook


class LocalLooks:
    """The answers of one run so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[LocalLook, Future[object]] = {}

    def begin(self, look: LocalLook) -> None:
        """Have a look carried out beside what its asker does until then, unless it is known or under way."""
        answer, mine = self._of(look)
        if mine:
            threading.Thread(target=_carry_out, args=(look, answer), name=look.what).start()

    def answer(self, look: LocalLook, waits: Callable[[], None] = lambda: None) -> object:
        """What a look gives, or gave: who asks while it is under way waits for it.

        ``waits`` is called before, where there is no answer yet. Raises what the look raised, for each who
        asks.
        """
        answer, mine = self._of(look)
        if mine:
            _carry_out(look, answer, waits)
        elif not answer.done():
            waits()
        try:
            return answer.result()
        except KlopsError as error:
            # each host tells it with its own task: one exception can't be raised in several threads at once
            raise error.but() from error.__cause__

    def _of(self, look: LocalLook) -> tuple[Future[object], bool]:
        """Where its answer will be, and whether it is for the caller to find it."""
        with self._lock:
            known = self._answers.get(look)
            answer: Future[object] = Future() if known is None else known
            self._answers[look] = answer
        return answer, known is None


def _carry_out(look: LocalLook, answer: Future[object], waits: Callable[[], None] = lambda: None) -> None:
    try:
        waits()
        answer.set_result(look.look())
    except BaseException as error:
        answer.set_exception(error)
