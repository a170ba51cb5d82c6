"""Every action there is, by the name a playbook uses. Imported late: a ``--help`` needs none of them."""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

from klops.actions.base import Action, registry

#: modules that hold one generic playbook module each, with Ansible's names and semantics
GENERIC = (
    "assert_",
    "command",
    "copy",
    "debug",
    "fail",
    "file",
    "set_fact",
    "template",
    "uri",
    "wait_for",
)
#: modules of klops' own actions
OWN = ("preflight", "agent", "container", "services", "status")


@functools.cache
def catalog() -> dict[str, Action[Any]]:
    """All actions by name."""
    return registry([action for module in (*GENERIC, *OWN) for action in actions_of(module)])


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
