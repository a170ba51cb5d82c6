"""A host with generations, as the agent tells of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from klops.actions.base import Plan, Seen, View
from klops.actions.own.generation.action import GenerationAction, GenerationParams
from klops.actions.own.rollback.action import RollbackAction, RollbackParams
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from tests.cases.harness import HERE, Case

BASE = Case.load(HERE / "_klops_host.yml")


def unit(digest: str = "d", paths: list[str] | None = None) -> dict[str, Any]:
    """A unit of a generation, as a listing has it."""
    known = {"cards": [0, 1], "tp": 2, "port": 8000, "model": "main", "start_timeout": 60, "stop_timeout": 5}
    return {**known, "digest": digest, "paths": [""] if paths is None else paths}


def standing(release: str | None = "a", **changes: Any) -> dict[str, Any]:
    """What stands, or stood."""
    now: dict[str, Any] = {"release": release, "commit": "c", "ref": "HEAD", "targets": [], "stack": {}}
    return {**now, "patches": {}, "units": {"main": unit()}, **changes}


def generation(
    number: int, release: str | None = "a", health: str = "good", **changes: Any
) -> dict[str, Any]:
    """One that was noted."""
    about = {"number": number, "health": health, "of": None, "time": 1.7e9, "author": "ops", "run": "r"}
    return {**about, "error": "", "there": True, **standing(release), **changes}


class World:
    """What the agent tells; ``units`` replaces keys of the unit ``main`` in its status."""

    def __init__(
        self, *known: Mapping[str, Any], now: Mapping[str, Any], original: Mapping[str, Any] = {}
    ) -> None:
        self.known = sorted(known, key=lambda one: -int(one["number"]))
        self.now = {"number": None, "good": False, **now}
        self.original = original
        self.main: dict[str, Any] = {"release": self.now["release"], "digest": "d"}
        self.settings: Settings = BASE.typed_settings
        self.answer: Any = None

    def replies(self) -> dict[str, Reply]:
        """Replies of the host."""
        given = {
            key: Reply(int(one.get("rc", 0)), str(one.get("stdout", "")).encode(), b"")
            if isinstance(one, Mapping)
            else Reply(0, str(one).encode())
            for key, one in BASE.given["replies"].items()
        }
        status = json.loads(given["agent.status"].text)
        status["units"]["main"].update(self.main)
        status["release"] = {"current": self.now["release"], "commit": None}
        given["agent.status"] = Reply(0, json.dumps(status).encode())
        listing = {"generations": self.known, "now": self.now, "original": self.original, "faults": []}
        given["agent.generations"] = Reply(0, json.dumps(self.answer or listing).encode())
        return given

    def view(self, *, check: bool = False, changed: Mapping[str, Any] | None = None) -> View:
        """The view of a task."""
        return View("h", self.settings, {}, str, check=check, run="run-1", changed=changed)

    def back(self, *, check: bool = False, **params: Any) -> Plan:
        """The plan of ``klops.rollback``."""
        return RollbackAction().plan(RollbackParams(**params), self.view(check=check), Seen(self.replies()))

    def note(self, *, check: bool = False, changed: Mapping[str, Any] | None = None) -> Plan:
        """The plan of ``klops.generation``, from what it reads: nothing, or all that the host says."""
        action, view = GenerationAction(), self.view(check=check, changed=changed)
        reads = action.probe(GenerationParams(), view).reads
        return action.plan(GenerationParams(), view, Seen(self.replies() if reads else {}))


def told(plan: Plan) -> list[str]:
    """All its steps in words."""
    return [step.change().what for step in plan.steps]
