"""A release becomes the current one, and what the container imports; what fails is put back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import verb as generations
from klops.agent.releases import activate, files, imports, known, locating, look, targets
from klops.agent.releases.standin import StandIn
from tests.unit.agent.killing import forked

from .world import File, World, in_own_mounts, install, package, release_of, tidy, writable

PACKAGE = {"package": "pkg"}


def imported(code: str = "import pkg; print(pkg.__file__)", **env: str) -> str:
    """What the container's Python says."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd="/",
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout.decode().strip()


def test_the_link_is_swapped_and_says_from_what(world: World) -> None:
    first = world.send(package("first"))["name"]
    told = world.activate(first)
    assert (told["before"], told["changed"]) == (None, [f"current: none -> {first}"])
    second = world.send(package("second"))["name"]
    told = world.activate(second)
    assert (told["before"], told["changed"]) == (first, [f"current: {first} -> {second}"])
    assert world.current == second
    assert world.activate(second)["changed"] == []
    assert world.activate(first)["before"] == second
    noted = [json.loads(line) for line in (world.root / "audit.jsonl").read_text().splitlines()]
    assert [(one["event"], one["was"], one["release"]) for one in noted] == [
        ("release", None, first),
        ("release", first, second),
        ("release", second, first),
    ]
    assert world.litter() == []


def test_one_that_is_not_there_or_damaged_is_no_release_to_go_to(world: World) -> None:
    first, second = world.sync(package("first")), world.send(package("second"))["name"]
    with pytest.raises(VerbError) as caught:
        world.activate("c0ffeec0ffee-000000000000")
    assert caught.value.code == "no-release"
    writable(world.path(second) / "pkg/same.py")
    with (world.path(second) / "pkg/same.py").open("a") as file:
        file.write("x")
    with pytest.raises(VerbError, match=r"1 files .* pkg/same\.py \(changed\)") as caught:
        world.activate(second)
    assert caught.value.code == "damaged-release"
    assert world.current == first


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_lies_in_the_place_of_the_link_is_named(world: World, what: str) -> None:
    name, current = world.sync(package("first")), Path(world.places.current)
    current.unlink()
    if what == "folder":
        current.mkdir()
    else:
        current.touch()
    for call in (lambda: look.look(world.places, verify=False, wanted=None), lambda: world.activate(name)):
        with pytest.raises(VerbError, match=f"{current} is a {what}") as caught:
            call()
        assert caught.value.code == "target-occupied"
        assert "move it away" in caught.value.hint


def test_one_that_is_removed_while_it_is_looked_at_is_not_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.sync(package("first"))
    there = known.whole(world.places)
    monkeypatch.setattr(known, "whole", lambda places: [*there, "c0ffeec0ffee-000000000000"])
    found = look.look(world.places, verify=False, wanted=None)
    assert ([one["name"] for one in found["releases"]], found["broken"]) == ([name], [])


def test_a_root_is_a_link_that_follows(world: World, tmp_path: Path) -> None:
    root = tmp_path / "workspace" / "vllm-kunlun"
    first = world.sync(package("first"), targets=[{"root": str(root)}])
    assert root.resolve() == world.path(first)
    second = world.sync(package("second"), targets=[{"root": str(root)}])
    assert "second" in (root / "pkg/__init__.py").read_text()
    # one that is not asked for any more is taken away
    told = world.activate(second)
    assert told["changed"] == [f"{root} is gone"]
    assert not root.is_symlink()


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_somebody_else_put_at_a_root_stays(world: World, tmp_path: Path, kind: str) -> None:
    first, root = world.sync(package("first")), tmp_path / "workspace"
    if kind == "folder":
        root.mkdir()
    elif kind == "file":
        root.touch()
    else:
        root.symlink_to("/etc")
    name = world.send(package("second"))["name"]
    with pytest.raises(VerbError, match=str(root)) as caught:
        world.activate(name, targets=[{"root": str(root)}])
    assert caught.value.code == "target-occupied"
    assert world.current == first
    assert root.is_symlink() == (kind == "link")


