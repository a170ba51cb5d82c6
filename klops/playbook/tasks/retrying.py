"""``until``, ``retries`` and ``delay``: a task that is tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from klops.errors import Interrupted, KlopsError, TaskFailed
from klops.playbook.model import Task
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks.conditions import failing
from klops.playbook.tasks.outcome import unknown
from klops.playbook.tasks.verdict import Seeing
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import Templar

#: seconds; a wait is cut into such pieces, for a long one can't be interrupted everywhere
_PIECE = 0.25
#: seconds that Ansible takes for a delay below 0
_LEAST = 1.0


def tries(task: Task, templar: Templar) -> int:
    """How often a task is tried at most: once, and as often again as ``retries`` says."""
    if task.retry is None:
        return 1
    return 1 + max(0, int(number("retries", task.retry.retries, templar)))


def until(
    task: Task,
    most: int,
    pause: float,
    once: Callable[[int], TaskResult],
    seeing: Seeing,
    again: Callable[[int], None],
    *,
    check: bool,
    cancelled: threading.Event,
) -> TaskResult:
    """The result of the last attempt (``once`` takes its number, from 1).

    ``again`` is called with the number of each further attempt, before ``pause`` seconds are waited. In check
    mode nothing is waited for: what would have to be is unknown. As in Ansible a task that never came to it
    registers one attempt less than there were.
    """
    assert task.retry is not None  # noqa: S101 - nothing is tried again otherwise
    conditions = task.retry.until
    for attempt in range(1, most + 1):
        result = once(attempt)
        if result.status in (Status.SKIPPED, Status.UNREACHABLE, Status.UNKNOWN):
            return result
        if check and result.tentative:
            return result
        try:
            missing = _missing(conditions, result, seeing)
        except NotKnown as error:
            return unknown(str(error))
        if not missing:
            return result
        if check:
            return unknown(f"it would be tried again, as this does not hold yet: {missing}")
        if attempt < most:
            again(attempt + 1)
            wait(pause, cancelled)
    return _given_up(numbered(result, most - 1), most, missing)


def wait(seconds: float, cancelled: threading.Event) -> None:
    """Let time pass. Raises :class:`Interrupted` as soon as the run is."""
    end = time.monotonic() + seconds
    while not cancelled.is_set():
        left = end - time.monotonic()
        if left <= 0:
            return
        cancelled.wait(min(left, _PIECE))
    raise Interrupted("interrupted")


def delay(task: Task, templar: Templar) -> float:
    """Seconds between two attempts."""
    assert task.retry is not None  # noqa: S101 - nothing is tried again otherwise
    seconds = number("delay", task.retry.delay, templar)
    return _LEAST if seconds < 0 else seconds


def _missing(conditions: tuple[str, ...], result: TaskResult, seeing: Seeing) -> str:
    """The condition that doesn't hold yet; without any the task has to succeed."""
    if conditions:
        return failing(conditions, seeing(result))
    return "it succeeds" if result.status is Status.FAILED else ""


def numbered(result: TaskResult, attempt: int) -> TaskResult:
    """The result with the number of the attempt among what is registered."""
    return replace(result, values={**result.values, "attempts": attempt})


def _given_up(result: TaskResult, most: int, missing: str) -> TaskResult:
    if result.status is Status.FAILED:
        return result
    text = f"after {most} attempts this does not hold: {missing}"
    error: KlopsError = TaskFailed(text, code="until")
    values = {**result.values, "failed": True}
    return replace(result, status=Status.FAILED, values=values, error=error, message=text)


def number(keyword: str, value: Any, templar: Templar) -> float:
    """A keyword that is a number, or a template of one. Raises :class:`TaskFailed`."""
    rendered = templar.render(value)
    if isinstance(rendered, (int, float, str)) and not isinstance(rendered, bool):
        try:
            return float(rendered)
        except ValueError:
            pass
    raise TaskFailed(f"{keyword} gave {rendered!r}, not a number", code="keyword")
