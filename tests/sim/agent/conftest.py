"""A real agent on a root of its own, for tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.sim.cards import make_nodes
from tests.sim.agent import site as sites
from tests.sim.agent.cards import Cards


@pytest.fixture
def site(tmp_path: Path) -> Iterator[sites.Site]:
    """A root with the agent installed; what was started there is ended afterwards."""
    yield from sites.site(tmp_path)


@pytest.fixture
def held(site: sites.Site) -> sites.Site:
    """The same, with launcher and supervisor running."""
    site.hold()
    site.supervisor()
    return site


@pytest.fixture
def cards(held: sites.Site) -> Cards:
    """Eight cards and an xpu-smi for the site."""
    return Cards(held)


@pytest.fixture
def nodes(site: sites.Site, tmp_path: Path) -> Path:
    """A folder with the nodes of cards that are the site's alone: xpu0 to xpu7, and xpuctrl."""
    if os.geteuid() != 0:
        pytest.skip("making device nodes needs root")
    folder = tmp_path / "nodes"
    make_nodes(folder, site.numbers, {})
    return folder