def test_an_installed_package_is_kept_and_comes_back(world: World, site: Path) -> None:
    install(site, "installed")
    name = world.send(package("first"))["name"]
    told = world.activate(name, targets=[PACKAGE])
    assert told["imports"] == [
        {"package": "pkg", "file": str(site / "pkg/__init__.py"), "ok": True, "why": ""}
    ]
    assert Path(imported()).resolve() == world.path(name) / "pkg/__init__.py"
    assert "installed" in (site / ".klops-kept-pkg/__init__.py").read_text()
    # the next release is imported at once, by the same link
    second = world.sync(package("second"), targets=[PACKAGE])
    assert Path(imported()).resolve() == world.path(second) / "pkg/__init__.py"
    assert world.activate(second, targets=[PACKAGE])["changed"] == []
    with pytest.raises(VerbError):  # the one that is installed would be imported again
        world.activate(second)
    assert Path(imported()).resolve() == world.path(second) / "pkg/__init__.py"
    world.activate(world.send({"other.txt": File(b"no package")})["name"])
    assert imported() == str(site / "pkg/__init__.py")
    assert "installed" in (site / "pkg/__init__.py").read_text()
    assert [path.name for path in site.iterdir() if "klops" in path.name] == []
    assert known.damage(world.places.tree(second), known.load(world.places, second)) == []


@pytest.mark.parametrize("place", ["site-packages", "pythonpath"])
def test_targets_can_be_taken_away_for_the_copy_that_is_installed(
    world: World, site: Path, place: str
) -> None:
    install(site, "installed")
    name = world.sync(package("first"), targets=[{**PACKAGE, "place": place}])
    told = world.activate(name, targets=[], imports=False)
    assert (told["before"], told["imports"], world.current) == (name, [], name)
    assert imported() == str(site / "pkg/__init__.py")
    assert activate.recorded(world.places) == []


def killed_before_python_is_asked(world: World, tree: Any, **more: Any) -> str:
    """The name of a release that was made the current one, by a run that was killed then."""
    name = str(world.send(tree)["name"])

    def call() -> tuple[int, str]:
        world.activate(name, **more)
        return 0, ""

    assert forked(call, [(imports, "look")], 1)[0] == -signal.SIGKILL
    assert world.current == name
    return name


def test_what_a_killed_run_left_unproven_is_not_gone_back_to(
    world: World, site: Path, tmp_path: Path
) -> None:
    root = {"root": str(tmp_path / "workspace")}
    good = world.sync({"readme.md": File(b"no package")}, targets=[root])
    install(site, "installed")
    refused = killed_before_python_is_asked(world, package("first"))
    # asked for again it is refused, and what was good stands
    with pytest.raises(VerbError, match="is imported from"):
        world.activate(refused)
    assert (world.current, activate.recorded(world.places)) == (good, [targets.read([root])[0]])
    assert Path(root["root"]).resolve() == world.path(good)
    # so it is when another one follows, and fails
    killed_before_python_is_asked(world, package("first"))
    with pytest.raises(VerbError, match="is imported from"):
        world.activate(world.send(package("second"))["name"])
    assert world.current == good
    # one that is good says from what it came
    killed_before_python_is_asked(world, package("first"))
    told = world.activate(refused, targets=[PACKAGE])
    assert (told["before"], world.current) == (good, refused)


def test_what_a_killed_run_left_and_python_imports_is_gone_back_to(world: World, site: Path) -> None:
    world.sync({"readme.md": File(b"no package")})
    install(site, "installed")
    left = killed_before_python_is_asked(world, package("first"), targets=[PACKAGE])
    with pytest.raises(VerbError, match="has no folder"):
        world.activate(world.send(package("second"))["name"], targets=[{**PACKAGE, "path": "other"}])
    with pytest.raises(VerbError, match="is imported from"):
        world.activate(world.send(package("second"))["name"])
    assert (world.current, activate.recorded(world.places)) == (left, targets.read([PACKAGE]))
    assert Path(imported()).resolve() == world.path(left) / "pkg/__init__.py"


