"""Releases and generations as people see them."""

from __future__ import annotations

from typing import Any

from klops.errors import KlopsError, TaskFailed
from klops.ui.releases import releases_view, synced_view
from klops.ui.status import source_line
from tests.unit.actions_klops.generationsworld import generation
from tests.unit.ui.test_status import text_of


def test_what_differs_between_generations_stands_in_their_rows() -> None:
    patch = {"pristine": "p", "patched": "q", "patch": "s"}
    hosts: dict[str, dict[str, Any] | KlopsError] = {
        "h1": {
            "current": "b",
            "generation": None,
            "generations": [
                generation(3, "a", of=1),
                generation(2, "b", "bad", error="boom\nmore"),
                generation(
                    1, there=False, stack={"x": {"version": "2"}, "y": None}, patches={"x/f.py": patch}
                ),
            ],
            "releases": [{"name": "b", "about": {"commit": "c" * 40, "subject": "Fix it"}, "bytes": 2048}],
            "faults": ["7.json is no generation"],
        },
        "h2": TaskFailed("the container isn't there", hint="klops up h2"),
    }
    text = text_of(releases_view(hosts, str))
    lines = text.splitlines()
    assert lines[0] == "h1"
    assert lines[2].startswith("  3 (as 1) good")
    assert " ".join(lines[4].split()[5:]) == "a (gone) x 2, y removed x/f.py main TP=2 ops"
    assert "  generation 2: boom" in lines
    assert any(
        line.startswith("* b     cccccccccccc -") and line.endswith("2.0 KiB Fix it") for line in lines
    )
    assert "  7.json is no generation" in lines
    assert "  what stands now is none of these generations" in lines
    assert lines[-3:] == ["h2", "  error: the container isn't there", "  fix: klops up h2"]


def test_a_host_on_which_nothing_was_noted() -> None:
    lists: dict[str, Any] = {"generations": [], "releases": [], "faults": []}
    empty = {"current": None, "generation": None, **lists}
    assert text_of(releases_view({"h1": empty}, str)) == "h1\n  generations: none\n  releases: none\n"


def test_a_sync_of_nothing_says_so() -> None:
    assert "klops.source.repo is not set" in text_of(synced_view({"h1": {"release": None}}, str, check=False))


def test_services_on_another_release_are_named() -> None:
    services = {"a": {"release": "old"}, "b": {"release": "new"}, "c": {"release": None}}
    assert source_line({"source": {"release": "new"}, "services": services}) == "release: new; a runs on old"
    assert source_line({"source": {"release": None}, "services": services}) == ""
