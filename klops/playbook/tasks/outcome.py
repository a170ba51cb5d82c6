"""From plans and errors to results: of one turn, and of a task that is made of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.actions.base import Change, Plan
from klops.errors import CommandFailed, HostUnreachable, KlopsError
from klops.playbook.results import Status, TaskResult, TurnResult

#: the status of several turns is the first of these that one of them has
_WEIGHT = (Status.UNREACHABLE, Status.FAILED, Status.UNKNOWN, Status.CHANGED, Status.OK, Status.SKIPPED)


@dataclass
class Done:
    """What a task has changed on its host and warned of so far, and how often it carried something out."""

    changes: list[Change] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    times: int = 0


@dataclass(frozen=True)
class Item:
    """One turn of a loop and what became of it; ``label`` is what is shown for it."""

    label: Any
    variables: Mapping[str, Any]
    result: TaskResult


def failed(
    error: KlopsError,
    warnings: Sequence[str] = (),
    changes: Sequence[Change] = (),
    planned: Mapping[str, Any] | None = None,
) -> TaskResult:
    """The task ended with an error, after it had made ``changes``; ``planned`` is the result of its plan."""
    unreachable = isinstance(error, HostUnreachable)
    status = Status.UNREACHABLE if unreachable else Status.FAILED
    lost = {"unreachable": True} if unreachable else {}
    values = {**(planned or {}), **flags(status), "msg": error.message, **lost, **_said(error)}
    return TaskResult(status, tuple(changes), error.message, 0.0, values, error, tuple(warnings))


def _said(error: KlopsError) -> Mapping[str, Any]:
    """What the error has to say for itself: a program that failed registers what it said all the same."""
    if error.values or not isinstance(error, CommandFailed):
        return error.values
    # as in Ansible the newlines at the end are dropped
    out, err = error.stdout.rstrip("\r\n"), error.stderr.rstrip("\r\n")
    return {
        "rc": error.rc,
        "stdout": out,
        "stdout_lines": out.splitlines(),
        "stderr": err,
        "stderr_lines": err.splitlines(),
    }


def skipped(condition: str) -> TaskResult:
    """A condition didn't hold."""
    values = {
        **flags(Status.SKIPPED),
        "skip_reason": "Conditional result was False",
        # a plain false in YAML registers as it was written
        "false_condition": False if condition == "false" else condition,
    }
    return TaskResult(Status.SKIPPED, message=f"the condition does not hold: {condition}", values=values)


def unknown(reason: str) -> TaskResult:
    """What the task would do isn't known before something is applied."""
    return TaskResult(Status.UNKNOWN, message=reason, tentative=True)


def planned(
    plan: Plan,
    check: bool,
    warnings: Sequence[str] = (),
    added: Mapping[str, Any] | None = None,
    message: str | None = None,
    made: Sequence[Change] = (),
) -> TaskResult:
    """A plan that was applied (``added``: what its steps gave), or that is only looked at (``check``).

    Steps whose effect only shows afterwards have added whether something was ``changed``: then what they have
    ``made`` counts, and not what was planned; or a ``skip_reason``, where there was nothing to do after all.
    """
    text = plan.message if message is None else message
    changes = plan.changes
    if plan.skipped:
        status, text = Status.SKIPPED, text or plan.skipped
    elif check and plan.unknown:
        status, text = Status.UNKNOWN, text or plan.unknown
    elif added and isinstance(added.get("skip_reason"), str):
        status, text, changes = Status.SKIPPED, added["skip_reason"], ()
    else:
        told = added.get("changed") if added else None
        if isinstance(told, bool):
            changes = (tuple(made) or changes) if told else ()
        status = Status.CHANGED if changes else Status.OK
    said = {"msg": text} if text else {}
    values = {**flags(status), **said, **plan.result, **(added or {})}
    tentative = check and (plan.foreseen or status in (Status.CHANGED, Status.UNKNOWN))
    return TaskResult(status, changes, text, values=values, warnings=tuple(warnings), tentative=tentative)


def merged(items: Sequence[Item], *, looped: bool) -> TaskResult:
    """The result of a task from that of its turns; a loop over nothing is skipped."""
    if not looped:
        return items[0].result
    if not items:
        empty = {"results": [], "skipped_reason": "No items in the list"}
        return TaskResult(
            Status.SKIPPED, message="the loop is empty", values={**flags(Status.SKIPPED), **empty}
        )
    results = [turn.result for turn in items]
    places = {result.place for result in results}
    status = min((result.status for result in results), key=_WEIGHT.index)
    telling = [turn for turn in items if turn.result.message and turn.result.status is status]
    values: dict[str, Any] = {
        **flags(status),
        "changed": any(result.values.get("changed") for result in results),
        "results": [{**turn.result.values, **turn.variables} for turn in items],
        "msg": _summary(status),
    }
    return TaskResult(
        status,
        changes=tuple(change for result in results for change in result.changes),
        message="\n".join(f"{turn.label}: {turn.result.message}" for turn in telling),
        values=values,
        error=next((result.error for result in results if result.error is not None), None),
        warnings=tuple(text for result in results for text in result.warnings),
        tentative=any(result.tentative for result in results),
        place=places.pop() if len(places) == 1 else "",
        items=tuple(map(_shown, items)),
    )


def _shown(turn: Item) -> TurnResult:
    result = turn.result
    return TurnResult(str(turn.label), result.status, result.message, result.error, result.place)


def _summary(status: Status) -> str:
    """What Ansible registers as ``msg`` of a loop."""
    if status in (Status.FAILED, Status.UNREACHABLE):
        return "One or more items failed"
    return "All items skipped" if status is Status.SKIPPED else "All items completed"


def flags(status: Status) -> dict[str, bool]:
    """What every result registers; as in Ansible an unreachable host has not ``failed``.

    Only what was skipped says anything of that: ``r.skipped is defined`` is asked for it.
    """
    found = {"changed": status is Status.CHANGED, "failed": status is Status.FAILED}
    return {**found, "skipped": True} if status is Status.SKIPPED else found
