"""``klops sync`` on a real host: what travels, what becomes current, what the container then imports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.host import sources
from tests.host.sources import PACKAGE, SITE, VENV, Ground, found_in, package
from tests.host.support import tree
from tests.rehearsals import MakeRehearsal

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

ROOT = f"{VENV}/src"
TARGETS = [{"root": ROOT}, {"package": PACKAGE}]
WHERE = f"import {PACKAGE}; print({PACKAGE}.VERSION, {PACKAGE}.__file__)"
#: Modules of the package, so that few of many can be changed.
MODULES = {f"m{number}": f"NUMBER = {number}\n" for number in range(20)}
FIRST: dict[str | bytes, bytes] = {
    **package("1", **MODULES),
    "run.sh": b"#!/bin/sh\r\necho it runs\r\n",
}


@pytest.fixture(scope="module")
def ground(make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A host without a service, reached by ssh."""
    with sources.ground(make_rehearsal, tmp_path_factory.mktemp("source"), transport="ssh") as made:
        made.container()
        yield made


@pytest.fixture
def begun(ground: Ground) -> Ground:
    """The same with a first release, also where the beginning of the story isn't run."""
    if not (ground.releases / "current").exists():
        ground.repo.commit(FIRST)
        ground.settings({"source": {"targets": TARGETS}})
        ground.sync()
    return ground


def tasks(done: Any) -> dict[str, dict[str, Any]]:
    """Of the only host, by action."""
    (host,) = done.json["hosts"]
    return {task["action"]: task["hosts"][host] for task in done.json["plays"][0]["tasks"]}


def changes(done: Any, action: str = "klops.source") -> str:
    """What such a task has changed, in lines."""
    return "\n".join(one["what"] for one in tasks(done)[action]["changes"])


def inodes(ground: Ground, release: str) -> dict[str, int]:
    top = ground.releases / release
    return {str(path.relative_to(top)): path.stat().st_ino for path in top.rglob("*") if path.is_file()}


# One story, in this order.


def test_a_sync_that_reaches_one_of_two_copies_is_caught(ground: Ground) -> None:
    ground.repo.commit(FIRST)
    assert ground.python(WHERE).startswith("image ")
    error = ground.fails("sync")
    assert error["code"] == "import-elsewhere"
    assert f"{VENV}/{SITE}/{PACKAGE}/__init__.py" in error["message"]
    assert f"{ground.releases}/" in error["message"]
    assert not (ground.releases / "current").exists()
    assert ground.python(WHERE).startswith("image ")


def test_with_both_as_targets_both_are_the_release(ground: Ground) -> None:
    ground.settings({"source": {"targets": TARGETS}})
    said = ground.sync()
    assert (said["files"], said["normalised"]) == (23, 1)
    commit = ground.repo.git("rev-parse", "HEAD").decode().strip()
    assert said["commit"] == commit
    assert said["release"] == f"{commit[:12]}-{said['digest'][:12]}" == ground.current.name
    assert ground.python(WHERE) == f"1 {VENV}/{SITE}/{PACKAGE}/__init__.py"
    assert (
        ground.python(f"import sys; sys.path.insert(0, {ROOT!r}); {WHERE}")
        == f"1 {ROOT}/{PACKAGE}/__init__.py"
    )
    assert ground.shipped()[b"run.sh"] == ("file", b"#!/bin/sh\necho it runs\n")
    assert "image" in (ground.site / f".klops-kept-{PACKAGE}/__init__.py").read_text()
    assert ground.litter() == []


def test_without_a_change_nothing_is_sent_and_nothing_written(ground: Ground) -> None:
    before = tree(ground.releases), tree(ground.site / PACKAGE)
    done = ground.run("sync")
    said = done.json["hosts"][ground.host.name]
    assert (said["sent_files"], said["sent_bytes"]) == (0, 0)
    assert done.json["remote_commands"][ground.host.name] <= 2
    assert {task["status"] for task in tasks(done).values()} <= {"ok", "skipped"}
    assert (tree(ground.releases), tree(ground.site / PACKAGE)) == before


def test_of_a_change_only_what_changed_travels(ground: Ground) -> None:
    first = ground.current.name
    changed: dict[str | bytes, bytes] = {
        f"{PACKAGE}/m{number}.py": b"CHANGED = True\n%d\n" % number for number in range(4)
    }
    changed["more/of it.txt"] = b"line\r\nends\r\n"
    ground.repo.commit(changed)
    before = tree(ground.host.root)
    dry = ground.run("sync", "--check", "--diff", "--detailed-exitcode", rc=3)
    assert tree(ground.host.root) == before
    shown = dry.stderr
    for path in (*changed, "line endings made LF: run.sh", "line endings made LF: more/of it.txt"):
        assert str(path) in shown, shown
    assert "m7.py" not in shown
    said = ground.sync()
    assert said["sent_files"] == 5
    assert said["sent_bytes"] == sum(len(data.replace(b"\r\n", b"\n")) for data in changed.values())
    assert said["normalised"] == 2
    old, new = inodes(ground, first), inodes(ground, said["release"])
    assert {path for path in new if old.get(path) != new[path]} == set(changed)
    assert ground.shipped()[b"more/of it.txt"] == ("file", b"line\nends\n")


