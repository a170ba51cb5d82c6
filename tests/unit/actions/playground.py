"""Single actions carried out for real on this machine, without the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.actions.base import Action, Context, Plan, Seen, View
from klops.actions.catalog import catalog
from klops.inventory.settings import Settings
from klops.playbook.params import validate
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import Templar, scope
from klops.remote.base import ReadOnlyRemote, Remote
from klops.remote.local import LocalRemote

ACTIONS: Mapping[str, Action[Any]] = catalog()


@dataclass
class Playground:
    """This machine as a host; ``folder`` is where files of the control node are looked for."""

    folder: Path
    remote: Remote = field(default_factory=lambda: LocalRemote("h1"))
    warned: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)

    def view(self, *, check: bool = False) -> View:
        """What plans see."""
        templar = Templar(scope(Layer({}, templates=True)))
        return View(
            "h1",
            Settings(),
            {},
            templar.text,
            check=check,
            environment=self.environment,
            find_local=lambda kind, path: self.folder / path,
        )

    def plan(self, name: str, params: Mapping[str, Any], *, check: bool = False) -> Plan:
        """Look, and plan. Raises what the plan raises."""
        action, view = ACTIONS[name], self.view(check=check)
        typed = validate(action, params)
        probe = action.probe(typed, view)
        replies = ReadOnlyRemote(self.remote).read(probe.reads)
        files = {key: (self.folder / path).read_bytes() for key, (_, path) in probe.files.items()}
        return action.plan(typed, view, Seen(replies, files))

    def do(self, name: str, /, **params: Any) -> dict[str, Any]:
        """Plan and apply; what would be registered, ``changed`` among it."""
        plan = self.plan(name, params)
        context = Context(self.remote, self.view(), lambda now: None, self.warned.append)
        added = ACTIONS[name].apply(plan, context) if plan.steps else {}
        return {**plan.result, **added, "changed": bool(plan.changes)}

    def settle(self, name: str, /, **params: Any) -> dict[str, Any]:
        """Do it: check mode foretells the change, and a second time there is nothing to do."""
        foretold = bool(self.plan(name, params, check=True).changes)
        values = self.do(name, **params)
        assert values["changed"] == foretold
        before = self.remote.commands_run
        again = self.do(name, **params)
        assert again["changed"] is False
        assert self.remote.commands_run == before + 1
        return values
