"""Which plays, hosts and tasks a run is about; what ``--list-hosts`` and ``--list-tasks`` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from klops.errors import UsageError
from klops.playbook.model import Item, Play, Playbook, Task, tasks_of
from klops.playbook.options import RunOptions
from klops.playbook.plays.batches import ordered
from klops.playbook.plays.tags import SPECIAL, pruned
from klops.playbook.playvalues import resolved
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import Templar, scope
from klops.yamlsource import Node, nearest, to_python

if TYPE_CHECKING:
    from klops.inventory import Inventory


Sections = tuple[tuple[Item, ...], ...]


@dataclass(frozen=True)
class PlaySelection:
    """A play with the hosts and tasks of it that a run is about."""

    play: Play
    hosts: tuple[str, ...]
    #: ``pre_tasks``, ``tasks`` and ``post_tasks``
    sections: Sections

    @property
    def tasks(self) -> list[Task]:
        """All tasks in the order of the file, those that only run after a failure included."""
        return tasks_of([item for section in self.sections for item in section])


def select(playbook: Playbook, inventory: Inventory, options: RunOptions) -> list[PlaySelection]:
    """The plays of a run. Raises :class:`UsageError` for a host, task or limit that isn't there."""
    _check_tags(playbook, (*options.tags, *options.skip_tags))
    limited = None if options.limit is None else set(inventory.limited(",".join(options.limit)))
    sections = _after_start([_tagged(play, options) for play in playbook.plays], options.start_at_task)
    plays: list[PlaySelection] = []
    for play, own in zip(playbook.plays, sections, strict=True):
        templar = _templar(play, options.extra_vars)
        play = resolved(play, templar.render)
        try:
            hosts = inventory.select(_patterns(play, templar))
        except UsageError as error:
            text = f"{play.location}: {error.message}"
            raise UsageError(text, hint=error.hint, code=error.code) from error
        kept = [host for host in hosts if limited is None or host in limited]
        plays.append(PlaySelection(play, tuple(ordered(kept, play.order)), own))
    if limited is not None and not any(play.hosts for play in plays):
        patterns = sorted({pattern for play in playbook.plays for pattern in play.hosts})
        text = f"no play of {playbook.path} is about {', '.join(options.limit or ())}"
        raise UsageError(text, hint=f"its hosts: {', '.join(patterns)}")
    return plays


def _check_tags(playbook: Playbook, asked: Sequence[str]) -> None:
    """Refuse a tag that no task has: a run that does nothing by mistake looks as one that is done.

    An included file whose name isn't known yet may have any.
    """
    tasks = [task for play in playbook.plays for task in _with_included((*play.all_tasks, *play.handlers))]
    if any(task.handed_down is not None and not task.handed_down.loaded for task in tasks):
        return
    known = sorted({tag for task in tasks for tag in task.tags})
    for tag in asked:
        if tag not in known and tag not in SPECIAL:
            near = nearest(tag, known)
            listed = f"its tags: {', '.join(known)}" if known else f"{playbook.path} has no tags"
            hint = f"did you mean {near}?" if near else listed
            raise UsageError(f"no task of {playbook.path} has the tag {tag!r}", hint=hint)


def _with_included(tasks: Sequence[Task]) -> list[Task]:
    """Tasks, and those of the included files that were read with the playbook."""
    found: list[Task] = []
    left = list(reversed(tasks))
    read: set[int] = set()
    while left:
        task = left.pop()
        found.append(task)
        if task.handed_down is not None and id(task.handed_down) not in read:
            read.add(id(task.handed_down))
            for items in task.handed_down.loaded.values():
                left.extend(tasks_of(items))
    return found


def _tagged(play: Play, options: RunOptions) -> Sections:
    sections = (play.pre_tasks, play.tasks, play.post_tasks)
    return tuple(pruned(items, options.tags, options.skip_tags) for items in sections)


def _after_start(plays: list[Sections], start: str | None) -> list[Sections]:
    """Tasks from the first one called ``start`` (a name, or a pattern with * and ?), but for a rescue's."""
    if start is None:
        return plays
    for number, sections in enumerate(plays):
        for place, items in enumerate(sections):
            rest = _from(items, start)
            if rest is not None:
                first = (*[()] * place, rest, *sections[place + 1 :])
                return [*[((), (), ())] * number, first, *plays[number + 1 :]]
    names = [task.name for sections in plays for items in sections for task in tasks_of(items)]
    near = nearest(start, names)
    hint = f"did you mean {near!r}?" if near else "--list-tasks shows them"
    if start in names:
        hint = "it stands in a rescue, which nothing leads to at the start"
    raise UsageError(f"no task is called {start!r}", hint=hint)


def _from(items: Sequence[Item], start: str) -> tuple[Item, ...] | None:
    """What is left of a list of tasks from the one called ``start``; None when it isn't there."""
    for place, item in enumerate(items):
        rest = tuple(items[place + 1 :])
        if isinstance(item, Task):
            if item.name == start or fnmatchcase(item.name, start):
                return (item, *rest)
        elif (block := _from(item.block, start)) is not None:
            return (replace(item, block=block), *rest)
        elif (always := _from(item.always, start)) is not None:
            return (replace(item, block=(), rescue=(), always=always), *rest)
    return None


def _templar(play: Play, extra: Mapping[str, Any]) -> Templar:
    """Renders with ``-e`` variables and the play's own."""
    own = {name: to_python(node) for name, node in play.vars.items()}
    return Templar(scope(Layer(plain(extra), templates=True), Layer(own, templates=True)))


def _patterns(play: Play, templar: Templar) -> Sequence[str]:
    """Host patterns, rendered."""
    found: list[str] = []
    for pattern in play.hosts:
        value = templar.render(pattern)
        found.extend(str(item) for item in (value if isinstance(value, list) else [value]))
    return found


def plain(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables as plain values, whether they come as such or as located nodes."""
    return {name: to_python(value) if isinstance(value, Node) else value for name, value in variables.items()}
