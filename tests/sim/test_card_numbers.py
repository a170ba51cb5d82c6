"""Tests don't get each other's device numbers, not even those of one whose processes are still ending."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from klops.sim import cards
from klops.sim.cards import make_nodes
from klops.sim.layout import STATE
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


@pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
def test_a_block_that_a_process_has_open_is_left_to_it(tmp_path: Path) -> None:
    """As one that a killed rehearsal has left, or a console that somebody works at."""
    (tmp_path / STATE).write_text("{}")
    left = cards.claim(tmp_path)
    make_nodes(tmp_path / "dev", left, {})
    with (tmp_path / "dev" / "xpuctrl").open("rb", buffering=0) as node:
        holder = subprocess.Popen(["sleep", "60"], stdin=node)
    try:
        cards.release(tmp_path)
        other = cards.claim(tmp_path)
        assert (other.major, other.first) != (left.major, left.first)
    finally:
        holder.kill()
        holder.wait()
        cards.release(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
def test_a_console_that_is_there_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is that of a card of another host, which would be seen held at that moment."""
    numbers = cards.Numbers(7, 64 + 20)
    make_nodes(tmp_path, numbers, {})
    opened: list[object] = []
    really = os.open

    def noted(path: str, flags: int, mode: int = 0o777) -> int:
        opened.append(path)
        return really(path, flags, mode)

    monkeypatch.setattr(os, "open", noted)
    make_nodes(tmp_path, numbers, {})
    assert opened == []
    os.close(os.open(tmp_path / "xpu0", os.O_RDONLY | os.O_NOCTTY))  # and the card is there
