"""What a host answered: asked once, forgotten after a change, asked again when it is old."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.actions.base import Probe, registry
from klops.actions.catalog import GENERIC, OWN, actions_of
from klops.errors import TaskFailed, UsageError
from klops.playbook.host import MAX_AGE, Replies
from klops.playbook.load import load_playbook
from klops.playbook.localfiles import read_local
from klops.playbook.shipped import find
from klops.remote.fake import FakeRemote
from klops.remote.reads import FileRead

PROBE = Probe((FileRead("a", "/a"),))


def test_replies_are_kept_forgotten_and_age() -> None:
    now = 100.0
    remote = FakeRemote().on("/a", "A").on("/b", "B")
    replies = Replies(lambda: remote, clock=lambda: now)
    assert replies.of(PROBE, lambda: [FileRead("a", "/b")])["a"].text == "A"
    assert replies.of(Probe((FileRead("x", "/b"),)), list)["x"].text == "B"
    assert remote.commands_run == 1
    replies.forget()
    replies.of(PROBE, list)
    assert remote.commands_run == 2
    now += MAX_AGE
    replies.of(PROBE, list)
    assert remote.commands_run == 3


def test_own_playbooks_win_over_shipped_ones(tmp_path: Path) -> None:
    path, origin = find("up.yml", working_directory=tmp_path)
    assert origin == "shipped"
    assert path.is_file()
    own = tmp_path / "playbooks" / "up.yml"
    own.parent.mkdir()
    own.write_text("")
    assert find("up.yml", working_directory=tmp_path) == (own, "local")
    with pytest.raises(UsageError, match="no playbook none"):
        find("none.yml", working_directory=tmp_path)


@pytest.mark.parametrize("folder", ["playbooks", "elsewhere"])
def test_a_copy_of_a_shipped_playbook_finds_the_shipped_template(tmp_path: Path, folder: str) -> None:
    shipped, _ = find("up.yml", working_directory=tmp_path)
    own = tmp_path / folder / "up.yml"
    own.parent.mkdir()
    own.write_bytes(shipped.read_bytes())
    load_playbook(own, registry([action for module in (*GENERIC, *OWN) for action in actions_of(module)]))
    name = "host-readme.txt.j2"
    assert read_local(own, "templates", name) == read_local(shipped, "templates", name)
    (own.parent / name).write_text("my own")
    assert read_local(own, "templates", name) == b"my own"


def test_local_files_are_looked_for_beside_the_playbook(tmp_path: Path) -> None:
    playbook = tmp_path / "playbooks" / "p.yml"
    for place in ("templates/t", "playbooks/t", "playbooks/templates/t"):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(place)
        assert read_local(playbook, "templates", "t").decode() == place
    assert read_local(playbook, "files", str(tmp_path / "templates/t")) == b"templates/t"
    with pytest.raises(TaskFailed, match="is a folder"):
        read_local(playbook, "files", "templates")
