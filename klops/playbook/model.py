"""What a playbook is once it is read: plays, tasks, and where each part stands in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.errors import Location
from klops.yamlsource import Node


@dataclass(frozen=True)
class Task:
    """One task. Parameters, ``loop`` and ``vars`` are raw: templates in them are rendered for each host."""

    name: str
    action: Action[Any]
    params: Mapping[str, Any]
    location: Location
    #: conditions, all of which must hold
    when: tuple[str, ...] = ()
    vars: Mapping[str, Any] = field(default_factory=dict)
    #: a list, a template that gives one, or None for a task without a loop
    loop: Any = None
    register: str = ""
    #: own tags and the play's
    tags: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    check_mode: bool = False
    no_log: bool = False

    @property
    def assigns(self) -> frozenset[str]:
        """Names of variables that this task gives a value on the host."""
        facts = self.params if self.action.name == "set_fact" else ()
        return frozenset(filter(None, (self.register, *facts)))


@dataclass(frozen=True)
class Play:
    """One play; ``hosts`` are patterns, which may hold templates of extra variables."""

    name: str
    hosts: tuple[str, ...]
    location: Location
    #: variables with their places, so that a mistake in a setting among them is located
    vars: Mapping[str, Node] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    handlers: tuple[Task, ...] = ()
    #: None: as the host's connection says
    become: bool | None = None


@dataclass(frozen=True)
class Playbook:
    """A playbook file."""

    path: Path
    plays: tuple[Play, ...]
