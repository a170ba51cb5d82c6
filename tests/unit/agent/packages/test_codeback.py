"""What units run on, kept while their container is made anew, and put back where the old one comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import standing
from klops.agent.releases import activate, prune
from klops.agent.releases.places import Places as Releases
from klops.agent.supervision import goback
from klops.agent.verbs import codeback
from tests.unit.agent.packages.world import World, patch_request, sha256

CORE = "alpha/core.py"


def kept(world: World, *, here: bool = True) -> dict[str, Any]:
    """As it comes back from the file that it is written to."""
    found: dict[str, Any] = json.loads(json.dumps(codeback.kept(str(world.root), here=here)))
    return found


def put_back(world: World, code: dict[str, Any]) -> None:
    codeback.put_back(str(world.root), code)


def patch(world: World, text: str) -> None:
    assert world.run("patch", patch_request(CORE, text)).code == 0


def upgrade(world: World) -> None:
    both = [{"name": "alpha", "version": "2.0"}, {"name": "beta", "version": "1.0"}]
    assert len(world.stack(*both).done["changed"]) == 2


def current(world: World, name: str) -> None:
    """Make a release the current one."""
    releases = Releases(str(world.root))
    releases.make()
    Path(releases.tree(name)).mkdir(exist_ok=True)
    activate.point(releases, name)


@pytest.fixture(params=["layer", "volume"])
def old_one(request: pytest.FixtureRequest, stocked: World) -> Callable[[], Callable[[], None]]:
    """Called before the new container is worked in; what that gives, when the old one is there again.

    In its layer packages are as they were, whatever happened in another one's; in a volume they aren't.
    """

    def put_aside() -> Callable[[], None]:
        aside = stocked.base / "aside"
        if request.param == "layer":
            shutil.copytree(stocked.site, aside, symlinks=True)

        def there_again() -> None:
            if request.param == "layer":
                shutil.rmtree(stocked.site)
                aside.rename(stocked.site)

        return there_again

    return put_aside


def test_packages_patches_and_release_are_what_they_were(
    stocked: World, old_one: Callable[[], Callable[[], None]]
) -> None:
    patch(stocked, "C = 'one'\n")
    current(stocked, "first")
    before, tree, code = standing.now(str(stocked.root)), stocked.tree(), kept(stocked)
    there_again = old_one()
    upgrade(stocked)
    patch(stocked, "C = 'two'\n")
    current(stocked, "second")
    there_again()
    for _ in range(2):
        put_back(stocked, code)
        # by what the notes say, and really
        assert standing.now(str(stocked.root)) == before
        found = {path: one for path, one in stocked.tree().items() if not path.startswith("bin/alpha")}
        assert found == {path: one for path, one in tree.items() if not path.startswith("bin/alpha")}
    assert stocked.litter() == []
    # the same patch is in place, and nobody has changed the file by hand
    assert not stocked.run("patch", patch_request(CORE, "C = 'one'\n")).done["changed"]


def test_a_first_patch_is_taken_back_and_a_first_release_is_none_again(
    stocked: World, old_one: Callable[[], Callable[[], None]]
) -> None:
    code, tree = kept(stocked), stocked.tree()
    there_again = old_one()
    patch(stocked, "C = 'one'\n")
    current(stocked, "first")
    there_again()
    put_back(stocked, code)
    assert stocked.tree() == tree
    assert stocked.packages()["patches"] == []
    assert Releases(str(stocked.root)).now() is None


def test_an_installation_cut_short_in_the_new_one_is_nothing_to_the_old_one(
    stocked: World, old_one: Callable[[], Callable[[], None]]
) -> None:
    code = kept(stocked)
    there_again = old_one()
    request = {
        "install": [{"name": "alpha", "version": "2.0"}],
        "wheel_dir": str(stocked.wheels),
        "timeout": 60,
    }
    # uv has done its work, and nothing of that is noted
    stocked.uv_is('"$UV" "$@" || exit; case "$*" in *--dry-run*) ;; *) kill -9 $PPID; sleep 60;; esac')
    assert stocked.run_killed("stack", request, ["unlink"], 10**9).code != 0
    assert (stocked.root / "stack" / "journal.json").exists()
    there_again()
    put_back(stocked, code)
    stocked.have_uv()
    assert not (stocked.root / "stack" / "journal.json").exists()
    assert stocked.identity("alpha")["version"] == "1.0"
    assert stocked.text(CORE) == "C = 1\n"


def test_of_what_was_kept_late_only_the_notes_are_put_back(stocked: World) -> None:
    """What the old container has installed nobody could say."""
    patch(stocked, "C = 'one'\n")
    code = kept(stocked, here=False)
    assert (code["installed"], code["patched"]) == (None, None)
    upgrade(stocked)
    put_back(stocked, code)
    assert stocked.identity("alpha")["version"] == "2.0"
    assert standing.now(str(stocked.root))["stack"] == {}
    assert standing.now(str(stocked.root))["patches"][CORE]["patched"] == sha256("C = 'one'\n")


def test_the_release_that_is_gone_back_to_is_not_pruned(stocked: World) -> None:
    releases, paths = Releases(str(stocked.root)), store.Paths(str(stocked.root))
    first, second = (f"{commit * 12}-{'d' * 12}" for commit in "ab")
    for name in (first, second):
        current(stocked, name)
        Path(releases.manifest(name)).write_text("{}")
        if name == first:
            goback.keep(paths, [], codeback.kept(paths.root, here=True))
    assert prune.prune(releases, 0, ()) == ([], [])
    goback.forget(paths)
    assert prune.prune(releases, 0, ()) == ([first], [])


def test_where_nothing_was_changed_nobody_is_asked_for_packages(
    stocked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    current(stocked, "first")
    code = kept(stocked)
    monkeypatch.setattr(codeback, "_installed", lambda: pytest.fail("the interpreter is asked"))
    put_back(stocked, code)


@pytest.mark.parametrize("code", [{}, {"release": 1}])
def test_what_makes_no_sense_is_told(stocked: World, code: dict[str, Any]) -> None:
    with pytest.raises(VerbError) as caught:
        put_back(stocked, code)
    assert caught.value.code == "damaged"
