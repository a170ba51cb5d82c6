"""Compiled modules beside the package: whole, and nothing beside them."""

from __future__ import annotations

from pathlib import Path

from klops.agent import cache
from klops.remote import agentpackage


def test_what_a_killed_writer_left_goes_once_there_are_compiled_modules(tmp_path: Path) -> None:
    package = tmp_path / "abc.pyz"
    package.write_bytes(agentpackage.build().data)
    left = Path(cache.folder(str(package)) + ".7.new") / "klops"
    left.mkdir(parents=True)
    (left / "half.pyc").touch()
    (tmp_path / "other.new").touch()
    cache.write(str(package))
    made = Path(cache.folder(str(package)))
    assert (made / "klops" / "agent" / "main.pyc").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["abc.pyz", made.name, "other.new"])
