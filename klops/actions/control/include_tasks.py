"""``include_tasks``: tasks of a file whose name may only be known while the play runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klops.actions.base import Action, Params, Plan, Probe, Seen, View

NAME = "include_tasks"


class IncludeTasksParams(Params):
    """``file``; ``apply`` are keywords for the included tasks, which get them when the file is read."""

    file: str
    apply: Mapping[str, Any] | None = None


class IncludeTasks(Action[IncludeTasksParams]):
    """Name the file; the engine reads it and runs its tasks in the place of this one."""

    name = NAME
    params = IncludeTasksParams
    free_form = "file"

    def probe(self, params: IncludeTasksParams, view: View) -> Probe:
        """Nothing to read on the host."""
        return Probe()

    def plan(self, params: IncludeTasksParams, view: View, seen: Seen) -> Plan:
        """No steps; ``include`` of the result is the file as it is named."""
        return Plan(result={"include": params.file})
