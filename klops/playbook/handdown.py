"""What a play, a block or an import hands down to the tasks within it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.playbook.model import Item


@dataclass(frozen=True, eq=False)
class HandedDown:
    """Keywords as they hold for the tasks within; those in ``HANDED_DOWN`` are fields of ``Task``, too.

    Values are raw, as in a task. Two are equal only when they are the same object.
    """

    when: tuple[str, ...] = ()
    vars: Mapping[str, Any] = field(default_factory=dict)
    include_vars: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    environment: tuple[Any, ...] = ()
    become: Any = None
    become_user: Any = None
    ignore_errors: Any = False
    ignore_unreachable: Any = False
    check_mode: bool = False
    diff: bool | None = None
    no_log: bool = False
    run_once: bool = False
    throttle: int = 0
    any_errors_fatal: bool = False
    delegate_to: Any = None
    delegate_facts: bool = False
    #: the file of the play: what isn't beside a task's own file is looked for beside this one
    play_file: Path = Path()
    #: whether it is for handlers
    handlers: bool = False
    #: files of tasks that were read with this, by their resolved paths
    loaded: dict[Path, tuple[Item, ...]] = field(default_factory=dict, repr=False)

    def inside(self, own: Mapping[str, Any]) -> HandedDown:
        """What holds within something that has the keywords ``own`` itself, by Ansible's rules.

        Conditions and environments add up with the outer ones first, tags are united, of variables with one
        name the nearer wins, and anything else that is given replaces what was handed down.
        """
        joined = {
            "when": (*self.when, *own.get("when", ())),
            "environment": (*self.environment, *own.get("environment", ())),
            "tags": tuple(dict.fromkeys((*self.tags, *own.get("tags", ())))),
            "vars": {**self.vars, **own.get("vars", {})},
            "include_vars": {**self.include_vars, **own.get("include_vars", {})},
        }
        return replace(self, **{**own, **joined}, loaded={})

    def for_task(self) -> dict[str, Any]:
        """The fields that a task takes."""
        return {name: getattr(self, name) for name in HANDED_DOWN}


#: keywords that are handed down
HANDED_DOWN = tuple(f.name for f in fields(HandedDown) if f.name not in ("play_file", "handlers", "loaded"))
