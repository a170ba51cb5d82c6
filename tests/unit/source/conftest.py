"""No configuration of whoever runs the tests: a home of their own, and a folder for what looks keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.source.cache import VARIABLE
from tests.unit.source.repos import WHEN, Repo, init


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home; ``.gitconfig`` in it is the user's configuration."""
    folder = tmp_path_factory.mktemp("home")
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv(VARIABLE, str(folder / "kept"))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Li Lei")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "lilei@example.com")
        monkeypatch.setenv(f"GIT_{who}_DATE", WHEN)
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files: what is left in it was forgotten."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """An empty repository."""
    return init(tmp_path / "repo")
