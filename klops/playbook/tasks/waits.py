"""Which tasks can't be looked at yet because an earlier task's result goes into them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence, Set
from typing import Any

from klops.playbook import params
from klops.playbook.model import Task
from klops.playbook.template.scope import Scope
from klops.playbook.template.templar import names


def mentioned(task: Task) -> frozenset[str]:
    """Names of variables that a task's conditions, loop, variables and parameters mention themselves."""
    return _mentioned(_ById(task))


def needed(task: Task, variables: Scope) -> frozenset[str]:
    """As :func:`mentioned`, and through the templates that those variables are made of."""
    found: set[str] = set()
    left = list(mentioned(task))
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        left.extend(names(variables.template_of(name)))
    return frozenset(found)


def renderable(tasks: Sequence[Task], variables: Scope, assigned: Set[str]) -> Iterator[Task]:
    """Those of ``tasks`` that need nothing which ``assigned`` names or a task before them assigns."""
    waiting_for = set(assigned)
    for task in tasks:
        if not waiting_for & needed(task, variables):
            yield task
        waiting_for |= task.assigns


class _ById:
    """A task as a key by identity: its parameters are no hashable values."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task

    def __hash__(self) -> int:
        return id(self.task)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.task is self.task


@functools.lru_cache(maxsize=4096)
def _mentioned(key: _ById) -> frozenset[str]:
    task = key.task
    known = params.fields(task.action)
    found: set[str] = set(names(list(task.when), expression=True))
    raw = (task.loop, task.vars, task.include_vars, task.delegate_to, task.become, task.become_user)
    for value in (*raw, *task.environment):
        found |= names(value)
    for name, value in task.params.items():
        found |= (
            names(_texts(value), expression=True) if params.is_expression(known.get(name)) else names(value)
        )
    return frozenset(found)


def _texts(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, list) else str(value)
