"""The stand-in xpu-smi is read by klops' own readers, and its memory column follows the holders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from klops.cards.evidence import topology
from klops.cards.smi.listing import parse_list
from klops.cards.smi.machine import parse_machine
from klops.cards.smi.query import Errors, Limit, parse_query
from klops.sim import cards, faults, xpu_smi
from tests.cardnumbers import card_numbers

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
#: No driver has this major number, so nobody has cards of these numbers open.
NOBODYS = cards.Numbers(511, 0)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's folder: cards.json, faults.json and bin/xpu-smi."""
    (tmp_path / "bin").mkdir()
    shutil.copy(xpu_smi.__file__, tmp_path / "bin" / "xpu-smi")
    describe(tmp_path, NOBODYS)
    set_faults(tmp_path)
    return tmp_path


def describe(host: Path, numbers: cards.Numbers) -> None:
    description = cards.describe("demo1", "salt", numbers, host / "faults.json")
    cards.write_description(host / "cards.json", description)


def set_faults(host: Path, *specs: str) -> None:
    (host / "faults.json").write_text(json.dumps(faults.parse(specs)))


def ask(host: Path, *argv: str) -> str:
    command = [sys.executable, "-IS", str(host / "bin" / "xpu-smi"), *argv]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_machine_rows_are_whole(host: Path) -> None:
    rows = parse_machine(ask(host, "-m"))
    assert [row.index for row in rows] == list(range(8))
    assert all(row.whole and row.memory_total == 98304 and row.memory_used == 0 for row in rows)
    assert len({row.serial for row in rows}) == 8


def test_index_and_minor_are_different_numbers(host: Path) -> None:
    report = parse_query(ask(host, "-q"))
    assert [card.minor for card in report.cards] == list(cards.MINORS)
    assert report.attached == 8
    assert len({card.uuid for card in report.cards}) == 8


def test_what_is_read_of_a_card_without_load_is_all_there(host: Path) -> None:
    for card in parse_query(ask(host, "-q")).cards:
        assert dict(card.firmware)["ALL"] == "1.0.2.6.1.39"
        assert (card.generation, card.width) == (Limit(4, 4), Limit(16, 16))
        assert (card.correctable, card.uncorrectable) == (Errors(0, 0), Errors(0, 0))
        assert (card.part, card.ecc_mode, card.temperature) == ("B00100300110211", "Enabled", 36)
    table = topology.parse(ask(host, "topo", "-m"))
    assert (table.findings, len(table.links)) == ((), 28)
    assert table.neighbours[2] == {0, 1, 3, 6}
    assert [line.index for line in parse_list(ask(host, "-L"))] == list(range(8))


def test_identities_stay_when_cards_are_renumbered(host: Path) -> None:
    before = parse_query(ask(host, "-q")).cards
    set_faults(host, "renumber")
    after = parse_query(ask(host, "-q")).cards
    assert [(c.uuid, c.serial, c.bdf) for c in before] == [(c.uuid, c.serial, c.bdf) for c in after]
    assert [c.minor for c in after] == list(cards.RENUMBERED)


def test_a_dead_card_is_no_longer_listed(host: Path) -> None:
    set_faults(host, "card=1:dead")
    assert [row.index for row in parse_machine(ask(host, "-m"))] == [0, 2, 3, 4, 5, 6, 7]
    assert ask(host, "-L").count("\n") == 7


def test_one_card_by_index_and_by_address(host: Path) -> None:
    by_index, by_address = ask(host, "-i", "3", "-q"), ask(host, "-q", "--id=00000000:66:00.0")
    assert parse_query(by_index).cards == parse_query(by_address).cards
    assert len(parse_query(by_index).cards) == 1


def test_what_it_does_not_know_it_refuses(host: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        ask(host, "-r")
    with pytest.raises(subprocess.CalledProcessError):
        ask(host, "-i", "8", "-q")


def test_topology_has_the_groups_of_four(host: Path) -> None:
    rows = [line.split() for line in ask(host, "topo", "-m").splitlines() if line.startswith("XPU")]
    assert rows[0][:5] == ["XPU0", "X", "XL", "XL", "XL"]
    assert rows[7][5:9] == ["XL", "XL", "XL", "X"]


@ROOT
def test_memory_follows_the_holder_by_device_number(host: Path) -> None:
    with card_numbers(host) as numbers:
        describe(host, numbers)
        cards.make_nodes(host / "dev", numbers, faults.parse([]))
        # index 1 has minor 2; another name for its node makes no difference
        (host / "renamed").symlink_to(host / "dev" / "xpu2")
        fd = os.open(host / "renamed", os.O_RDWR | os.O_NOCTTY)
        try:
            used = {row.index: row.memory_used for row in parse_machine(ask(host, "-m"))}
            report = parse_query(ask(host, "-q"))
        finally:
            os.close(fd)
        assert used == {n: xpu_smi.HELD_MIB if n == 1 else 0 for n in range(8)}
        assert report.cards[1].pids == (os.getpid(),)
        assert all(row.memory_used == 0 for row in parse_machine(ask(host, "-m")))


@ROOT
def test_faults_of_nodes(tmp_path: Path) -> None:
    numbers = cards.Numbers(4, 54)
    cards.make_nodes(tmp_path, numbers, faults.parse(["card=6:node-missing", "card=1:dead"]))
    missing, dead = tmp_path / f"xpu{cards.MINORS[6]}", tmp_path / f"xpu{cards.MINORS[1]}"
    assert not missing.exists()
    assert dead.is_char_device()
    with pytest.raises(OSError, match="No such device or address"):
        os.open(dead, os.O_RDWR | os.O_NOCTTY)
    cards.make_nodes(tmp_path, numbers, faults.parse([]))
    assert sorted(p.name for p in tmp_path.iterdir()) == [*(f"xpu{n}" for n in range(8)), "xpuctrl"]
    assert os.minor((tmp_path / "xpuctrl").stat().st_rdev) == 62
