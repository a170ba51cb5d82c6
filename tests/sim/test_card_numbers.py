"""Tests don't get each other's device numbers, not even those of one whose processes are still ending."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from klops.sim.cards import make_nodes
from tests.cardnumbers import card_numbers, held


@pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
def test_numbers_are_given_back_when_nobody_holds_them_any_more(tmp_path: Path) -> None:
    with card_numbers(tmp_path) as numbers:
        make_nodes(tmp_path / "dev", numbers, {})
        node = os.open(tmp_path / "dev" / "xpu3", os.O_RDWR | os.O_NOCTTY)
        holder = subprocess.Popen(["sleep", "1"], stdin=node)
        os.close(node)
        assert held(numbers) == [holder.pid]
    assert held(numbers) == []
    assert holder.wait(10) == 0
