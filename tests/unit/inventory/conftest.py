"""Inventories written by a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from klops.inventory import Inventory, load

Write = Callable[..., Inventory]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """``write(text, **files)`` makes hosts.yml and other files (``__`` in a name is /) and loads them.

    The working directory is the files' own, so that locations read ``hosts.yml:LINE:COLUMN``.
    """
    monkeypatch.chdir(tmp_path)

    def make(text: str, **files: str) -> Inventory:
        Path("hosts.yml").write_text(text, encoding="utf-8")
        for name, content in files.items():
            path = Path(name.replace("__", "/") + ".yml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return load(["hosts.yml"])

    return make
