"""From plans and errors to results: of one turn, and of a task that is made of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Change, Plan
from klops.errors import HostUnreachable, KlopsError
from klops.playbook.results import Status, TaskResult

#: the status of several turns is the first of these that one of them has
_WEIGHT = (Status.UNREACHABLE, Status.FAILED, Status.UNKNOWN, Status.CHANGED, Status.OK, Status.SKIPPED)


@dataclass(frozen=True)
class Item:
    """One turn of a loop and what became of it."""

    item: Any
    result: TaskResult


def failed(error: KlopsError, warnings: Sequence[str] = (), changes: Sequence[Change] = ()) -> TaskResult:
    """The task ended with an error, after it had made ``changes``."""
    unreachable = isinstance(error, HostUnreachable)
    status = Status.UNREACHABLE if unreachable else Status.FAILED
    rc = {"rc": rc} if (rc := getattr(error, "rc", None)) is not None else {}
    values = {**_flags(status), **rc, "msg": error.message, "unreachable": unreachable}
    return TaskResult(status, tuple(changes), error.message, 0.0, values, error, tuple(warnings))


def skipped(condition: str) -> TaskResult:
    """A condition didn't hold."""
    why = f"the condition does not hold: {condition}"
    values = {**_flags(Status.SKIPPED), "skip_reason": why, "false_condition": condition}
    return TaskResult(Status.SKIPPED, message=why, values=values)


def unknown(reason: str) -> TaskResult:
    """What the task would do isn't known before something is applied."""
    return TaskResult(Status.UNKNOWN, message=reason)


def planned(
    plan: Plan,
    check: bool,
    warnings: Sequence[str] = (),
    added: Mapping[str, Any] | None = None,
    message: str | None = None,
) -> TaskResult:
    """A plan that was applied (``added``: what its steps gave), or that is only looked at (``check``)."""
    text = plan.message if message is None else message
    if plan.skipped:
        status, text = Status.SKIPPED, text or plan.skipped
    elif check and plan.unknown:
        status, text = Status.UNKNOWN, text or plan.unknown
    else:
        status = Status.CHANGED if plan.changes else Status.OK
    said = {"msg": text} if text else {}
    values = {**_flags(status), **said, **plan.result, **(added or {})}
    return TaskResult(status, plan.changes, text, values=values, warnings=tuple(warnings))


def merged(items: Sequence[Item], *, looped: bool) -> TaskResult:
    """The result of a task from that of its turns; a loop over nothing is skipped."""
    if not looped:
        return items[0].result
    if not items:
        return TaskResult(
            Status.SKIPPED, message="the loop is empty", values={**_flags(Status.SKIPPED), "results": []}
        )
    results = [turn.result for turn in items]
    status = min((result.status for result in results), key=_WEIGHT.index)
    telling = [turn for turn in items if turn.result.message and turn.result.status is status]
    message = "\n".join(f"{turn.item}: {turn.result.message}" for turn in telling)
    facts = {
        key: value for result in results for key, value in (result.values.get("ansible_facts") or {}).items()
    }
    values: dict[str, Any] = {
        **_flags(status),
        "results": [{**turn.result.values, "item": turn.item} for turn in items],
        **({"msg": message} if message else {}),
        **({"ansible_facts": facts} if facts else {}),
    }
    return TaskResult(
        status,
        changes=tuple(change for result in results for change in result.changes),
        message=message,
        values=values,
        error=next((result.error for result in results if result.error is not None), None),
        warnings=tuple(text for result in results for text in result.warnings),
    )


def _flags(status: Status) -> dict[str, bool]:
    return {
        "changed": status is Status.CHANGED,
        "failed": status in (Status.FAILED, Status.UNREACHABLE),
        "skipped": status is Status.SKIPPED,
    }
