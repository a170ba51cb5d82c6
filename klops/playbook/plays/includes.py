"""The tasks that an ``include_tasks`` leads to on a host, once its file is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.errors import SourceErrors, TaskFailed
from klops.playbook.load.lists import load_tasks
from klops.playbook.model import Block, Item, Task
from klops.playbook.plays.tags import pruned
from klops.playbook.results import Status, TaskResult

#: files that may include one another; more than that is a circle without an end
DEPTH = 50


@dataclass(frozen=True)
class Includes:
    """Reads included files; ``only`` and ``skip`` are the run's tags."""

    registry: Mapping[str, Action[Any]]
    only: Sequence[str]
    skip: Sequence[str]

    def open(self, task: Task, result: TaskResult, depth: int) -> tuple[tuple[Item, ...], ...]:
        """The lists of tasks of an include that ran with ``result``, one for each turn that was not skipped.

        Raises :class:`TaskFailed` with all mistakes of a file that can't be read.
        """
        if depth >= DEPTH:
            raise TaskFailed(f"{task.location}: files that include one another, {DEPTH} deep", code="source")
        if task.loop is None:
            return (self._items(task, result.values, {}),)
        turns = [turn for turn in result.values.get("results", ()) if not turn.get("skipped")]
        return tuple(self._items(task, turn, _of_turn(task, turn)) for turn in turns)

    def _items(self, task: Task, values: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[Item, ...]:
        try:
            items = load_tasks(Path(str(values["include"])), self.registry, task)
        except SourceErrors as error:
            raise TaskFailed("\n".join(map(str, error.mistakes)), code=error.code) from error
        return _with(pruned(items, self.only, self.skip), {**task.data, **data})


def has_tasks(task: Task, result: TaskResult) -> bool:
    """Whether a result is of an include that is to be followed."""
    return task.handed_down is not None and result.status in (Status.OK, Status.CHANGED)


def _of_turn(task: Task, turn: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of one turn of the loop, as they are in its result."""
    control = task.loop_control
    names = (control.loop_var, control.index_var, "ansible_loop", "ansible_loop_var", "ansible_index_var")
    return {name: turn[name] for name in names if name in turn}


def _with(items: tuple[Item, ...], data: Mapping[str, Any]) -> tuple[Item, ...]:
    """The same tasks with these variables."""
    if not data:
        return items
    return tuple(
        replace(item, data={**item.data, **data})
        if isinstance(item, Task)
        else Block(
            item.name,
            item.location,
            _with(item.block, data),
            _with(item.rescue, data),
            _with(item.always, data),
        )
        for item in items
    )
