"""A root of the test's own, and an interpreter with a folder of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent.releases import locating

from .world import World, tidy


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield World(tmp_path)
    tidy(tmp_path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of installed packages of an interpreter of the test's own."""
    # what the module venv makes, without its second of work
    venv, real = tmp_path / "venv", Path(sys.executable).resolve()
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(real)
    (venv / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    (venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages").mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(venv / "bin/python"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    locating.folders.cache_clear()
    folder = Path(locating.folders()[0])
    assert tmp_path in folder.parents  # nobody else's is written to
    yield folder
    locating.folders.cache_clear()
