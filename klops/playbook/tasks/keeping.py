"""What stays of a task when it has run: variables, facts, and handlers that are to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klops.playbook.model import Task
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks import facts
from klops.playbook.tasks.host import Host
from klops.playbook.template.pending import Pending


def reason(task: Task) -> str:
    """Why something of a task's result isn't known in check mode."""
    return f"the result of {task.name!r} only shows when it is applied"


def value_of(task: Task, result: TaskResult, caught: bool = False) -> Any:
    """What ``register`` gets; in check mode only what is certain of it can be asked for.

    ``caught``: a rescue takes care of a failure of the task.
    """
    if not result.tentative:
        return dict(result.values)
    # of a loop's turns, and of how often something is tried, nothing is certain
    unsure = {"results", "attempts"}
    if result.status is Status.UNKNOWN:
        # that it doesn't fail is certain only where a failure would end the play on this host
        goes_on = task.ignore_errors or caught
        unsure |= {"changed", "failed"} if goes_on else {"changed"}
    known = {name: value for name, value in result.values.items() if name not in unsure}
    return Pending(known, reason(task))


def keep_facts(task: Task, values: Mapping[str, Any], host: Host) -> None:
    """Variables of ``set_fact`` and facts of a module; of a loop each turn's are there for the next one."""
    found = values.get("ansible_facts")
    if not isinstance(found, Mapping):
        return
    if task.action.name == "set_fact":
        host.data.update(found)
    else:
        facts.merge(host, found)


def register(task: Task, result: TaskResult, host: Host, caught: bool = False) -> None:
    """Give the variables of a task their values; ``caught`` as for :func:`value_of`."""
    if result.status is Status.UNKNOWN:
        unset = task.assigns - {task.register}
        host.data.update({name: Pending({}, reason(task)) for name in unset})
    if task.register:
        host.data[task.register] = value_of(task, result, caught)


def notify(task: Task, result: TaskResult, host: Host, names: Iterable[str]) -> None:
    """Take down which handlers and topics, by their rendered names, a task notified."""
    if result.status is Status.CHANGED:
        host.notified.update(dict.fromkeys(names, ""))
    elif result.status is Status.UNKNOWN:
        for name in names:
            host.notified.setdefault(name, f"runs only if {task.name!r} changes something")
