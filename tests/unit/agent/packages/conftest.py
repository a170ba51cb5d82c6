"""A fresh environment for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.agent import running
from klops.agent.processes import subreaper
from tests.unit.agent.packages import world as worlds
from tests.unit.agent.packages.world import World


@pytest.fixture(autouse=True)
def _no_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a program would come to this process, whose other children it would end."""
    monkeypatch.setattr(subreaper, "become", lambda: None)
    monkeypatch.setattr(running, "end_children", lambda audit, why: None)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An environment without distributions and without uv."""
    return World(tmp_path, monkeypatch)


@pytest.fixture
def with_uv(world: World) -> World:
    """The same with the real uv."""
    if worlds.uv() is None:
        pytest.skip("there is no uv in this environment")
    world.have_uv()
    return world
