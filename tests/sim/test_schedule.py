"""A rehearsal and the cron of the machine that it is on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from klops.commands import schedule
from klops.sim import rehearsal, vllms
from klops.sim.cards import Numbers
from klops.sim.layout import Rehearsal, RehearsalHost, inventory_text

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="rehearsals need root")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """One of which nothing but its folder was made."""
    monkeypatch.setattr(schedule, "FOLDER", str(tmp_path / "cron.d"))
    (tmp_path / "cron.d").mkdir()
    directory = tmp_path / "rehearsal"
    directory.mkdir()
    folder = directory / "hosts" / "demo1"
    host = RehearsalHost("demo1", folder, "local", "127.0.0.1", "c", 18001, Numbers(4, 16))
    return Rehearsal(directory, "abc", [host])


def test_klops_up_leaves_the_cron_of_this_machine_alone(made: Rehearsal) -> None:
    wanted = YAML(typ="safe").load(inventory_text(made, vllms.standin(), []))
    host = wanted["all"]["children"]["rehearsal"]["hosts"]["demo1"]
    assert host["klops"]["cleanup"] == {"scheduler": "none"}


def test_what_was_installed_all_the_same_goes_with_the_rehearsal(made: Rehearsal) -> None:
    made.save()
    root, folder = str(made.hosts[0].root), Path(schedule.FOLDER)
    own, old, other = (folder / name for name in ("own", "old.one", "other"))
    own.write_text(schedule.file_text(root, "c", "* * * * *"))
    old.write_text(f"{schedule.mark(root)}\n")
    other.write_text(schedule.file_text(f"{root}2", "c", "* * * * *"))
    (folder / "bytes").write_bytes(b"\xff\n")
    assert rehearsal.stop(made.directory)
    assert sorted(path.name for path in folder.iterdir()) == ["bytes", "other"]
