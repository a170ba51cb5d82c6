"""Distributions and patches as they once stood, from what is saved on the host."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.generations import standing
from klops.agent.units import released
from tests.unit.agent.packages.world import Answer, World, patch_request, sha256

NAMES = ("alpha", "beta")
CORE = "alpha/core.py"


def stands(world: World) -> dict[str, Any]:
    """What a generation would have of the distributions."""
    found = world.packages(NAMES)["installed"]
    return {name: one and {key: one[key] for key in ("version", "record")} for name, one in found.items()}


def upgrade(world: World) -> None:
    both = [{"name": "alpha", "version": "2.0"}, {"name": "beta", "version": "1.0"}]
    assert len(world.stack(*both).done["changed"]) == 2


def patch(world: World, text: str) -> None:
    assert world.run("patch", patch_request(CORE, text)).code == 0


def test_back_and_forth_exactly_and_without_uv(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    first, tree = stands(stocked), stocked.tree()
    upgrade(stocked)
    patch(stocked, "C = 'two'\n")
    second, other = stands(stocked), stocked.tree()
    (stocked.bin / "uv").unlink()
    del tree["bin/uv"], other["bin/uv"]

    one, two = ({CORE: {"sha256": sha256(f"C = '{word}'\n")}} for word in ("one", "two"))
    done = stocked.restore(first, one).done
    assert [(row["name"], row["from"], row["to"]) for row in done["changed"]] == [
        ("alpha", "2.0", "1.0"),
        ("beta", "1.0", None),
    ]
    assert stocked.tree() == tree
    assert stocked.restore(first, one).done == {"changed": [], "patches": [], "notes": []}
    assert stocked.imported("alpha.core.C", "alpha.core") == "one"

    stocked.restore(second, two)
    assert stocked.tree() == other
    assert stocked.imported("alpha.core.C", "alpha.core") == "two"
    assert not stocked.run("patch", patch_request(CORE, "C = 'two'\n")).done["changed"]
    stocked.restore(first, {})  # what was saved of a patched one is as it came
    assert stocked.text(CORE) == "C = 1\n"
    assert stocked.litter() == []


def test_what_is_not_named_goes_back_to_before_klops(stocked: World) -> None:
    before = stocked.tree()
    upgrade(stocked)
    patch(stocked, "C = 'two'\n")
    stocked.restore({}, {})
    assert stocked.tree() == before
    assert stands(stocked)["beta"] is None


def test_only_a_patch(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    patch(stocked, "C = 'more'\n")
    assert stocked.restore({}, {CORE: {"sha256": sha256("C = 'one'\n")}}).done["patches"] == [CORE]
    assert stocked.text(CORE) == "C = 'one'\n"
    assert not stocked.run("patch", patch_request(CORE, "C = 'one'\n")).done["changed"]
    assert stocked.restore({}, {}).done["patches"] == [CORE]
    assert stocked.text(CORE) == "C = 1\n"
    assert stocked.packages()["patches"] == []


def test_a_file_that_has_by_itself_what_another_was_patched_to_is_saved_as_it_is(stocked: World) -> None:
    patch(stocked, "")  # an emptied module is like many an __init__.py
    identity = stocked.identity("alpha")
    upgrade(stocked)
    assert stocked.restore({"alpha": identity}, {CORE: {"sha256": sha256("")}}).code == 0
    assert (stocked.text("alpha/only1.py"), stocked.text(CORE)) == ("", "")
    saved = json.loads((stocked.root / "stack/stack.json").read_text())["saved"]
    assert all(one["exact"] for one in saved.values())
    assert stocked.restore({}, {}).code == 0
    assert (stocked.text("alpha/only1.py"), stocked.text(CORE)) == ("", "C = 1\n")


def test_a_file_changed_by_hand_is_not_lost(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    (stocked.site / CORE).write_text("C = 'hand'\n")
    refused = stocked.restore({}, {CORE: {"sha256": sha256("C = 'one'\n")}})
    assert refused.failed == "patch-foreign"
    assert sha256("C = 'hand'\n") in refused.error["message"]
    assert stocked.text(CORE) == "C = 'hand'\n"
    stocked.stack({"name": "beta", "version": "1.0"})
    assert set(noted(stocked)["patches"]) == {CORE}  # it was no installation that took it away
    before = stocked.tree()
    beside_another = stocked.restore({"beta": None}, {CORE: {"sha256": sha256("C = 'one'\n")}})
    assert beside_another.failed == "patch-foreign"
    assert stocked.tree() == before


def test_what_was_changed_by_hand_is_told_where_another_version_takes_its_place(stocked: World) -> None:
    first = stands(stocked)
    upgrade(stocked)
    (stocked.site / CORE).write_text("C = 'hand'\n")
    (note,) = stocked.restore(first, {}).done["notes"]
    assert "files of alpha were changed by hand: " in note
    archive = note.split()[-1]
    assert b"C = 'hand'\n" in Path(archive).read_bytes()
    assert stocked.restore(first, {}).done["notes"] == []


def test_what_is_not_saved_is_named_and_nothing_changes(stocked: World) -> None:
    first = stands(stocked)
    upgrade(stocked)
    before = stocked.tree()
    wanted = {**first, "beta": {"version": "7.0", "record": "0" * 64}}
    refused = stocked.restore(wanted, {CORE: {"sha256": "1" * 64}})
    assert refused.failed == "not-saved"
    assert f"beta 7.0, {CORE} with sha256 {'1' * 64}" in refused.error["message"]
    assert stocked.tree() == before


def test_a_spoiled_archive_is_not_used(stocked: World) -> None:
    first = stands(stocked)
    upgrade(stocked)
    before = stocked.tree()
    (archive,) = (stocked.root / "stack").glob("alpha-1.0-*.tar")
    data = bytearray(archive.read_bytes())
    data[600] ^= 1
    archive.write_bytes(data)
    refused = stocked.restore(first, {})
    assert refused.failed == "not-saved"
    assert str(archive) in refused.error["message"]
    assert stocked.tree() == before


@pytest.mark.parametrize("file", ["stack/stack.json", "stack/journal.json", "patches.json"])
def test_of_damaged_notes_nobody_says_that_they_are_written_anew(stocked: World, file: str) -> None:
    upgrade(stocked)
    (stocked.root / file).write_text("")
    answer = stocked.restore({}, {})
    assert (answer.failed, answer.error["hint"]) == ("damaged", store.BY_HAND)


def test_a_file_with_the_longest_of_names_comes_back(stocked: World) -> None:
    longest = "alpha/" + "k" * 249 + ".cubin"
    stocked.put("alpha", "1.0", {"alpha/__init__.py": "", longest: "x"})
    first = stands(stocked)
    upgrade(stocked)
    assert not (stocked.site / longest).exists()
    assert stocked.restore(first, {}).code == 0
    assert stocked.text(longest) == "x"


def test_compiled_forms_of_another_version_are_not_used(stocked: World) -> None:
    """Wheels give all their files one time, and both versions of this one have one size."""
    first, file = stands(stocked), stocked.site / "alpha/__init__.py"
    os.utime(file, (315532800, 315532800))
    assert stocked.imported("alpha.V", "alpha") == "1"
    upgrade(stocked)
    os.utime(file, (315532800, 315532800))
    assert stocked.imported("alpha.V", "alpha") == "2"
    stocked.restore(first, {})
    assert file.stat().st_mtime == 315532800
    assert stocked.imported("alpha.V", "alpha") == "1"


def noted(world: World) -> dict[str, Any]:
    """What stands, as a generation notes it; units that begin now are on the same."""
    now = standing.now(str(world.root))
    assert set(now["patches"]) == set(released.patched(str(world.root)))
    return now


def go_to(world: World, generation: dict[str, Any]) -> Answer:
    """As ``klops.rollback`` asks for it."""
    patches = {file: {"sha256": one["patched"]} for file, one in generation["patches"].items()}
    return world.restore(generation["stack"], patches)


def installed(world: World, **versions: str) -> None:
    assert world.stack(*({"name": name, "version": one} for name, one in versions.items())).done["changed"]


def test_a_patch_that_a_new_version_has_replaced_is_no_part_of_what_stands(stocked: World) -> None:
    patch(stocked, "C = 'made of 1.0'\n")
    first = noted(stocked)
    before = released.packages(str(stocked.root))
    assert set(first["patches"]) == {CORE}
    installed(stocked, alpha="2.0")
    second = noted(stocked)
    assert second["patches"] == {}
    assert released.packages(str(stocked.root)) != before
    for _ in range(2):
        assert go_to(stocked, first).code == 0
        assert (stocked.text(CORE), noted(stocked)) == ("C = 'made of 1.0'\n", first)
        assert released.packages(str(stocked.root)) == before
        assert go_to(stocked, second).code == 0
        assert (stocked.text(CORE), noted(stocked)) == ("C = 2\n", second)
    # where its distribution isn't touched neither
    installed(stocked, beta="1.0")
    assert go_to(stocked, second).code == 0
    assert (stocked.text(CORE), stands(stocked)["beta"]) == ("C = 2\n", None)
    assert stocked.litter() == []


@pytest.mark.parametrize("step", [11, 12, 13])
def test_nor_is_it_where_the_installation_was_killed_before_all_was_noted(stocked: World, step: int) -> None:
    patch(stocked, "C = 'made of 1.0'\n")
    first = noted(stocked)
    pins = {"install": [{"name": "alpha", "version": "2.0"}], "wheel_dir": str(stocked.wheels)}
    killed = stocked.run_killed("stack", pins, ("replace", "unlink"), step)
    assert killed.code == -signal.SIGKILL
    # the installation is whole: the next run only has to note it
    assert "stack" in json.loads((stocked.root / "stack/journal.json").read_text())
    assert stocked.run("stack", pins).done["changed"] == []
    second = noted(stocked)
    assert (stocked.text(CORE), second["patches"]) == ("C = 2\n", {})
    assert go_to(stocked, first).code == 0
    assert (stocked.text(CORE), noted(stocked)) == ("C = 'made of 1.0'\n", first)
    assert stocked.litter() == []


def test_nor_is_one_of_a_file_that_the_new_version_does_not_have(stocked: World) -> None:
    assert stocked.run("patch", patch_request("alpha/only1.py", "X = 1\n")).code == 0
    first = noted(stocked)
    installed(stocked, alpha="2.0")
    second = noted(stocked)
    assert second["patches"] == {}
    installed(stocked, beta="1.0")
    assert go_to(stocked, second).code == 0
    assert go_to(stocked, first).code == 0
    assert stocked.text("alpha/only1.py") == "X = 1\n"


def test_nor_is_one_that_the_new_version_brings_by_itself(stocked: World) -> None:
    """What stands there is the distribution's: nothing of the version before belongs in its place."""
    patch(stocked, "C = 2\n")
    first = noted(stocked)
    installed(stocked, alpha="2.0")
    tree, second = stocked.tree(), noted(stocked)
    assert second["patches"] == {}
    assert not stocked.run("patch", patch_request(CORE, "C = 2\n")).done["changed"]
    assert go_to(stocked, first).code == 0
    assert go_to(stocked, second).code == 0
    installed(stocked, beta="1.0")
    assert go_to(stocked, second).code == 0
    assert not stocked.run("patch", patch_request(CORE, "", revert=True)).done["changed"]
    assert {path: one for path, one in stocked.tree().items() if path in tree} == tree


