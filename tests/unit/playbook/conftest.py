"""A lab of fake hosts for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.playbook.support import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """One fake host, h1."""
    made = Lab(tmp_path)
    made.host("h1")
    return made