def test_a_package_in_two_places_of_which_one_is_reached_is_caught(
    world: World, site: Path, tmp_path: Path
) -> None:
    install(site, "installed")
    before = world.sync({"pkg.txt": File(b"no package")})
    name = world.send(package("first"))["name"]
    for wanted in ([], [{"root": str(tmp_path / "workspace")}]):
        with pytest.raises(VerbError) as caught:
            world.activate(name, targets=wanted)
        assert caught.value.code == "import-elsewhere"
        assert str(site / "pkg/__init__.py") in caught.value.message
        assert str(world.path(name) / "pkg/__init__.py") in caught.value.message
        assert world.current == before
        assert not (tmp_path / "workspace").is_symlink()
        assert activate.recorded(world.places) == []
    # where units have the tree before all others, it is the one
    assert world.activate(name, paths=[""])["imports"][0]["ok"]


def test_a_first_release_that_is_not_imported_is_not_the_current_one(world: World, site: Path) -> None:
    install(site, "installed")
    name = world.send(package("first"))["name"]
    with pytest.raises(VerbError, match="is imported from"):
        world.activate(name)
    assert not Path(world.places.current).is_symlink()


def test_an_editable_install_is_found_too(world: World, site: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    install(tmp_path / "elsewhere", "editable")
    (site / "editable.pth").write_text(str(tmp_path / "elsewhere") + "\n")
    name = world.send(package("first"))["name"]
    with pytest.raises(VerbError, match="elsewhere"):
        world.activate(name)
    # a link where it would be installed doesn't help as long as it is found first
    world.activate(name, targets=[PACKAGE])
    assert Path(imported()).resolve() == world.path(name) / "pkg/__init__.py"


def test_by_pythonpath_the_installed_one_stays_where_it_is(world: World, site: Path) -> None:
    install(site, "installed")
    tree = {f"src/{path}": one for path, one in package("first").items()}
    name = world.send(tree)["name"]
    target = {"package": "pkg", "path": "src/pkg", "place": "pythonpath"}
    told = world.activate(name, targets=[target])
    assert told["imports"][0] == {
        "package": "pkg",
        "file": str(world.path(name) / "src/pkg/__init__.py"),
        "ok": True,
        "why": "",
    }
    assert imported() == str(site / "pkg/__init__.py")


def test_a_package_below_another_and_one_without_init(world: World, site: Path) -> None:
    tree = {
        "lib/deep/__init__.py": File(b"raise SystemExit('it was run')\n"),
        "space/mod.py": File(b"x = 1\n"),
    }
    (site / "top").mkdir()
    (site / "top/__init__.py").write_text("")
    wanted = [{"package": "top.deep", "path": "lib/deep"}, {"package": "space"}]
    told = world.activate(world.send(tree)["name"], targets=wanted)
    assert [one["ok"] for one in told["imports"]] == [True, True]
    assert (site / "top/deep").is_symlink()
    assert imported("import space.mod; print(space.mod.__file__)") == str(site / "space/mod.py")


def test_one_without_init_below_another(world: World, site: Path) -> None:
    """Such a package asks for the path of what it is in, which is not imported."""
    install(site, "installed", "top")
    tree = {"lib/ops/mod.py": File(b""), "lib/ops/in/mod.py": File(b"")}
    wanted = [{"package": "top.ops", "path": "lib/ops"}, {"package": "top.ops.in", "path": "lib/ops/in"}]
    told = world.activate(world.send(tree)["name"], targets=wanted[:1])
    assert [one["ok"] for one in told["imports"]] == [True]
    assert imported("import top.ops.mod; print(top.ops.mod.__file__)") == str(site / "top/ops/mod.py")
    found = locating.ask([one["package"] for one in (*wanted, *wanted)], [])["found"]
    assert found == {"top.ops": str(site / "top/ops"), "top.ops.in": str(site / "top/ops/in")}


def test_one_that_python_does_not_find_is_an_error(world: World, site: Path) -> None:
    name = world.send({"pkg/data.txt": File(b""), "pkg/__init__.py": File(b"")})["name"]
    with pytest.raises(VerbError) as caught:
        world.activate(name, targets=[{"package": "pkg", "path": "other"}])
    assert caught.value.code == "no-such-path"


def test_a_python_that_does_not_answer_leaves_all_as_it_was(
    world: World, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "broken.pth").write_text("import os; os._exit(3)\n")
    first = world.sync({"a.txt": File(b"")})
    name = world.send(package("first"))["name"]
    with pytest.raises(VerbError, match="ended with status 3") as caught:
        world.activate(name, targets=[PACKAGE])
    assert caught.value.code == "no-answer"
    assert world.current == first
    assert not (site / "pkg").is_symlink()


def test_what_the_image_prints_at_start_is_no_answer(world: World, site: Path) -> None:
    (site / "noise.pth").write_text("import sys; print('[1, 2]'); sys.stdout.flush()\n")
    assert world.activate(world.send(package("first"))["name"], targets=[PACKAGE])["imports"][0]["ok"]


def test_nor_is_what_it_prints_at_its_end(world: World, site: Path) -> None:
    (site / "noise.pth").write_text("import atexit; atexit.register(print, 'bye')\n")
    assert world.activate(world.send(package("first"))["name"], targets=[PACKAGE])["imports"][0]["ok"]


def test_a_python_that_says_something_else_has_not_answered(world: World, site: Path) -> None:
    name = world.send(package("first"))["name"]
    (site / "ends.pth").write_text("import os; os.write(1, b'good bye\\n'); os._exit(0)\n")
    with pytest.raises(VerbError, match="said 'good bye' last") as caught:
        world.activate(name, targets=[PACKAGE])
    assert caught.value.code == "no-answer"


def test_the_verb_tells_what_is_there_and_what_is_imported(world: World, site: Path) -> None:
    empty = look.look(world.places, verify=True, wanted=None)
    assert empty == {
        "current": None,
        "releases": [],
        "broken": [],
        "incoming": [],
        "damage": [],
        "targets": None,
        "imports": None,
    }
    assert not world.root.exists()
    wanted = [{"root": str(world.root.parent / "workspace")}, PACKAGE]
    first = world.sync(package("first"), targets=wanted)
    second = world.send(package("second"))["name"]
    world.offer(package("third"))
    told = look.look(world.places, verify=True, wanted=targets.read(wanted))
    assert told["current"] == first
    assert [(one["name"], one["built"], one["bytes"]) for one in told["releases"]] == [
        (first, False, len("which = 'first'\nsame = 1\n")),
        (second, False, len("which = 'second'\nsame = 1\n")),
    ]
    assert len(told["incoming"]) == 1
    assert [one["ok"] for one in (*told["targets"], *told["imports"])] == [True] * 3
    # a new container of the image: there is the package that it brings
    (site / "pkg").unlink()
    install(site, "installed")
    writable(world.path(first) / "pkg/same.py")
    (world.path(first) / "pkg/same.py").unlink()
    told = look.look(world.places, verify=True, wanted=targets.read(wanted))
    assert [one["ok"] for one in (*told["targets"], *told["imports"])] == [True, False, False]
    assert told["damage"] == [{"path": "pkg/same.py", "problem": "missing"}]
    assert look.look(world.places, verify=False, wanted=None)["damage"] is None


def test_a_target_that_is_not_asked_for_any_more_is_told(world: World, site: Path) -> None:
    root = str(world.root.parent / "workspace")
    world.sync(package("first"), targets=[{"root": root}, PACKAGE])
    told = look.look(world.places, verify=False, wanted=targets.read([PACKAGE]))
    assert [(one["at"], one["ok"]) for one in told["targets"]] == [(str(site / "pkg"), True), (root, False)]


@pytest.mark.parametrize(
    "value",
    [
        "pkg",
        [["pkg"]],
        [{"root": "relative"}],
        [{"root": "/a/../b"}],
        [{"package": "pkg", "path": "../x"}],
        [{"package": "../x"}],
        [{"package": "pkg", "place": "elsewhere"}],
        [{"package": "pkg", "path": "src/other", "place": "pythonpath"}],
        [{"package": "pkg", "root": "/x"}],
        [{}],
    ],
    ids=str,
)
def test_targets_are_checked(value: Any) -> None:
    with pytest.raises(VerbError) as caught:
        targets.read(value)
    assert caught.value.code == "usage"


# -- a link where a folder was


class Place:
    """A folder of packages that belongs to nobody."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.release = folder / "current"
        (self.site / "pkg").mkdir(parents=True)
        (self.site / "pkg/__init__.py").write_text("installed")
        (self.release / "pkg").mkdir(parents=True)
        (self.release / "pkg/__init__.py").write_text("release")

    @property
    def standin(self) -> StandIn:
        """Anew for each verb."""
        return StandIn(str(self.site / "pkg"), str(self.release / "pkg"), str(self.release))

    def put(self) -> None:
        """A verb that puts the link there."""
        self.standin.put()

    def take_away(self) -> None:
        """A verb that takes it away."""
        self.standin.take_away()

    @property
    def text(self) -> str:
        """What is imported."""
        return (self.site / "pkg/__init__.py").read_text()

    def names(self) -> list[str]:
        """What lies there."""
        return sorted(path.name for path in self.site.iterdir())


class Killed(BaseException):
    """The process is gone at this point."""


CALLS = ("rename", "replace", "symlink", "unlink", "rmdir", "mkdir", "close")


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch, action: Any) -> bool:
    """Do something, and be gone before a change of the disk of that number; False when it came to its end."""
    count = 0

    def counted(call: Any) -> Any:
        def instead(*args: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                raise Killed
            return call(*args, **more)

        return instead

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(files, "exchange", counted(files.exchange))
        try:
            action()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("how", ["exchange", "rename", "copy"])
def test_it_can_be_ended_at_every_point_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    whole = os.rename

    def rename(source: Any, target: Any) -> None:
        # as overlayfs does it for a folder of a lower layer
        if how == "copy" and os.fsencode(source).endswith(b"/pkg") and Path(os.fsdecode(source)).is_dir():
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        whole(source, target)

    if how != "exchange":
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
        monkeypatch.setattr(os, "rename", rename)
    points = 0
    for number in range(1, 60):
        place = Place(tmp_path / f"{how}{number}")
        ended = not killed_at(number, monkeypatch, place.put)
        if how == "exchange":
            assert place.text in ("installed", "release")
        assert not killed_at(0, monkeypatch, place.put)
        assert place.names() == [".klops-kept-pkg", "pkg"]
        assert (place.text, place.standin.stands) == ("release", True)
        assert (place.site / ".klops-kept-pkg/__init__.py").read_text() == "installed"
        back = not killed_at(number, monkeypatch, place.take_away)
        place.take_away()
        assert (place.names(), place.text) == (["pkg"], "installed")
        points = number
        if ended and back:
            break
    assert points > 3


def test_what_is_installed_over_the_link_is_kept_beside_what_was(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.standin.put()
    (place.site / "pkg").unlink()
    (place.site / "pkg").mkdir()
    (place.site / "pkg/__init__.py").write_text("installed later")
    place.standin.put()
    assert place.names() == [".klops-kept-pkg", ".klops-kept-pkg.1", "pkg"]
    assert (place.site / ".klops-kept-pkg.1/__init__.py").read_text() == "installed"
    place.standin.take_away()
    assert place.text == "installed later"


def test_a_link_of_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    place = Place(tmp_path)
    shutil.rmtree(place.site / "pkg")
    (place.site / "pkg").symlink_to("/elsewhere/pkg")
    with pytest.raises(VerbError, match="a link to /elsewhere/pkg"):
        place.standin.check(replace=True)


def test_no_link_is_made_behind_one_that_leads_into_the_release(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "workspace").symlink_to(place.release)
    nested = StandIn(str(tmp_path / "workspace/pkg/b"), str(place.release), str(place.release))
    with pytest.raises(VerbError, match="leads into a release") as caught:
        nested.check(replace=True)
    assert caught.value.code == "target-occupied"


_OVERLAY = """
mkdir -p "$1/lower/pkg" "$1/over" "$1/site"
echo installed > "$1/lower/pkg/__init__.py"
mount -t tmpfs tmpfs "$1/over" && mkdir "$1/over/upper" "$1/over/scratch" || exit 77
layers="lowerdir=$1/lower,upperdir=$1/over/upper,workdir=$1/over/scratch"
mount -t overlay overlay -o "$layers,redirect_dir=off" "$1/site" || exit 77
exec "$2" -c "$3" "$1"
"""
_ON_OVERLAY = """
import errno, os, sys
from klops.agent.releases.standin import StandIn
folder = sys.argv[1]
try:
    os.rename(folder + "/site/pkg", folder + "/site/other")
    sys.exit("a folder of a lower layer can be renamed here")
except OSError as error:
    assert error.errno == errno.EXDEV, error
os.makedirs(folder + "/current/pkg")
with open(folder + "/current/pkg/__init__.py", "w") as file:
    file.write("release\\n")
made = lambda: StandIn(folder + "/site/pkg", folder + "/current/pkg", folder + "/current")
print(made().put())
read = lambda path: open(folder + "/site/" + path).read().strip()
print(read("pkg/__init__.py"), read(".klops-kept-pkg/__init__.py"), made().stands)
made().take_away()
print(read("pkg/__init__.py"), sorted(os.listdir(folder + "/site")))
"""


def test_a_package_of_a_lower_layer_of_the_image(tmp_path: Path) -> None:
    lines = in_own_mounts(_OVERLAY, _ON_OVERLAY, tmp_path)
    assert "what was there is kept" in lines[0]
    assert lines[1:] == ["release installed True", "installed ['pkg']"]


# -- old releases


def state(world: World, name: str, release: str, now: str = "ready") -> None:
    """A unit that runs from a release."""
    paths = store.Paths(str(world.root))
    paths.make()
    store.write_json(paths.state(name), {"state": now, "release": release})


def plain(number: int) -> dict[str, File]:
    """A tree of which Python has nothing to import."""
    return {"number": File(b"%d" % number)}


def test_old_ones_go_but_not_those_that_are_used(world: World) -> None:
    names = [world.sync(plain(number), keep=9) for number in range(8)]
    state(world, "serving", names[0])
    state(world, "over", names[2], now="stopped")
    told = world.activate(names[7], keep=2, protect=[names[1]])
    assert sorted(told["pruned"]) == sorted(names[2:5])
    assert set(known.whole(world.places)) == {names[0], names[1], *names[5:]}
    # the one that was current last is the newest of the others, whenever it arrived
    world.activate(names[0], keep=9)
    state(world, "serving", names[0], now="stopped")
    told = world.activate(names[6], keep=1)
    assert set(told["pruned"]) == {names[1], names[5], names[7]}
    assert set(known.whole(world.places)) == {names[0], names[6]}
    assert world.litter() == []


def test_those_that_never_ran_take_no_place_of_those_that_did(world: World) -> None:
    """Each comes later than these, and fails to become the current one."""
    ran = [world.sync(plain(number), keep=2) for number in range(3)]
    for number in range(10, 13):
        tree = plain(number)
        nowhere = {"name": release_of(tree).name, "targets": [{"package": "no", "path": "no"}]}
        with pytest.raises(VerbError, match="has no folder no"):
            world.send(tree, request=nowhere)
        assert world.current == ran[2]
    assert len(known.whole(world.places)) == 6
    # one of them that does at last is like any other
    last = world.sync(plain(10), keep=2)
    assert known.whole(world.places) == [last, ran[2], ran[1]]


def test_one_that_is_laid_down_anew_keeps_its_place(world: World) -> None:
    ran = [world.sync(plain(number), keep=9) for number in range(3)]
    for name, number in ((ran[0], 0), (ran[2], 2)):
        writable(world.path(name) / "number")
        (world.path(name) / "number").write_text("by hand")
        assert not world.send(plain(number))["whole"]
    assert known.whole(world.places) == ran[::-1]
    # the one that runs was lost as a whole, and is used as soon as it is there again
    tidy(world.path(ran[2]))
    world.send(plain(2), request={"name": ran[2]})
    assert known.whole(world.places) == ran[::-1]


def test_what_a_way_back_led_to_was_used_last(world: World) -> None:
    good, failing = world.sync(plain(0), keep=1), world.sync(plain(1), keep=1)
    activate.go_back(world.places, good, [])
    last = world.sync(plain(2), keep=1)
    assert known.whole(world.places) == [last, good]
    assert failing not in known.whole(world.places)


def test_the_one_of_the_last_good_generation_stays(world: World) -> None:
    names = [world.sync(plain(0), keep=9)]
    generations.note(str(world.root), '{"health": "good"}')
    names.append(world.sync(plain(1), keep=9))
    generations.note(str(world.root), '{"health": "bad"}')
    names.append(world.sync(plain(2), keep=0))
    assert set(known.whole(world.places)) == {names[0], names[2]}
    # what stands is good by now, and so nobody goes back to the first
    generations.note(str(world.root), '{"health": "good"}')
    names.append(world.sync(plain(3), keep=0))
    assert set(known.whole(world.places)) == set(names[2:])


def test_a_clock_that_goes_back_makes_no_newer_release_old(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [world.sync(plain(0), keep=9)]
    for hours in (1, 2, 3):
        monkeypatch.setattr("time.time_ns", lambda at=hours: 10**18 - at * 3600 * 10**9)
        names.append(world.sync(plain(hours), keep=9))
    assert known.whole(world.places) == names[::-1]


def test_where_it_is_not_known_what_runs_nothing_is_removed(world: World) -> None:
    names = [world.sync(plain(number), keep=9) for number in range(3)]
    paths = store.Paths(str(world.root))
    paths.make()
    Path(paths.state("serving")).write_text("{")
    told = world.activate(names[2], keep=0)
    assert told["pruned"] == []
    assert "no old release was removed" in told["notes"][0]
    assert set(known.whole(world.places)) == set(names)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 1, "targets": [7]}'])
def test_damaged_notes_on_targets_are_set_aside_and_told(world: World, tmp_path: Path, text: str) -> None:
    root = {"root": str(tmp_path / "workspace")}
    name, notes = world.sync(package("first"), targets=[root]), Path(world.places.targets)
    notes.write_text(text)
    # whoever looks is told that something isn't in place
    found = look.look(world.places, verify=False, wanted=targets.read([root]))
    assert [(one["at"], one["ok"]) for one in found["targets"]] == [(root["root"], True), (str(notes), False)]
    (said,) = world.activate(name, targets=[root])["notes"]
    assert f"{notes} is damaged" in said
    assert f"{notes}.damaged" in said
    assert Path(f"{notes}.damaged").read_text() == text
    assert activate.recorded(world.places) == targets.read([root])
    assert world.activate(name, targets=[root])["notes"] == []


def test_notes_on_targets_of_a_newer_klops_are_not_set_aside(world: World) -> None:
    name = world.sync(package("first"))
    Path(world.places.targets).write_text('{"schema": 99, "targets": []}')
    with pytest.raises(VerbError) as caught:
        world.activate(name)
    assert caught.value.code == "newer-schema"


@pytest.mark.parametrize("call", ["rmdir", "rename"])
def test_what_can_not_be_removed_is_a_note_and_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A file on NFS that somebody has open, a folder that something is mounted in."""
    names = [world.sync(plain(number), keep=9) for number in range(4)]
    whole = getattr(os, call)

    def instead(path: Any, *more: Any) -> None:
        if os.fsencode(names[0]) in os.fsencode(path):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        whole(path, *more)

    monkeypatch.setattr(os, call, instead)
    told = world.activate(names[3], keep=1)
    assert told["pruned"] == ([names[1], names[0]] if call == "rmdir" else [names[1]])
    (note,) = told["notes"]
    assert names[0] in note
    assert "Device or resource busy" in note
    # the next sync says so, too, and goes on
    assert world.send(plain(9))["notes"] == ([note] if call == "rmdir" else [])
    assert known.whole(world.places)[:2] == [names[3], names[2]]
    monkeypatch.setattr(os, call, whole)
    assert world.activate(names[3], keep=1)["notes"] == []
    assert not any(names[0] in name for name in world.litter())


def test_what_is_no_release_of_klops_is_left_alone(world: World) -> None:
    name = world.sync(plain(0))
    folder = world.root / "releases"
    (folder / "by hand").mkdir()
    (folder / "notes.txt").write_text("mine")
    half = folder / "c0ffeec0ffee-0123456789ab"
    half.mkdir()
    (folder / "c0ffeec0ffee-ba9876543210-b01234567.json").write_text("{}")
    (folder / "current.77.new").symlink_to("x")
    world.activate(name)
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == sorted(
        ["by hand", "notes.txt", "current", name, name + ".json"]
    )


def test_two_at_once_is_one_too_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klops.agent.releases.places.PATIENCE", 0.0)
    with world.places.alone("build"), pytest.raises(VerbError, match=f"build, pid {os.getpid()}") as caught:
        world.offer(plain(0))
    assert caught.value.code == "releases-busy"
    world.offer(plain(0))
