"""What a playbook is once it is read: plays, blocks, tasks, and where each part stands in the file.

Everything here is static. Whatever a block, an import or a play hands down to its tasks (conditions, tags,
variables, ``become`` and so on) is already part of each task, so that a task can be run by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from klops.actions.base import Action
from klops.errors import Location
from klops.playbook.handdown import HandedDown
from klops.yamlsource import Node


@dataclass(frozen=True)
class LoopControl:
    """``loop_control``: ``pause`` in seconds; ``label`` is a raw template, None for the item itself."""

    loop_var: str = "item"
    index_var: str = ""
    label: Any = None
    pause: Any = 0
    extended: bool = False
    break_when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retry:
    """``until``: conditions (none: until the task doesn't fail); ``retries`` and ``delay`` (seconds) raw."""

    until: tuple[str, ...] = ()
    retries: Any = 3
    delay: Any = 5


@dataclass(frozen=True)
class Task:
    """One task, or one handler.

    Templates in parameters, ``loop``, ``vars``, ``environment``, ``delegate_to``, ``become``,
    ``become_user``, ``ignore_errors``, ``ignore_unreachable`` and the name are raw: they are rendered for
    each host.
    """

    name: str
    action: Action[Any]
    params: Mapping[str, Any]
    location: Location
    #: the file the task stands in: relative paths are looked for beside it first
    file: Path = Path()
    #: conditions, all of which must hold; those of the blocks around it come first
    when: tuple[str, ...] = ()
    vars: Mapping[str, Any] = field(default_factory=dict)
    #: variables that are data and no templates, stronger than ``vars``: of a loop over an include around it
    data: Mapping[str, Any] = field(default_factory=dict)
    #: variables of the ``include_tasks`` around it: they are stronger than what tasks registered or set
    include_vars: Mapping[str, Any] = field(default_factory=dict)
    #: a list, a template that gives one, or None for a task without a loop
    loop: Any = None
    loop_control: LoopControl = LoopControl()
    register: str = ""
    #: own tags and those of the blocks and the play around it
    tags: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    #: topics a handler listens to beside its name
    listen: tuple[str, ...] = ()
    check_mode: bool = False
    diff: bool | None = None
    no_log: bool = False
    retry: Retry | None = None
    ignore_errors: Any = False
    ignore_unreachable: Any = False
    #: conditions which, when all of them hold, make the task failed; None: as the module says
    failed_when: tuple[str, ...] | None = None
    #: conditions, all of which make the task changed; None: as the module says
    changed_when: tuple[str, ...] | None = None
    #: None: as the host's connection says
    become: Any = None
    become_user: Any = None
    #: mappings or templates of mappings, the outermost first
    environment: tuple[Any, ...] = ()
    delegate_to: Any = None
    delegate_facts: bool = False
    run_once: bool = False
    throttle: int = 0
    any_errors_fatal: bool = False
    #: of an ``include_tasks``: what it hands down to the tasks of the file, for ``loadlist.load_tasks``
    handed_down: HandedDown | None = None

    @property
    def assigns(self) -> frozenset[str]:
        """Names of variables that this task gives a value on the host."""
        facts = self.params if self.action.name == "set_fact" else ()
        return frozenset(filter(None, (self.register, *facts)))


@dataclass(frozen=True)
class Block:
    """``block`` with its ``rescue`` and ``always``; its keywords are already those of its tasks."""

    name: str
    location: Location
    block: tuple[Item, ...]
    rescue: tuple[Item, ...] = ()
    always: tuple[Item, ...] = ()


#: What a list of tasks is made of.
Item: TypeAlias = Task | Block


def tasks_of(items: Sequence[Item]) -> list[Task]:
    """All tasks in the order of the file, those of blocks, rescues and always sections included."""
    found: list[Task] = []
    for item in items:
        if isinstance(item, Task):
            found.append(item)
        else:
            found.extend(tasks_of((*item.block, *item.rescue, *item.always)))
    return found


@dataclass(frozen=True)
class VarsFile:
    """One entry of ``vars_files``: paths (raw) of which the first that is there is read."""

    paths: tuple[str, ...]
    location: Location


@dataclass(frozen=True)
class Play:
    """One play; ``hosts`` are patterns, which may hold templates of extra variables."""

    name: str
    hosts: tuple[str, ...]
    location: Location
    #: the file the play stands in; group_vars and host_vars beside it count
    file: Path = Path()
    #: its name among the plays of its file: a second one of the same name has a number
    kept_as: str = ""
    #: the same of all plays of its file
    siblings: tuple[str, ...] = ()
    #: variables with their places, so that a mistake in a setting among them is located
    vars: Mapping[str, Node] = field(default_factory=dict)
    vars_files: tuple[VarsFile, ...] = ()
    pre_tasks: tuple[Item, ...] = ()
    tasks: tuple[Item, ...] = ()
    post_tasks: tuple[Item, ...] = ()
    handlers: tuple[Task, ...] = ()
    #: None: as the host's connection says. Handed down to the tasks; kept for what the play itself does
    become: Any = None
    become_user: Any = None
    #: how many hosts at a time: numbers or percentages ("30%"), the last one repeated; empty: all at once.
    #: Raw, as is the next one, until a run renders them: :func:`klops.playbook.playvalues.resolved`
    serial: tuple[Any, ...] = ()
    #: percentage of failed hosts of a batch above which the play ends; None: never
    max_fail_percentage: Any = None
    any_errors_fatal: bool = False
    strategy: str = "linear"
    order: str = "inventory"
    force_handlers: bool = False

    @property
    def all_tasks(self) -> list[Task]:
        """Tasks of all sections in order, handlers left out."""
        return tasks_of((*self.pre_tasks, *self.tasks, *self.post_tasks))


@dataclass(frozen=True)
class Playbook:
    """A playbook file, with the plays of those it imports in their places."""

    path: Path
    plays: tuple[Play, ...]
