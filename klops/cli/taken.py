"""Whether an option of a command goes anywhere in the playbook that it runs, which may be the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: Variable of an option -> the action whose parameter of that name it becomes.
_TAKEN_BY = {
    "recreate": "klops.container",
    "tp": "klops.services",
    "ref": "klops.source",
    "dirty": "klops.source",
    "to": "klops.rollback",
}


def require_uses(path: Path, variables: Iterable[str]) -> None:
    """Raise :class:`UsageError` for a playbook in which one of these options would go nowhere."""
    for variable in variables:
        if variable in _TAKEN_BY:
            _require_use(path, variable)


def _require_use(path: Path, variable: str) -> None:
    """What a file holds that is included while it runs isn't known yet: then it is left to its author."""
    from klops.actions.catalog import catalog
    from klops.actions.control import include_tasks
    from klops.errors import UsageError
    from klops.playbook.load.plays import load_playbook
    from klops.playbook.model import tasks_of

    action = _TAKEN_BY[variable]
    for play in load_playbook(path, catalog()).plays:
        for task in tasks_of((*play.pre_tasks, *play.tasks, *play.post_tasks, *play.handlers)):
            if task.action.name == include_tasks.NAME:
                return
            if task.action.name == action and variable in task.params:
                return
    raise UsageError(
        f"{path} has no use for --{variable}: no task of it gives {action} the parameter {variable}",
        hint=f'write {variable}: "{{{{ {variable} }}}}" there, and {variable}: null among the vars of the '
        "play",
    )
