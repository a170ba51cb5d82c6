"""Carries actions out on this machine without an engine: probe, read, plan, apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.actions.base import Action, Context, Plan, Progress, Seen, View
from klops.actions.catalog import catalog
from klops.inventory.settings import Settings
from klops.playbook.params import validate
from klops.remote.base import ReadOnlyRemote, Remote
from klops.remote.local import LocalRemote


def action(name: str) -> Action[Any]:
    """The action of that name."""
    return catalog()[name]


@dataclass
class Carrier:
    """This machine as a host, and ``files`` as the control node's folder."""

    files: Path
    remote: Remote = field(default_factory=lambda: LocalRemote("h1"))
    environment: Mapping[str, str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    verbosity: int = 0

    @property
    def view(self) -> View:
        """What a plan may know."""
        return View(
            "h1",
            Settings(),
            {"playbook_dir": str(self.files)},
            str,
            environment=self.environment,
            verbosity=self.verbosity,
            find_local=lambda kind, path: self.files / path,
        )

    def plan(self, name: str, **given: Any) -> Plan:
        """What the action would do; nothing can be written meanwhile."""
        params = validate(action(name), given)
        probe = action(name).probe(params, self.view)
        replies = ReadOnlyRemote(self.remote).read(probe.reads)
        files = {key: (self.files / path).read_bytes() for key, (_, path) in probe.files.items()}
        return action(name).plan(params, self.view, Seen(replies, files))

    def run(self, name: str, **given: Any) -> dict[str, Any]:
        """What the task registers, as far as the action says; a planned failure is raised."""
        plan = self.plan(name, **given)
        if plan.failure is not None:
            raise plan.failure
        context = Context(self.remote, self.view, self.progress.append, self.warned.append)
        added = action(name).apply(plan, context)
        return {"changed": bool(plan.changes), **plan.result, **added}
