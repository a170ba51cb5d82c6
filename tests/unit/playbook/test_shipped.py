"""What klops takes for granted of its own playbooks before it has read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.actions.catalog import catalog
from klops.inventory.connection import VARIABLES
from klops.playbook.load.plays import load_playbook
from klops.playbook.shipped import LOCAL, SHIPPED, find

PLAYBOOKS = sorted(find("up.yml", working_directory=Path("/"))[0].parent.glob("*.yml"))


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_they_work_on_all_hosts_at_once_over_the_connections_of_the_inventory(path: Path) -> None:
    for play in load_playbook(path, catalog()).plays:
        assert list(play.hosts) == ["all"]
        assert not play.serial
        assert not play.vars_files
        assert not set(play.vars) & set(VARIABLES)
    assert not [name for name in ("group_vars", "host_vars") if (path.parent / name).exists()]


def test_a_users_own_is_told_from_a_shipped_one(tmp_path: Path) -> None:
    assert find("up.yml", working_directory=tmp_path)[1] == SHIPPED
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "up.yml").write_text("[]")
    assert find("up.yml", working_directory=tmp_path)[1] == LOCAL
