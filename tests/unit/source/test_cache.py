"""What is kept of earlier looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from klops.source import cache as module
from klops.source.cache import Cache, cache_path, key
from klops.source.manifest import Release, digest
from klops.source.manifest.release import named
from tests.unit.source.repos import Repo, shipped


def release(size: int = 0) -> Release:
    summed = digest(())
    return Release(named("c" * 40, summed), summed, {"x": "y" * size}, ())


@pytest.mark.parametrize(
    ("env", "windows", "expected"),
    [
        ({}, False, "/home/me/.cache/klops/source"),
        ({"XDG_CACHE_HOME": "/c"}, False, "/c/klops/source"),
        ({"XDG_CACHE_HOME": "relative"}, False, "/home/me/.cache/klops/source"),
        (
            {"LOCALAPPDATA": r"C:\Users\me\AppData\Local"},
            True,
            r"C:\Users\me\AppData\Local\klops\Cache\source",
        ),
        ({}, True, r"\home\me\AppData\Local\klops\Cache\source"),
        ({"KLOPS_CACHE": "/other"}, False, "/other"),
        ({"KLOPS_CACHE": "Off"}, False, ""),
    ],
)
def test_where_it_is(env: dict[str, str], windows: bool, expected: str) -> None:
    assert cache_path(env, windows=windows, home=lambda: "/home/me") == expected


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "kept")
    assert cache.get("k") is None
    cache.put("k", release())
    assert cache.get("k") == release()
    assert cache.get("other") is None
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "kept/k").stat().st_mode & 0o777 == 0o600
    assert key("t", "", expanded=True) != key("t", "", expanded=False) != key("t", "a", expanded=False)


def test_off(tmp_path: Path) -> None:
    cache = Cache(None)
    cache.put("k", release())
    assert cache.get("k") is None


def test_the_ones_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    cache = Cache(tmp_path)

    def put(name: str, at: int, size: int = 0) -> None:
        cache.put(name, release(size))
        os.utime(tmp_path / name, (at, at))

    for number in range(3):
        put(f"{number}", number + 1)
    assert cache.get("0") is not None  # used just now
    put("new", 9)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "2", "new"}
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    put("large", 10, size=2000)
    # the newest stays whatever its size
    assert {path.name for path in tmp_path.iterdir()} <= {"0", "large"}


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff", b"not json"])
def test_what_is_damaged_is_found_anew(repo: Repo, home: Path, damage: bytes) -> None:
    repo.commit({"a": b"1"})
    tree = repo.look()
    (kept,) = (home / "kept").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage or whole[:-20])
    assert repo.look() == tree
    assert kept.read_bytes() == whole
    assert shipped(tree) == {"a": b"1"}


def test_a_folder_that_cannot_be_written_stops_nothing(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "kept").write_bytes(b"a file")
    repo.commit({"a": b"1"})
    tree = repo.look()
    assert repo.look() == tree
    assert shipped(tree) == {"a": b"1"}
