"""Of a tree what lacks is sent, and it lies there as its manifest says."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import kept
from klops.agent.releases import files, known, laying, send
from klops.agent.releases.stream import Gone

from .world import COMMITTED, File, Link, World, heard, on_disk, package, reader, release_of, tidy, writable

TREE: dict[str, File | Link] = {
    "run.sh": File(b"#!/bin/sh\n", executable=True),
    "pkg/__init__.py": File(b""),
    "pkg/a.py": File(b"a = 1\n"),
    "pkg/deep/b.bin": File(bytes(range(256)) * 40),
    "pkg/deep/same.bin": File(bytes(range(256)) * 40),
    "same, to be run": File(bytes(range(256)) * 40, executable=True),
    "empty": File(b""),
    "to a": Link(b"pkg/a.py"),
    "odd \udcff\n\\name": File(b"odd"),
}


def test_all_of_it_lies_there_read_only_with_the_time_of_its_commit(world: World) -> None:
    told = world.offer(TREE)
    # each content once: that of three files, and that of two which are empty
    assert len(told["lacking"]) == 6
    assert told["bytes"] == sum(release_of(TREE).entries[index].size for index in told["lacking"])
    done = world.send(TREE)
    assert done == {
        "name": release_of(TREE).name,
        "whole": False,
        "files": 6,
        "bytes": told["bytes"],
        "linked": 0,
        "notes": [],
        "activated": None,
        "generation": None,
    }
    folder = world.path(done["name"])
    assert on_disk(folder) == TREE
    files_of = [path.stat() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    # so that a change by hand is one change
    assert len({status.st_ino for status in files_of}) == len(files_of)
    modes = {path.stat().st_mode & 0o7777 for path in folder.rglob("*") if not path.is_symlink()}
    assert modes == {0o444, 0o555}
    assert folder.stat().st_mode & 0o7777 == 0o555
    assert {path.lstat().st_mtime for path in [folder, *folder.rglob("*")]} == {COMMITTED}
    assert known.load(world.places, done["name"]) == release_of(TREE)
    assert world.litter() == []
    assert world.damage(done["name"]) == []


def test_what_is_there_is_neither_sent_nor_written_again(world: World) -> None:
    name = world.send(TREE)["name"]
    before = {path: path.lstat().st_ino for path in world.path(name).rglob("*")}
    assert world.offer(TREE) == {"lacking": [], "bytes": 0}
    done = world.send(TREE)
    assert (done["whole"], done["files"]) == (True, 0)
    assert {path: path.lstat().st_ino for path in world.path(name).rglob("*")} == before
    assert world.litter() == []


def test_another_release_shares_what_is_the_same(world: World) -> None:
    first = world.send(TREE)["name"]
    other = {**TREE, "pkg/a.py": File(b"a = 2\n"), "run.sh": File(b"#!/bin/sh\n", executable=False)}
    assert world.lacks(other) == ["pkg/a.py"]
    done = world.send(other)
    assert on_disk(world.path(done["name"])) == other
    assert on_disk(world.path(first)) == TREE
    shared = {
        path
        for path in other
        if not isinstance(other[path], Link)
        and (world.path(first) / path).samefile(world.path(done["name"]) / path)
    }
    # one that has another mode can't be shared: that is one for all names of a file
    assert shared == set(other) - {"pkg/a.py", "run.sh", "to a"}
    assert done["linked"] == len(shared)
    assert world.damage(first) == world.damage(done["name"]) == []


def test_a_file_changed_by_hand_is_not_shared(world: World) -> None:
    first = world.path(world.send(TREE)["name"])
    writable(first / "pkg/a.py")
    (first / "pkg/a.py").write_text("a = 3\n")
    (first / "pkg/a.py").chmod(0o444)
    other = {**TREE, "more": File(b"more")}
    assert set(world.lacks(other)) == {"more", "pkg/a.py"}
    assert on_disk(world.path(world.send(other)["name"])) == other
    assert (first / "pkg/a.py").read_text() == "a = 3\n"


@pytest.mark.parametrize("refused", [files.UNABLE[2], files.UNABLE[-1]], ids=os.strerror)
def test_where_no_link_can_be_made_it_is_a_copy(
    world: World, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    first = world.send(TREE)["name"]

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(os, "link", refuse)
    other = {**TREE, "more": File(b"more")}
    done = world.send(other)
    assert (done["files"], done["linked"]) == (1, 0)
    assert on_disk(world.path(done["name"])) == other
    assert not (world.path(first) / "pkg/a.py").samefile(world.path(done["name"]) / "pkg/a.py")


@pytest.mark.parametrize("exchange", [True, False])
def test_a_damaged_release_is_laid_down_anew_while_it_is_the_current_one(
    world: World, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    name = world.sync(TREE)
    folder = world.path(name)
    for path in ("pkg/a.py", "run.sh", "empty", "pkg/extra.py"):
        writable(folder / path)
    (folder / "pkg/a.py").write_text("a = 3\n")
    (folder / "empty").unlink()
    (folder / "pkg/extra.py").touch()
    (folder / "pkg/__pycache__").mkdir()
    (folder / "pkg/__pycache__/a.cpython-38.pyc").touch()
    found = {one["path"]: one["problem"] for one in world.damage(name)}
    assert found == {
        "pkg/a.py": "changed",
        "run.sh": "mode",
        "empty": "missing",
        "pkg/extra.py": "extra",
    }
    with (folder / "pkg/a.py").open() as running:
        # of the empty ones another is there
        assert world.lacks(TREE) == ["pkg/a.py"]
        world.send(TREE)
        assert running.read() == "a = 3\n"
    assert world.damage(name) == []
    assert on_disk(folder) == TREE
    assert world.litter() == []
    assert world.current == name


def test_a_file_of_another_kind_is_damage(world: World) -> None:
    folder = world.path(world.send(TREE)["name"])
    writable(folder / "run.sh")
    (folder / "run.sh").unlink()
    os.mkfifo(folder / "run.sh")
    (folder / "to a").unlink()
    (folder / "to a").write_bytes(b"pkg/a.py")
    (folder / "empty").unlink()
    (folder / "empty").symlink_to("/etc/hostname")
    found = {one["path"]: one["problem"] for one in world.damage(folder.name)}
    assert found == dict.fromkeys(["run.sh", "to a", "empty"], "changed")
    world.send(TREE)
    assert on_disk(folder) == TREE


def test_a_manifest_that_can_not_be_read_is_written_anew(world: World) -> None:
    name = world.sync(TREE)
    manifest = world.root / "releases" / (name + ".json")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-40])
    assert not world.send(TREE)["whole"]
    assert manifest.read_bytes() == whole
    assert world.damage(name) == []


# -- streams that are not as they should be


def cut_at(part: float) -> Callable[[bytes], bytes]:
    """Of a stream so much, never all of it."""
    return lambda data: data[: int(part * (len(data) - 1))]


def noted(told: list[Any]) -> Callable[[Any], bool]:
    """Somebody who writes down what is told."""

    def tell(value: Any) -> bool:
        told.append(value)
        return True

    return tell


def test_a_stream_cut_anywhere_leaves_what_runs_and_what_has_arrived(world: World, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    running = world.sync(package("old"))
    other = {f"f{number}": File(bytes(dice.choices(range(256), k=700))) for number in range(40)}
    lacking, cuts = 40, [0.0, 1.0, *(dice.random() for _ in range(30))]
    for part in sorted(cuts):
        told = world.offer(other)
        # it only becomes less
        assert len(told["lacking"]) <= lacking
        lacking = len(told["lacking"])
        if not lacking:
            break  # the last cut was just before the end
        with pytest.raises(VerbError) as caught:
            world.send(other, cut_at(part))
        assert caught.value.code == "stream-cut"
        assert world.current == running
        assert not world.path(release_of(other).name).exists()
        assert world.damage(running) == []
    assert lacking < 40
    assert world.send(other)["files"] <= lacking
    assert on_disk(world.path(release_of(other).name)) == other
    assert world.litter() == []


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda data: data + b"more", "stream-cut"),
        (lambda data: gzip.compress(gzip.decompress(data) + b"x"), "stream-cut"),
        (lambda data: gzip.compress(gzip.decompress(data)[:-1]), "stream-cut"),
        (lambda data: data[:-1], "stream-cut"),
        (lambda data: data[:-8] + bytes(8), "stream-cut"),
        (lambda data: b"", "stream-cut"),
        (lambda data: b"not compressed", "stream-cut"),
        (lambda data: gzip.compress(bytes(len(gzip.decompress(data)))), "content-changed"),
    ],
    ids=["tail", "too much", "too little", "no end", "wrong end", "nothing", "plain", "other"],
)
def test_a_stream_that_is_not_what_was_lacking_is_refused(world: World, spoil: Any, code: str) -> None:
    with pytest.raises(VerbError) as caught:
        world.send(TREE, spoil)
    assert caught.value.code == code
    assert known.whole(world.places) == []
    name = world.send(TREE)["name"]
    assert on_disk(world.path(name)) == TREE
    assert (world.damage(name), world.litter()) == ([], [])


def test_where_nothing_lacks_nothing_is_read(world: World) -> None:
    world.send(TREE)
    other = {"only": TREE["run.sh"]}

    def never(_: bytes) -> bytes:
        raise AssertionError

    assert world.send(other, never)["linked"] == 1
    assert on_disk(world.path(release_of(other).name)) == other


def test_one_byte_at_a_time_is_a_stream_too(world: World) -> None:
    assert on_disk(world.path(world.send(TREE, most=1)["name"])) == TREE


def test_a_stream_that_becomes_much_larger_is_one_too(world: World) -> None:
    tree = {"zeros": File(bytes(5 << 20)), "z": File(b"z"), "none": File(b"")}
    assert on_disk(world.path(world.send(tree)["name"])) == tree


def test_what_arrived_is_not_sent_again_and_helps_another_release(world: World) -> None:
    with pytest.raises(VerbError):
        world.send(TREE, lambda data: data[:-1])
    assert world.lacks(TREE) == []
    other = {**TREE, "more": File(b"more"), "pkg/a.py": File(b"a = 1\n", executable=True)}
    assert world.lacks(other, committed=COMMITTED + 1) == ["more"]
    done = world.send(other, committed=COMMITTED + 1)
    folder = world.path(done["name"])
    assert on_disk(folder) == other
    # what nobody has yet is not of the other one's time
    assert {path.lstat().st_mtime for path in folder.rglob("*")} == {COMMITTED + 1}
    assert world.litter() == []


def test_what_is_half_there_after_a_kill_is_sent_again(world: World) -> None:
    with pytest.raises(VerbError):
        world.send(TREE, lambda data: data[:-1])
    (tree,) = (world.root / "releases/.incoming").glob("*/tree")
    half = tree / "pkg/deep/b.bin"
    half.chmod(0o600)
    half.write_bytes(half.read_bytes()[:100])
    (tree / "run.sh").unlink()
    assert world.lacks(TREE) == ["pkg/deep/b.bin", "run.sh"]
    assert on_disk(world.path(world.send(TREE)["name"])) == TREE
    assert world.litter() == []


def test_nobody_reads_any_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laying, "_REPEAT", 0.0)
    with pytest.raises(Gone):
        world.send(TREE, tell=lambda value: "got" not in value)
    world.send(TREE)
    assert on_disk(world.path(release_of(TREE).name)) == TREE


def test_progress_is_told_in_plain_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laying, "_REPEAT", 0.0)
    told: list[Any] = []
    done = world.send(TREE, tell=noted(told))
    got = [one["got"] for one in told if "got" in one]
    assert got == sorted(got)
    assert got[-1] == done["bytes"] == told[0]["bytes"]
    assert [one["files"] for one in told if "files" in one][-1] == 5


# -- and it becomes the current one


def test_a_tree_is_sent_and_becomes_the_current_one_in_one_go(world: World) -> None:
    first = world.sync(package("first"))
    told: list[Any] = []
    release = release_of(TREE)
    done = world.send(TREE, tell=noted(told), request={"name": release.name, "keep": 0})
    assert [sorted(one) for one in told] == [["bytes", "lacking"], ["laid"]]
    assert done["activated"] == {
        "before": first,
        "changed": [f"current: {first} -> {release.name}"],
        "imports": [],
        "pruned": [first],
        "notes": [],
    }
    assert (world.current, world.damage(release.name), world.litter()) == (release.name, [], [])
    # and once more, where all is there
    done = world.send(TREE, request={"name": release.name})
    assert (done["whole"], done["activated"]["changed"]) == (True, [])


NOTE = {"health": "good", "author": "ops@desk", "run": "r1", "keep": 10}


def test_what_no_unit_runs_on_is_noted_with_the_switch(world: World) -> None:
    name = release_of(TREE).name
    assert world.send(TREE, request={"name": name}, note=NOTE)["generation"] == 1
    one = kept.read(str(world.root), 1)
    assert (one["release"], one["run"], one["health"]) == (name, "r1", "good")
    # it was noted before
    assert world.send(TREE, request={"name": name}, note=NOTE)["generation"] is None
    assert kept.numbers(str(world.root)) == [1]


def test_where_a_unit_has_to_prove_it_first_nothing_is_noted(world: World) -> None:
    paths = store.Paths(str(world.root))
    paths.make()
    store.write_json(paths.spec("llm"), {"name": "llm"})
    assert world.send(TREE, request={"name": release_of(TREE).name}, note=NOTE)["generation"] is None
    assert kept.numbers(str(world.root)) == []


def test_where_saved_packages_are_to_be_looked_through_nothing_is_noted(world: World) -> None:
    (world.root / "stack").mkdir(parents=True)
    assert world.send(TREE, request={"name": release_of(TREE).name}, note=NOTE)["generation"] is None
    assert kept.numbers(str(world.root)) == []


def test_a_note_that_fails_leaves_it_to_who_asks_for_one(world: World) -> None:
    name = release_of(TREE).name
    done = world.send(TREE, request={"name": name}, note={"health": "splendid"})
    assert (done["generation"], world.current) == (None, name)


def test_every_file_that_becomes_current_is_hashed_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.sync(TREE)
    other = {**TREE, "pkg/a.py": File(b"a = 2\n"), "more": File(b"more")}
    hashed: list[int] = []
    whole = files.sha256_of

    def counted(fd: int, size: int) -> str:
        hashed.append(os.fstat(fd).st_ino)
        return whole(fd, size)

    monkeypatch.setattr(files, "sha256_of", counted)
    name = release_of(other).name
    world.send(other, request={"name": name})
    arrived = {"pkg/a.py", "more"}
    shared = {path for path, one in other.items() if isinstance(one, File)} - arrived
    assert sorted(hashed) == sorted((world.path(name) / path).stat().st_ino for path in shared)
    hashed.clear()
    world.send(TREE, request={"name": first})
    assert len(hashed) == len(set(hashed)) == len([one for one in TREE.values() if isinstance(one, File)])


def test_what_is_damaged_is_mended_before_it_becomes_current(world: World) -> None:
    name = world.send(TREE)["name"]
    writable(world.path(name) / "pkg/a.py")
    (world.path(name) / "pkg/a.py").write_text("a = 3\n")
    done = world.send(TREE, request={"name": name})
    assert (done["files"], world.current, world.damage(name)) == (1, name, [])


def test_nothing_is_switched_for_who_is_gone(world: World) -> None:
    first = world.sync(package("first"))
    name = release_of(TREE).name
    with pytest.raises(Gone):
        world.send(TREE, request={"name": name}, gone=True)
    assert (world.current, world.damage(name)) == (first, [])


def test_one_thing_is_sent_and_another_to_be_activated(world: World) -> None:
    first = world.sync(package("first"))
    requests: list[Any] = [{"name": first}, {}, [], {"name": release_of(TREE).name, "keep": -1}]
    for request in requests:
        with pytest.raises(VerbError):
            world.send(TREE, request=request)
    assert world.current == first
    assert known.whole(world.places) == [first]


# -- hostile manifests


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", "a/../../evil", "a//b", "./a", "a/.", "", "n" * 256, "nul\0"]
)
def test_a_path_that_leads_elsewhere_is_refused(world: World, path: str) -> None:
    before = world.sync(TREE)
    with pytest.raises(VerbError) as caught:
        world.offer({"fine": File(b"fine"), path: File(b"evil")})
    assert caught.value.code == "unsafe-path"
    assert repr(path) in caught.value.message
    assert world.litter() == []
    assert world.current == before


@pytest.mark.parametrize(
    "links",
    [
        {"l": b"/etc/passwd"},
        {"l": b"../out"},
        {"d/l": b"../../out"},
        {"d/e": b"..", "x": b"d/e/../.."},
        {"l": b""},
    ],
    ids=str,
)
def test_a_link_out_of_the_tree_is_refused(world: World, links: dict[str, bytes]) -> None:
    before = world.sync(TREE)
    hostile: dict[str, Any] = {**TREE, **{path: Link(target) for path, target in links.items()}}
    with pytest.raises(VerbError) as caught:
        world.send(hostile)
    assert caught.value.code == "unsafe-path"
    assert not world.path(release_of(hostile).name).exists()
    assert world.litter() == []
    assert world.current == before


def test_a_file_below_a_link_is_refused(world: World) -> None:
    with pytest.raises(VerbError, match="lies below a link"):
        world.offer({"l": Link(b"."), "l/evil": File(b"evil")})


@pytest.mark.parametrize(
    "name", ["../evil", "current", "targets", "a/b", ".hidden", "", "x.json", "c0ffeec0ffee-000000000000"]
)
def test_a_name_that_is_not_the_contents_is_refused(world: World, name: str) -> None:
    release = release_of(TREE)._replace(name=name)
    with pytest.raises(VerbError) as caught:
        sent(world, release.dumps())
    assert caught.value.code in ("bad-name", "damaged")
    assert not (world.root / "releases").exists()


def sent(world: World, data: bytes, **request: Any) -> None:
    """Send a manifest as it is."""
    send.send(world.places, {"manifest": len(data), **request}, reader([data]), heard, lambda _: False)


def test_a_manifest_of_a_newer_klops_is_not_guessed(world: World) -> None:
    data = release_of(TREE).dumps().replace(b'"schema": 1', b'"schema": 2', 1)
    with pytest.raises(VerbError) as caught:
        sent(world, data)
    assert caught.value.code == "newer-schema"
    for spoiled in (b"", b"no json", release_of(TREE).dumps()[:-30]):
        with pytest.raises(VerbError) as caught:
            sent(world, spoiled)
        assert caught.value.code == "damaged"


@pytest.mark.parametrize(
    ("size", "code"), [(None, "usage"), (-1, "usage"), (True, "usage"), (5000, "stream-cut")]
)
def test_a_manifest_that_is_not_whole_is_none(world: World, size: Any, code: str) -> None:
    with pytest.raises(VerbError) as caught:
        sent(world, release_of(TREE).dumps(), manifest=size)
    assert caught.value.code == code


def test_a_link_farther_than_linux_takes_is_refused(world: World) -> None:
    with pytest.raises(VerbError, match="farther") as caught:
        world.send({"l": Link(b"a" * 5000)})
    assert caught.value.code == "unsafe-path"


# -- any tree at all

_NAMES = st.one_of(
    st.sampled_from(["a", "b", "__pycache__", "x.py", "模型 说明", "-", " ", "a\nb", '"', "\\", "\udcff"]),
    st.binary(min_size=1, max_size=12)
    .filter(lambda raw: not set(raw) & {0, 47} and raw not in (b".", b".."))
    .map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
_ENTRIES = st.one_of(
    st.builds(File, st.binary(max_size=60), st.booleans()),
    st.builds(File, st.sampled_from([b"", b"same", bytes(3000)]), st.booleans()),
    st.builds(Link, st.sampled_from([b"a", b"nowhere", b"./b", b"x/../a"])),
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, File | Link]:
    """Trees in which no entry lies below another."""
    found: dict[str, File | Link] = {}
    folders = set()
    for parts in draw(st.lists(st.lists(_NAMES, min_size=1, max_size=3), max_size=12)):
        path = "/".join(parts)
        above = ["/".join(parts[:end]) for end in range(1, len(parts))]
        if path in folders or path in found or any(one in found for one in above):
            continue
        folders.update(above)
        found[path] = draw(_ENTRIES)
    return found


@settings(max_examples=30, deadline=None)
@given(first=trees(), second=trees())
def test_any_tree_lies_there_as_it_is_and_needs_nothing_the_second_time(
    first: Any, second: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    for tree in (first, second):
        done = world.send(tree)
        assert on_disk(world.path(done["name"])) == tree
        assert world.damage(done["name"]) == []
        assert world.lacks(tree) == []
    # what the second shares has not changed the first
    assert on_disk(world.path(release_of(first).name)) == first
    assert world.damage(release_of(first).name) == []
    assert world.litter() == []
    tidy(world.root.parent)
