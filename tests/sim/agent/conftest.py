"""A real agent on a root of its own, for tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.agent import site as sites


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
