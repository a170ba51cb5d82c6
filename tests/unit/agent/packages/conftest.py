"""A fresh environment for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.agent import running
from klops.agent.processes import subreaper
from tests.unit.agent.packages import wheels
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


@pytest.fixture
def stocked(with_uv: World) -> World:
    """alpha 1.0 is there before klops comes; wheels of alpha 2.0 and of beta."""
    for number in (1, 2):
        files = {
            "alpha/__init__.py": f"V = {number}\n",
            f"alpha/only{number}.py": "",
            "alpha/core.py": f"C = {number}\n",
        }
        wheels.wheel(with_uv.wheels, "alpha", f"{number}.0", files, scripts=[f"alpha{number} = alpha:main"])
        if number == 1:
            with_uv.put("alpha", "1.0", files)
    wheels.wheel(with_uv.wheels, "beta", "1.0", {"beta/__init__.py": ""})
    return with_uv
