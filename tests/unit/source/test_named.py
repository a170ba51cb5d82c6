"""What settings name on this machine, where whoever runs klops has no way to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.actions.own.source.looking import TreeLook, tree_look
from klops.cli.main import run
from klops.inventory.settings import Settings
from klops.source import named
from klops.source.git.repository import find
from tests.unit.source.repos import fails

NOBODYS = "~no-such-user-here/x"


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be entered, not even by root, who is somebody else meanwhile."""
    folder = tmp_path / "closed"
    (folder / "repo").mkdir(parents=True)
    (folder / "a.diff").touch()
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(user)
        folder.chmod(0o700)


def settings(repo: object, diff: object) -> Settings:
    patches = [{"file": "a.py", "diff": str(diff)}]
    return Settings.model_validate({"source": {"repo": str(repo)}, "stack": {"patches": patches}})


def test_what_may_not_be_looked_at_is_a_problem_of_its_setting(closed: Path) -> None:
    found = list(named.look()(settings(closed / "repo", closed / "a.diff")))
    assert [place for place, _, _ in found] == [("source", "repo"), ("stack", "patches", 0, "diff")]
    assert all(f"{closed}/" in text and hint for _, text, hint in found)
    with fails("not-a-repository"):
        find(closed / "repo")


def test_the_home_of_nobody(tmp_path: Path) -> None:
    ((place, text, hint),) = named.look()(Settings.model_validate({"source": {"repo": NOBODYS}}))
    assert (place, bool(hint)) == (("source", "repo"), True)
    assert text.startswith(f"klops.source.repo: {NOBODYS} can't be looked at: ")
    # a sync fails as with any other that isn't there, and not before it comes to that
    look = tree_look(settings(NOBODYS, tmp_path), None, None)
    assert look == TreeLook(Path(NOBODYS), "HEAD", dirty=False)
    with fails("not-a-repository"):
        look.look()


def test_the_check_of_an_inventory_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(f"all: {{hosts: {{h: {{klops: {{source: {{repo: {NOBODYS}}}}}}}}}}}\n")
    assert run(["inventory", "check", "-i", str(file)]) == 2
    assert f"hosts.yml:1:42: klops.source.repo: {NOBODYS} can't be looked at" in capsys.readouterr().err