@pytest.mark.long
def test_a_dirty_tree_is_refused_or_shipped_as_it_is_and_said_so(begun: Ground) -> None:
    now = begun.current.name
    begun.repo.write({f"{PACKAGE}/new.py": b"NEW = True\n", f"{PACKAGE}/m0.py": b"NOT COMMITTED\n"})
    error = begun.fails("sync")
    assert error["code"] == "dirty-tree"
    assert "m0.py" in error["message"]
    assert "new.py" in error["message"]
    assert begun.current.name == now
    said = begun.sync("--dirty")
    assert ".dirty-" in said["release"]
    assert said["sent_files"] == 2
    found = begun.shipped()
    assert found[b"vllm_kunlun/m0.py"] == ("file", b"NOT COMMITTED\n")
    assert found[b"vllm_kunlun/new.py"] == ("file", b"NEW = True\n")
    listed = {one["name"]: one for one in begun.object("releases")["releases"]}
    assert listed[said["release"]]["about"]["dirty"] is True
    begun.repo.checkout()
    begun.repo.git("clean", "-qfd")


BUILD = f"python -c \"open('{PACKAGE}/_C.so', 'wb').write(bytes(range(256)))\" && echo built $KLOPS_RELEASE"


def test_what_a_build_makes_is_in_a_release_of_its_own_and_made_once(ground: Ground) -> None:
    plain = ground.sync()["release"]
    source = ground.shipped()
    # it appends to what is tracked, too
    ground.settings({"source": {"build": {"commands": [BUILD, f"echo '# more' >> {PACKAGE}/m1.py"]}}})
    done = ground.run("sync")
    built = done.json["hosts"][ground.host.name]["release"]
    assert built.startswith(f"{plain}-b")
    assert f"build release {built}" in changes(done)
    found = ground.shipped()
    assert found[b"vllm_kunlun/_C.so"] == ("file", bytes(range(256)))
    assert found[b"vllm_kunlun/m1.py"][1] == source[b"vllm_kunlun/m1.py"][1] + b"# more\n"
    assert found_in(ground.releases / plain) == source
    assert f"built {built}" in (ground.host.root / f"log/build-{built}.log").read_text()
    # another commit and back: it is there
    ground.repo.commit({"README": b"read me\n"})
    other = ground.sync()["release"]
    assert other != built
    back = ground.run("sync", "--ref", "HEAD~1")
    assert ground.current.name == built
    assert "build release" not in changes(back)
    assert ground.litter() == []


def test_a_build_that_fails_never_becomes_current(ground: Ground) -> None:
    now, before = ground.current.name, ground.shipped()
    ground.settings(
        {"source": {"build": {"commands": ["echo so far >> run.sh", "echo no compiler; exit 7"]}}}
    )
    error = ground.fails("sync")
    assert error["code"] == "build-failed"
    assert "status 7" in error["message"]
    assert "no compiler" in error["message"]
    assert (ground.current.name, ground.shipped()) == (now, before)
    assert not [path for path in ground.releases.iterdir() if path.suffix == ".new"]
    ground.settings({"source": {"build": None}})


def test_old_releases_go_but_not_more_than_is_said(ground: Ground) -> None:
    ground.settings({"source": {"keep": 1}})
    before = ground.current.name
    done = ground.run("sync")
    now = ground.current.name
    left = {path.stem for path in ground.releases.glob("*.json")} - {"targets"}
    # what is gone back to, and one more
    assert {before, now} < left
    assert len(left) == 3
    assert "remove old release" in changes(done)
    assert {one["name"] for one in ground.object("releases")["releases"]} == left
    assert ground.litter() == []


def test_what_was_changed_by_hand_in_a_release_is_laid_down_anew(ground: Ground) -> None:
    wanted = ground.shipped()
    path = ground.current / PACKAGE / "m2.py"
    path.chmod(0o644)
    path.write_text("by hand\n")
    said = ground.sync()
    assert said["sent_files"] == 0  # what the build was made in is a copy of it, and whole
    assert ground.shipped() == wanted


@pytest.mark.long
def test_targets_that_are_no_longer_asked_for_are_taken_away(begun: Ground) -> None:
    begun.settings({"source": {"targets": [{"root": ROOT}]}})
    error = begun.fails("sync")  # the image's own is imported then, and not the release
    assert error["code"] == "import-elsewhere"
    assert begun.python(WHERE).startswith("1 ")
    begun.settings({"source": {"targets": [{"package": PACKAGE}]}})
    begun.sync()
    assert begun.inside("sh", "-c", f"test -L {ROOT} || echo gone") == "gone"
    assert json.loads((begun.releases / "targets.json").read_text())["targets"][0]["package"] == PACKAGE


@pytest.mark.long
def test_a_package_that_is_in_a_layer_of_the_image(
    make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """overlayfs can't rename such a folder: it is copied, and is there again when it is to be."""
    folder = tmp_path_factory.mktemp("layer")
    with sources.ground(make_rehearsal, folder, layer=True) as ground:
        ground.container()
        image = ground.python(f"import os; print(sorted(os.listdir('{VENV}/{SITE}/{PACKAGE}')))")
        ground.settings({"source": {"targets": [{"package": PACKAGE}]}})
        ground.repo.commit(package("1"))
        ground.sync()
        assert ground.python(WHERE) == f"1 {VENV}/{SITE}/{PACKAGE}/__init__.py"
        assert ground.inside("readlink", "-f", f"{VENV}/{SITE}/{PACKAGE}") == str(ground.current / PACKAGE)
        assert ground.sync()["sent_files"] == 0
        # what isn't asked for any more goes, and what was there is back
        ground.settings({"source": {"targets": [{"package": PACKAGE, "place": "pythonpath"}]}})
        ground.sync()
        assert ground.python(WHERE).startswith("image ")
        assert ground.python(f"import os; print(sorted(os.listdir('{VENV}/{SITE}/{PACKAGE}')))") == image
        assert ground.inside("sh", "-c", f"ls -A {VENV}/{SITE} | grep klops || echo none") == "none"
