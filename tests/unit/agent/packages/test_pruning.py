"""Archives of distributions go with the last generation that needs them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import kept, verb
from klops.agent.packages import pruning
from klops.agent.packages.places import Places
from tests.unit.agent.packages import wheels
from tests.unit.agent.packages.world import World


@pytest.fixture
def three(stocked: World) -> World:
    """alpha 1.0 was there; 2.0 and 3.0 served, each noted; now it is 4.0."""
    for version in ("3.0", "4.0"):
        wheels.wheel(stocked.wheels, "alpha", version, {"alpha/__init__.py": f"V = {version}\n"})
    for version in ("2.0", "3.0", "4.0"):
        install(stocked, version)
        if version != "4.0":
            note(stocked)
    return stocked


def install(world: World, version: str) -> None:
    assert world.stack({"name": "alpha", "version": version}).done["changed"]


def note(world: World, keep: int = 10) -> None:
    told = {"health": "good", "author": "ops@desk", "run": "r1", "keep": keep}
    assert verb.note(str(world.root), json.dumps(told))["noted"]


def prune(world: World) -> list[str]:
    """Which versions went."""
    gone = pruning.prune(Places(str(world.root)))
    return [file.split("-")[1] for file in gone]


def saved(world: World) -> list[str]:
    """Versions of which there is an archive, by the notes and on disk."""
    notes = store.read_json(str(world.root / "stack" / "stack.json"))
    assert notes is not None
    found = sorted(path.name for path in (world.root / "stack").glob("*.tar"))
    assert found == sorted(notes["saved"])
    return [file.split("-")[1] for file in found]


def test_what_generations_and_the_way_to_before_klops_need_stays(three: World) -> None:
    assert prune(three) == []
    note(three, keep=2)
    assert prune(three) == ["2.0"]
    assert saved(three) == ["1.0", "3.0"]
    assert prune(three) == []
    # and what is kept is good for what it is kept for
    third = next(one for one in kept.readable(str(three.root))[0] if one["number"] == 2)
    three.restore(third["stack"], {})
    assert three.identity("alpha")["version"] == "3.0"
    three.restore({}, {})
    assert three.identity("alpha")["version"] == "1.0"


def test_an_archive_that_no_note_knows_goes_with_the_others(three: World) -> None:
    (three.root / "stack" / "alpha-9-cut-off.tar").touch()
    note(three, keep=1)
    assert prune(three) == ["2.0", "3.0"]
    assert saved(three) == ["1.0"]


def test_what_was_changed_by_hand_stays(stocked: World) -> None:
    wheels.wheel(stocked.wheels, "alpha", "3.0", {"alpha/__init__.py": "V = 3\n"})
    install(stocked, "2.0")
    (stocked.site / "alpha" / "core.py").write_text("C = 'mine'\n")
    install(stocked, "3.0")
    note(stocked)
    assert prune(stocked) == []
    assert saved(stocked) == ["1.0", "2.0"]


@pytest.mark.parametrize("why", ["a generation that can't be read", "a change", "a recreation"])
def test_while_it_cannot_be_told_all_stays(three: World, why: str) -> None:
    note(three, keep=1)
    path = {
        "a generation that can't be read": three.root / "generations" / "9.json",
        "a change": three.root / "stack" / "journal.json",
        "a recreation": three.root / "kept.json",
    }[why]
    path.write_text("{")
    assert prune(three) == []
    path.unlink()
    assert prune(three) == ["2.0", "3.0"]


def test_notes_that_cannot_be_read_are_told(three: World) -> None:
    (three.root / "stack" / "stack.json").write_text("{")
    with pytest.raises(VerbError):
        prune(three)


def test_the_verb_that_notes_a_generation_sees_to_it(three: World) -> None:
    told: dict[str, Any] = {"health": "good", "author": "ops@desk", "run": "r1", "keep": 1}
    said = three.run_alone("generation", told)
    assert said.last["noted"], said.output
    assert said.last["notes"] == []
    assert saved(three) == ["1.0"]


def test_that_it_cannot_be_seen_to_is_told_beside_what_was_noted(three: World) -> None:
    (three.root / "stack" / ".lock").unlink()
    (three.root / "stack" / ".lock").mkdir()
    said = three.run_alone("generation", {"health": "good", "author": "ops@desk", "run": "r1", "keep": 1})
    assert said.last["noted"], said.output
    (note,) = said.last["notes"]
    assert note.startswith("saved packages were not looked through: ")
    assert saved(three) == ["1.0", "2.0", "3.0"]
