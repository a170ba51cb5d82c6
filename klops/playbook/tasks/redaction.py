"""Second line against secrets: what leaves the engine goes through the redactor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from klops.actions.base import Change
from klops.errors import CommandFailed, HostUnreachable, KlopsError
from klops.playbook.results import TaskResult, TurnResult
from klops.playbook.template.pending import Pending
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
        items=tuple(_turn(turn, redactor) for turn in result.items),
    )


def hidden(result: TaskResult) -> TaskResult:
    """A result of a task with ``no_log``: what became of it, and nothing of what it was about."""
    error = result.error
    if isinstance(error, HostUnreachable):
        # what the task was about is no part of why the host can't be reached
        return replace(result, changes=(), values={}, warnings=(), items=())
    if error is not None:
        said = {"stdout": "", "stderr": ""} if isinstance(error, CommandFailed) else {}
        error = error.but(message=HIDDEN, hint="", values={}, **said)
    changes = tuple(Change(HIDDEN) for _ in result.changes)
    # a recap counts what a failed task has changed
    values = {"changed": True} if error is not None and result.values.get("changed") else {}
    message = HIDDEN if result.message else ""
    return replace(
        result, changes=changes, message=message, values=values, error=error, warnings=(), items=()
    )


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
    """A copy with its texts masked."""
    said = {}
    if isinstance(error, CommandFailed):
        said = {"stdout": redactor(error.stdout), "stderr": redactor(error.stderr)}
    return error.but(
        message=redactor(error.message),
        hint=redactor(error.hint),
        values=redacted_values(error.values, redactor),
        **said,
    )


def _turn(turn: TurnResult, redactor: Redactor) -> TurnResult:
    error = None if turn.error is None else redacted_error(turn.error, redactor)
    return replace(turn, label=redactor(turn.label), message=redactor(turn.message), error=error)


def _change(change: Change, redactor: Redactor) -> Change:
    before = None if change.before is None else redactor(change.before)
    after = None if change.after is None else redactor(change.after)
    return Change(redactor(change.what), before, after)
