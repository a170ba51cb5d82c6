"""Which plays, hosts and tasks a run is about; what ``--list-hosts`` and ``--list-tasks`` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from klops.errors import UsageError
from klops.playbook.model import Play, Playbook, Task
from klops.playbook.options import RunOptions
from klops.playbook.scope import Layer
from klops.playbook.tags import SPECIAL, selected
from klops.playbook.template import Templar, scope
from klops.yamlsource import Node, nearest, to_python

if TYPE_CHECKING:
    from klops.inventory import Inventory


@dataclass(frozen=True)
class PlaySelection:
    """A play with the hosts and tasks of it that a run is about."""

    play: Play
    hosts: tuple[str, ...]
    tasks: tuple[Task, ...]


def select(playbook: Playbook, inventory: Inventory, options: RunOptions) -> list[PlaySelection]:
    """The plays of a run. Raises :class:`UsageError` for a host, task or limit that isn't there."""
    _check_tags(playbook, (*options.tags, *options.skip_tags))
    limited = None if options.limit is None else set(inventory.select(["all"], ",".join(options.limit)))
    tasks = _after_start([_tagged(play, options) for play in playbook.plays], options.start_at_task)
    plays: list[PlaySelection] = []
    for play, own in zip(playbook.plays, tasks, strict=True):
        hosts = inventory.select(_patterns(play, options.extra_vars))
        kept = tuple(host for host in hosts if limited is None or host in limited)
        plays.append(PlaySelection(play, kept, own))
    if limited is not None and not any(play.hosts for play in plays):
        patterns = sorted({pattern for play in playbook.plays for pattern in play.hosts})
        text = f"no play of {playbook.path} is about {', '.join(options.limit or ())}"
        raise UsageError(text, hint=f"its hosts: {', '.join(patterns)}")
    return plays


def _check_tags(playbook: Playbook, asked: Sequence[str]) -> None:
    """Refuse a tag that no task has: a run that does nothing by mistake looks as one that is done."""
    tasks = [task for play in playbook.plays for task in (*play.tasks, *play.handlers)]
    known = sorted({tag for task in tasks for tag in task.tags})
    for tag in asked:
        if tag not in known and tag not in SPECIAL:
            near = nearest(tag, known)
            listed = f"its tags: {', '.join(known)}" if known else f"{playbook.path} has no tags"
            hint = f"did you mean {near}?" if near else listed
            raise UsageError(f"no task of {playbook.path} has the tag {tag!r}", hint=hint)


def _tagged(play: Play, options: RunOptions) -> tuple[Task, ...]:
    return tuple(task for task in play.tasks if selected(task.tags, options.tags, options.skip_tags))


def _after_start(plays: list[tuple[Task, ...]], start: str | None) -> list[tuple[Task, ...]]:
    """Tasks from the first one called ``start`` (a name, or a pattern with * and ?)."""
    if start is None:
        return plays
    for number, tasks in enumerate(plays):
        for place, task in enumerate(tasks):
            if task.name == start or fnmatchcase(task.name, start):
                return [*[()] * number, tasks[place:], *plays[number + 1 :]]
    near = nearest(start, [task.name for tasks in plays for task in tasks])
    hint = f"did you mean {near!r}?" if near else "--list-tasks shows them"
    raise UsageError(f"no task is called {start!r}", hint=hint)


def _patterns(play: Play, extra: Mapping[str, Any]) -> Sequence[str]:
    """Host patterns, with ``-e`` variables and the play's own in them."""
    own = {name: to_python(node) for name, node in play.vars.items()}
    templar = Templar(scope(Layer(plain(extra), templates=True), Layer(own, templates=True)))
    found: list[str] = []
    for pattern in play.hosts:
        value = templar.render(pattern)
        found.extend(str(item) for item in (value if isinstance(value, list) else [value]))
    return found


def plain(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables as plain values, whether they come as such or as located nodes."""
    return {name: to_python(value) if isinstance(value, Node) else value for name, value in variables.items()}