def test_a_patch_whose_test_was_cut_short_before_a_new_version_came(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    notes = json.loads((stocked.root / "patches.json").read_text())
    notes["patches"][CORE].update(pending=True, former=None)
    store.write_json(str(stocked.root / "patches.json"), notes)
    installed(stocked, beta="1.0")
    assert set(noted(stocked)["patches"]) == {CORE}  # it still lies there
    installed(stocked, alpha="2.0", beta="1.0")
    assert noted(stocked)["patches"] == {}
    assert stocked.run("patch", patch_request(CORE, "C = 'one'\n")).failed == "patch-stale"


def test_a_version_that_comes_back_by_its_installer_is_patched_again(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    first = noted(stocked)["patches"]
    installed(stocked, alpha="2.0")
    installed(stocked, alpha="1.0")
    assert (stocked.text(CORE), noted(stocked)["patches"]) == ("C = 1\n", {})
    # a test that fails leaves it so
    assert stocked.run("patch", patch_request(CORE, "C = 'one'\n", test="exit 1")).failed == "patch-test"
    assert (stocked.text(CORE), noted(stocked)["patches"]) == ("C = 1\n", {})
    patch(stocked, "C = 'one'\n")
    assert noted(stocked)["patches"] == first


def behind_a_release(world: World, text: str) -> Path:
    """Have a link to a release in the place of alpha; the file there that stands for the patched one."""
    core = world.root / "releases/abc" / CORE
    core.parent.mkdir(parents=True)
    core.write_text(text)
    (world.root / "releases/current").symlink_to("abc")
    (world.site / "alpha").rename(world.site / ".klops-kept-alpha")
    (world.site / "alpha").symlink_to(world.root / "releases/current/alpha")
    return core


def test_a_patch_behind_a_release_is_still_there_when_that_goes(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    first = noted(stocked)
    behind_a_release(stocked, "C = 'release'\n")
    installed(stocked, beta="1.0")
    assert noted(stocked)["patches"] == first["patches"]
    (stocked.site / "alpha").unlink()
    (stocked.site / ".klops-kept-alpha").rename(stocked.site / "alpha")
    assert go_to(stocked, {**first, "patches": {}}).done["patches"] == [CORE]
    assert stocked.text(CORE) == "C = 1\n"


def test_files_behind_a_release_are_not_judged(stocked: World) -> None:
    """Nor is anything written through the link that leads to it."""
    patch(stocked, "C = 'one'\n")
    first = noted(stocked)
    of_release = behind_a_release(stocked, "C = 'release'\n")
    installed(stocked, beta="1.0")
    assert [one["name"] for one in go_to(stocked, first).done["changed"]] == ["beta"]
    assert go_to(stocked, {**first, "patches": {}}).done["patches"] == []
    assert of_release.read_text() == "C = 'release'\n"


def test_a_patched_file_that_is_gone_is_told_and_nothing_changes(stocked: World) -> None:
    patch(stocked, "C = 'one'\n")
    first = noted(stocked)
    (stocked.site / CORE).unlink()
    installed(stocked, beta="1.0")
    before = stocked.tree()
    refused = go_to(stocked, first)
    assert refused.failed == "not-saved"
    assert f"{stocked.site / CORE} is not there" in refused.error["message"]
    assert stocked.tree() == before
    assert stocked.litter() == []


#: Of the 78 steps of a restore: its own notes, files that come, those that go, what is known afterwards.
STEPS = (9, 36, 66, 76)
OTHERS = [step for step in range(1, 79) if step not in STEPS]


@pytest.mark.parametrize("step", [*STEPS, *(pytest.param(step, marks=pytest.mark.long) for step in OTHERS)])
def test_killed_on_the_way(stocked: World, step: int) -> None:
    """SIGKILL at a step of a restore, and at the same of the next: the third completes, either way."""
    first, before = stands(stocked), stocked.tree()
    upgrade(stocked)
    patch(stocked, "C = 'two'\n")
    second, after = stands(stocked), stocked.tree()
    two = {CORE: {"sha256": sha256("C = 'two'\n")}}

    assert killed_at(stocked, first, {}, step)
    killed_at(stocked, second, two, step)
    assert stocked.restore(second, two).code == 0
    assert stocked.tree() == after
    assert not stocked.run("patch", patch_request(CORE, "C = 'two'\n")).done["changed"]
    assert stocked.litter() == []

    killed_at(stocked, first, {}, step)
    assert stocked.restore(first, {}).code == 0
    assert stocked.tree() == before
    assert stocked.litter() == []


@pytest.mark.parametrize("step", [74, 75, 76, pytest.param(78, marks=pytest.mark.long)])
def test_the_notes_fit_after_a_kill(stocked: World, step: int) -> None:
    """Whichever verb comes next finds the file in a form that it knows: as it was, or as it shall be."""
    first = stands(stocked)
    upgrade(stocked)
    patch(stocked, "C = 'two'\n")
    assert killed_at(stocked, first, {}, step)
    answer = stocked.run("patch", patch_request(CORE, "C = 'two'\n"))
    assert answer.done["changed"] == (stands(stocked) == first)
    assert stocked.packages()["patches"][0]["known"]["patched"] == sha256("C = 'two'\n")


def killed_at(world: World, distributions: dict[str, Any], patches: dict[str, Any], step: int) -> bool:
    """Whether a restore was killed, or had fewer steps."""
    request = {"distributions": distributions, "patches": patches, "run": "r1"}
    answer = world.run_killed("restore", request, ("replace", "unlink", "rmdir"), step)
    assert answer.code in (0, -signal.SIGKILL), answer.output
    return answer.code != 0
