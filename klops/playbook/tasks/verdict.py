"""What a task itself says of its result: ``changed_when``, ``failed_when``, ``ignore_errors``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from klops.errors import KlopsError, TaskFailed
from klops.playbook.model import Task
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks.carrying import of_the_module
from klops.playbook.tasks.conditions import failing
from klops.playbook.tasks.outcome import unknown
from klops.playbook.tasks.place import flag
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import Templar

#: a templar that sees a result under the name that the task registers
Seeing = Callable[[TaskResult], Templar]
_JUDGED = (Status.OK, Status.CHANGED, Status.FAILED)


def judged(task: Task, result: TaskResult, seeing: Seeing) -> TaskResult:
    """The result by the task's own conditions, ``changed_when`` first.

    As in Ansible they have no say when the host was unreachable or nothing ran. In check mode a condition
    that needs what isn't known yet makes the result unknown.
    """
    conditions = (task.changed_when, task.failed_when)
    if not any(conditions) or result.status not in _JUDGED or not _may_be_judged(result):
        return result
    try:
        if task.changed_when:
            result = _changed(task, task.changed_when, result, seeing)
        if task.failed_when and "changed_when_result" not in result.values:
            result = _failed(task, task.failed_when, result, seeing)
    except NotKnown as error:
        return unknown(str(error))
    return result


def _changed(task: Task, conditions: Sequence[str], result: TaskResult, seeing: Seeing) -> TaskResult:
    try:
        changed = not failing(conditions, seeing(result))
    except KlopsError as error:
        return _broken("changed_when", result, error, task)
    status = result.status
    if status is not Status.FAILED:
        status = Status.CHANGED if changed else Status.OK
    # what is said to be no change is not listed as one either
    changes = result.changes if changed or status is Status.FAILED else ()
    return replace(result, status=status, changes=changes, values={**result.values, "changed": changed})


def _failed(task: Task, conditions: Sequence[str], result: TaskResult, seeing: Seeing) -> TaskResult:
    try:
        fails = not failing(conditions, seeing(result))
    except KlopsError as error:
        return _broken("failed_when", result, error, task)
    values = {**result.values, "failed": fails, "failed_when_result": fails}
    if not fails:
        # what it had done before it failed counts, unless the task says otherwise
        changed = bool(values.get("changed") or (result.changes and not task.changed_when))
        values["changed"] = changed
        status = Status.CHANGED if changed else Status.OK
        return replace(result, status=status, values=values, error=None)
    failure = result.error or TaskFailed(
        f"failed_when holds: {' and '.join(conditions)}",
        hint=result.message and f"the task said: {result.message}",
        code="failed-when",
    )
    return replace(result, status=Status.FAILED, values=values, error=failure, message=failure.message)


def _broken(keyword: str, result: TaskResult, error: KlopsError, task: Task) -> TaskResult:
    """A condition that is none: as in Ansible the task has failed, and what it gave is registered."""
    error = error.but(message=f"{task.location}: {keyword}: {error.message}")
    values = {**result.values, "failed": True, f"{keyword}_result": error.message}
    return replace(result, status=Status.FAILED, values=values, error=error, message=error.message)


def _may_be_judged(result: TaskResult) -> bool:
    return result.error is None or of_the_module(result.error)


def forgiven(task: Task, result: TaskResult, templar: Templar) -> TaskResult:
    """The result with ``ignored`` set, if the task goes on for all that. Raises :class:`TaskFailed`."""
    if result.status is Status.FAILED and _may_be_judged(result):
        ignored = flag("ignore_errors", task.ignore_errors, templar)
    elif result.status is Status.UNREACHABLE:
        ignored = flag("ignore_unreachable", task.ignore_unreachable, templar)
    else:
        return result
    return replace(result, ignored=True) if ignored else result


def without_diff(task: Task, result: TaskResult) -> TaskResult:
    """``diff: false`` on a task: what it changes is told, the texts are not."""
    if task.diff is not False:
        return result
    return replace(
        result, changes=tuple(replace(change, before=None, after=None) for change in result.changes)
    )
