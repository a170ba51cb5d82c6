"""What ``klops demo`` refuses, instead of doing something else than it was asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from klops.cli.demo import demo
from klops.errors import UsageError
from klops.sim import cards
from klops.sim import rehearsal as sim
from klops.sim.cards import Numbers
from klops.sim.layout import Rehearsal, RehearsalHost


def run(*argv: str) -> str:
    import typer

    app = typer.Typer()
    app.command()(demo)
    result = CliRunner().invoke(app, list(argv), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_stop_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no rehearsal"):
        run("--stop", str(tmp_path / "typo"))


@pytest.mark.parametrize("count", ["0", "200"])
def test_a_number_of_hosts_that_can_not_be_is_refused_first(tmp_path: Path, count: str) -> None:
    with pytest.raises(UsageError, match=f"{count} hosts can't be made") as raised:
        run("--keep", str(tmp_path / "r"), "--hosts", count)
    assert "from 1 to 20" in raised.value.hint
    assert not (tmp_path / "r").exists()


def test_a_running_rehearsal_keeps_its_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [
        RehearsalHost(f"demo{n}", tmp_path / f"demo{n}", transport, "127.0.0.1", "c", 18001, Numbers(4, 20))
        for n, transport in enumerate(("ssh", "local"), 1)
    ]
    running = Rehearsal(tmp_path, "made-up", hosts)
    set_to: list[object] = []
    monkeypatch.setattr(sim, "running", lambda _: running)
    monkeypatch.setattr(sim, "set_faults", lambda _, faults: set_to.append(faults))
    for wrong in (("--hosts", "3"), ("--transport", "local")):
        with pytest.raises(UsageError) as raised:
            run("--keep", str(tmp_path), "--fault", "card=1:dead", *wrong)
        assert "--stop" in raised.value.hint
    assert not set_to
    run("--keep", str(tmp_path), "--fault", "card=1:dead", "--hosts", "2", "--transport", "ssh,local")
    run("--keep", str(tmp_path))
    assert set_to == [["card=1:dead"], []]
    assert "klops up --recreate" in run("--keep", str(tmp_path), "--fault", "card=7:open-eperm")
    assert "--recreate" not in run("--keep", str(tmp_path), "--fault", "card=1:dead")


def test_blocks_of_numbers_are_given_out_once_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "CLAIMS", tmp_path / "claims")
    monkeypatch.setattr(cards, "held_numbers", tuple)  # those of tests beside this one
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    (there / "rehearsal.json").touch()
    given = [cards.claim(there) for _ in range(cards.MOST - 1)]
    assert len({(one.major, one.first) for one in given}) == cards.MOST - 1
    assert cards.free() == 1
    last = cards.claim(gone)
    assert (last.slot, cards.free()) == (cards.MOST - 1, 1), "one left by a crash counts as free"
    assert cards.claim(there) == last
    assert cards.free() == 0
    with pytest.raises(UsageError, match="all 20 rehearsal hosts"):
        cards.claim(there)
    cards.release(there)
    assert cards.free() == cards.MOST


def test_who_claims_numbers_at_the_same_moment_gets_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "CLAIMS", tmp_path / "claims")
    monkeypatch.setattr(cards, "held_numbers", tuple)  # those of tests beside this one
    folders = [tmp_path / str(number) for number in range(cards.MOST)]
    for folder in folders:
        folder.mkdir()
        (folder / "rehearsal.json").touch()
    together = threading.Barrier(cards.MOST)

    def claim(folder: Path) -> cards.Numbers:
        together.wait()
        return cards.claim(folder)

    with ThreadPoolExecutor(cards.MOST) as threads:
        for _ in range(10):  # two of them got the same in every other round, without a lock
            given = list(threads.map(claim, folders))
            assert len({(one.major, one.first) for one in given}) == cards.MOST
            assert cards.free() == 0
            list(threads.map(cards.release, folders))
            assert cards.free() == cards.MOST
