"""A root as the agent's verbs leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from klops.agent import store
from klops.agent.generations import verb
from klops.agent.units import unit
from klops.agent.units.unit import Record
from tests.unit.agent.test_launches import spec_of


class Root:
    """Lays down what is noted of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = store.Paths(str(folder))
        self.paths.make()
        #: as a status has them
        self.units: dict[str, Any] = {}

    def release(self, name: str) -> None:
        """Lay a release down, and make it current."""
        (self.folder / "releases" / name).mkdir(parents=True, exist_ok=True)
        about = {"commit": f"commit of {name}", "ref": "main"}
        (self.folder / "releases" / f"{name}.json").write_text(json.dumps({"about": about}) + "\n")
        new = self.folder / "releases" / "new"
        new.symlink_to(name)
        new.replace(self.folder / "releases" / "current")

    def unit(self, name: str = "llm", desired: str = unit.RUNNING, **changes: Any) -> None:
        """Write down a unit."""
        spec = {**spec_of(Path("/dev")), "name": name, **changes}
        store.write_json(self.paths.spec(name), spec)
        store.write_json(self.paths.state(name), Record(name, desired=desired).dump())

    def stack(self, distributions: dict[str, Any], original: dict[str, Any]) -> None:
        """Write down what was done to the packages."""
        (self.folder / "stack").mkdir(exist_ok=True)
        path = str(self.folder / "stack" / "stack.json")
        store.write_json(path, {"saved": {}, "distributions": distributions, "original": original})

    def note(self, health: str = "good", **more: Any) -> dict[str, Any]:
        """Note what stands."""
        told = {"health": health, "author": "ops@desk", "run": "r1", "error": "", **more}
        return verb.note(str(self.folder), json.dumps(told), lambda: self.units)

    def listed(self) -> dict[str, Any]:
        """The listing."""
        return verb.listed(str(self.folder))
