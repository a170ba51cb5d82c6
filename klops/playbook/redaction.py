"""Second line against secrets: what leaves the engine goes through the redactor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from klops.actions.base import Change
from klops.errors import CommandFailed, HostUnreachable, KlopsError
from klops.playbook.pending import Pending
from klops.playbook.results import TaskResult
from klops.secret import MASK, Redactor, Secret

E = TypeVar("E", bound=KlopsError)
HIDDEN = "details are hidden (no_log)"


def redacted(result: TaskResult, redactor: Redactor) -> TaskResult:
    """A result with known secrets masked in every text of it."""
    return replace(
        result,
        changes=tuple(_change(change, redactor) for change in result.changes),
        message=redactor(result.message),
        values=redacted_values(result.values, redactor),
        error=None if result.error is None else redacted_error(result.error, redactor),
        warnings=tuple(redactor(text) for text in result.warnings),
    )


def hidden(result: TaskResult) -> TaskResult:
    """A result of a task with ``no_log``: what became of it, and nothing of what it was about."""
    error = result.error
    if isinstance(error, HostUnreachable):
        # what the task was about is no part of why the host can't be reached
        return replace(result, changes=(), values={}, warnings=())
    if error is not None:
        error.message, error.hint, error.args = HIDDEN, "", (HIDDEN,)
        if isinstance(error, CommandFailed):
            error.stderr = ""
    changes = tuple(Change(HIDDEN) for _ in result.changes)
    message = HIDDEN if result.message else ""
    return replace(result, changes=changes, message=message, values={}, error=error, warnings=())


def redacted_values(value: Any, redactor: Redactor) -> Any:
    """``value`` with secrets masked in depth, keys included."""
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, (Secret, Pending)):
        return MASK if isinstance(value, Secret) else None
    if isinstance(value, Mapping):
        return {
            redacted_values(key, redactor): redacted_values(item, redactor) for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redacted_values(item, redactor) for item in value]
    return value


def redacted_error(error: E, redactor: Redactor) -> E:
    """The same error, its texts masked in place: whoever holds it shows no secret."""
    error.message = redactor(error.message)
    error.hint = redactor(error.hint)
    error.args = tuple(redactor(arg) if isinstance(arg, str) else arg for arg in error.args)
    if isinstance(error, CommandFailed):
        error.stderr = redactor(error.stderr)
    return error


def _change(change: Change, redactor: Redactor) -> Change:
    before = None if change.before is None else redactor(change.before)
    after = None if change.after is None else redactor(change.after)
    return Change(redactor(change.what), before, after)
