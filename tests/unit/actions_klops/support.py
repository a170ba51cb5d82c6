"""A context for steps, over a fake host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.actions.base import Action, Context, Plan, Progress, Seen, View
from klops.actions.catalog import catalog
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import FakeRemote

SETTINGS: dict[str, Any] = {
    "root": "/k",
    "container": {"image": "vllm:1", "volumes": ["/data/models:/models:ro"]},
    "services": {"main": {"model": "/models/qwen", "api_key": "made-up-key"}},
}


@dataclass
class Stage:
    """A fake host, and what was said while steps ran."""

    remote: FakeRemote = field(default_factory=lambda: FakeRemote("h"))
    settings: Settings = field(default_factory=lambda: Settings.model_validate(SETTINGS))
    progress: list[Progress] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def view(self) -> View:
        return View(host="h", settings=self.settings, variables={}, render=str)

    @property
    def ctx(self) -> Context:
        return Context(self.remote, self.view, self.progress.append, self.warnings.append)

    def action(self, name: str) -> Action[Any]:
        return catalog()[name]

    def plan(self, name: str, replies: dict[str, Reply], **params: Any) -> Plan:
        """The plan of an action for these replies."""
        action = self.action(name)
        return action.plan(action.params(**params), self.view, Seen(replies))

    def scripts(self, name: str, **params: Any) -> dict[str, str]:
        """The scripts of an action's reads by their keys."""
        action = self.action(name)
        reads = action.probe(action.params(**params), self.view).reads
        return {read.key: read.script for read in reads}


def whats(plan: Plan) -> Sequence[str]:
    """The plan's steps in one line each."""
    return [step.change().what for step in plan.steps]
