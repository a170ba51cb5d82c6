"""Every action there is, by the name a playbook uses.

A module is imported when its action is asked for: a play of three kinds of tasks pays for three modules, and
looking for a name (or for the nearest one to a misspelt one) for none.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from klops.actions.base import Action, registry

#: name in a playbook -> module of this package; those with Ansible's names and semantics
GENERIC = {
    "assert": "control.assert_",
    "blockinfile": "files.blockinfile",
    "command": "programs.command",
    "copy": "files.copy",
    "cron": "system.cron",
    "debug": "control.debug",
    "fail": "control.fail",
    "fetch": "files.fetch",
    "file": "files.file",
    "gather_facts": "facts.setup",
    "include_tasks": "control.include_tasks",
    "lineinfile": "files.lineinfile",
    "meta": "control.meta",
    "pause": "control.pause",
    "reboot": "programs.reboot",
    "script": "programs.script",
    "set_fact": "control.set_fact",
    "setup": "facts.setup",
    "shell": "programs.shell",
    "slurp": "files.slurp",
    "stat": "files.stat",
    "systemd": "system.systemd",
    "systemd_service": "system.systemd",
    "template": "files.template",
    "unarchive": "archive.unarchive",
    "uri": "net.uri",
    "wait_for": "net.wait_for",
}
#: klops' own
OWN = {
    "klops.agent": "own.agent",
    "klops.cards": "own.cards.action",
    "klops.container": "own.container.action",
    "klops.cron": "own.cron.action",
    "klops.generation": "own.generation.action",
    "klops.image": "own.image.action",
    "klops.patch": "own.patch.action",
    "klops.preflight": "own.preflight.action",
    "klops.reap": "own.reap.action",
    "klops.rollback": "own.rollback.action",
    "klops.services": "own.services.action",
    "klops.source": "own.source.action",
    "klops.stack": "own.stack.action",
    "klops.status": "own.status",
}


class Catalog(Mapping[str, Action[Any]]):
    """Actions by name; each module is imported once, when it is first needed."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._loaded: dict[str, Action[Any]] = {}

    def __getitem__(self, name: str) -> Action[Any]:
        if name not in self._loaded:
            self._loaded.update(registry(actions_of(self._modules[name])))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@functools.cache
def catalog() -> Catalog:
    """All actions by name."""
    return Catalog({**GENERIC, **OWN})


def actions_of(module: str) -> list[Action[Any]]:
    """The actions that a module of this package defines: each of its classes that is a whole action."""
    loaded = importlib.import_module(f"klops.actions.{module}")
    return [
        found()
        for found in vars(loaded).values()
        if inspect.isclass(found)
        and found.__module__ == loaded.__name__
        and issubclass(found, Action)
        and not inspect.isabstract(found)
    ]
