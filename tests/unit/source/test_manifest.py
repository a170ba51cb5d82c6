"""What a release consists of: its digest, its text form, and the paths that it may have."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.source.manifest import FILE, LINK, Entry, Release, digest
from klops.source.manifest.entry import from_json
from klops.source.manifest.paths import link_problems, problem, problems
from klops.source.manifest.release import built, is_name, loads, named, ordered

SHA = hashlib.sha256(b"").hexdigest()
paths = st.binary(min_size=1, max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
shas = st.binary(min_size=32, max_size=32).map(bytes.hex)
entries = st.builds(
    lambda path, link, executable, size, sha: (
        Entry(path, LINK, 0o777, size, sha)
        if link
        else Entry(path, FILE, 0o755 if executable else 0o644, size, sha)
    ),
    paths,
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**50),
    shas,
)
trees = st.lists(entries, max_size=20, unique_by=lambda entry: entry.path)


def release(entries: list[Entry]) -> Release:
    summed = digest(entries)
    about = {"commit": "c" * 40, "subject": "模型 \udce4 \u2028 end", "dirty": False}
    return Release(named("c" * 40, summed), summed, about, tuple(ordered(entries)))


@settings(deadline=None)
@given(trees, st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_order(tree: list[Entry], rnd: random.Random) -> None:
    other = list(tree)
    rnd.shuffle(other)
    assert digest(other) == digest(tree)
    assert [entry.raw for entry in ordered(other)] == sorted(entry.raw for entry in tree)


@settings(deadline=None)
@given(trees.filter(bool), st.data())
def test_the_digest_changes_with_everything_in_it(tree: list[Entry], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(tree) - 1))
    other = data.draw(entries.filter(lambda entry: entry != tree[at]))
    assert digest([*tree[:at], other, *tree[at + 1 :]]) != digest(tree)
    assert digest([*tree[:at], *tree[at + 1 :]]) != digest(tree)


@settings(deadline=None)
@given(trees)
def test_the_text_form_gives_the_same_release(tree: list[Entry]) -> None:
    one = release(tree)
    assert loads(one.dumps()) == one
    assert one.dumps().isascii()


@settings(deadline=None)
@given(trees, st.data())
def test_a_text_form_that_is_cut_is_refused(tree: list[Entry], data: st.DataObject) -> None:
    text = release(tree).dumps()
    with pytest.raises(ValueError, match=r"."):
        loads(text[: data.draw(st.integers(0, len(text) - 1))])


ONE = [Entry("a", FILE, 0o644, 0, SHA)]


def changed(change: Callable[[dict[str, object]], object]) -> bytes:
    head, *lines = release(ONE).dumps().split(b"\n")
    known = json.loads(head)
    change(known)
    return b"\n".join([json.dumps(known).encode(), *lines])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"[]\n",
        b"7\n",
        b"{}\n",
        "{'é'}\n".encode(),
        changed(lambda head: head.update(schema=2)),
        changed(lambda head: head.update(name="../evil")),
        changed(lambda head: head.update(name="current")),
        changed(lambda head: head.update(name=7)),
        changed(lambda head: head.update(about=[])),
        changed(lambda head: head.update(digest="0" * 64)),
        changed(lambda head: head.update(entries=2)),
        changed(lambda head: head.pop("name")),
        changed(lambda head: head.pop("digest")),
        release(ONE).dumps().replace(b'["a"', b'["b"'),
        release(ONE).dumps() + release(ONE).dumps().split(b"\n")[1] + b"\n",
    ],
)
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)


@pytest.mark.parametrize(
    "entry",
    [
        7,
        "abcde",
        {},
        [],
        ["a", FILE, 0o644, 0],
        ["a", FILE, 0o644, 0, SHA, 1],
        [7, FILE, 0o644, 0, SHA],
        ["a", "folder", 0o644, 0, SHA],
        ["a", FILE, 0o4755, 0, SHA],
        ["a", FILE, 0o777, 0, SHA],
        ["a", LINK, 0o644, 0, SHA],
        ["a", FILE, "0644", 0, SHA],
        ["a", FILE, True, 0, SHA],
        ["a", FILE, 0o644, -1, SHA],
        ["a", FILE, 0o644, 0.5, SHA],
        ["a", FILE, 0o644, 0, SHA[1:]],
        ["a", FILE, 0o644, 0, SHA[1:] + "G"],
        ["a", FILE, 0o644, 0, SHA + "\n"],
        ["\ud800", FILE, 0o644, 0, SHA],
        ["\udce4\udcb8\udcad", FILE, 0o644, 0, SHA],  # 中, written otherwise
    ],
)
def test_what_is_no_entry_is_refused(entry: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(entry)  # type: ignore[arg-type]


def test_names() -> None:
    name = named("ab" * 20, "cd" * 32)
    assert name == "abababababab-cdcdcdcdcdcd"
    assert named("ab" * 20, "cd" * 32, dirty=True) == "abababababab.dirty-cdcdcdcdcdcd"
    made = built(name, ["python setup.py build"])
    assert made.startswith(f"{name}-b")
    assert made != built(name, ["python setup.py", "build"])
    assert all(map(is_name, (name, made, named("ab" * 20, "cd" * 32, dirty=True))))
    wrong = (
        "",
        "current",
        ".incoming",
        "..",
        f"{name}/x",
        f"{name}\n",
        f"{name}.json",
        f"../{name}",
        name[1:],
    )
    assert not any(map(is_name, wrong))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "absolute"),
        ("../evil", "out of the tree"),
        ("a/../../evil", "out of the tree"),
        ("a/..", "out of the tree"),
        ("", "empty part"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("./a", "empty part"),
        ("a\0b", "zero byte"),
        ("n" * 256, "longer"),
        ("深" * 86, "longer"),
        ("/".join(["d" * 200] * 21), "longer"),
    ],
)
def test_paths_that_are_no_good(path: str, why: str) -> None:
    assert why in (problem(path) or "")
    assert problems([Entry(path, FILE, 0o644, 0, SHA)])


@pytest.mark.parametrize(
    "path", ["a", "..a", "a..", "...", "深" * 85, "a\\..\\b", "C:", "-rf", "a\nb", "\udcff", " "]
)
def test_paths_that_are_fine(path: str) -> None:
    assert problem(path) is None
    assert problems([Entry(path, FILE, 0o644, 0, SHA)]) == []


def test_paths_that_are_no_good_together() -> None:
    def tree(*named_: tuple[str, str]) -> list[Entry]:
        return [Entry(path, kind, 0o777 if kind == LINK else 0o644, 0, SHA) for path, kind in named_]

    assert problems(tree(("a", FILE), ("a", FILE))) == ["'a' is there twice"]
    assert problems(tree(("a/b/c", FILE), ("a", LINK))) == ["'a/b/c' lies below a link"]
    assert problems(tree(("a", FILE), ("a/b", FILE))) == ["'a/b' lies below a file"]
    assert problems(tree(("a/b/c", FILE), ("a/b/d", FILE), ("a/b.c", FILE), ("a.b", LINK))) == []
    two = problems(tree(("x/a/b", FILE), ("x/a/c", FILE), ("x/a", LINK)))
    assert len(two) == 2
    assert problems(tree(("/", FILE), ("//a/b", FILE))) != []


@pytest.mark.parametrize(
    ("links", "wrong"),
    [
        ({"a": "b"}, []),
        ({"d/a": "../b"}, []),
        ({"d/a": "../b/../c"}, []),
        ({"a": ".", "b": "./", "c": "d//e"}, []),
        ({"a": "a"}, []),
        ({"a": "b", "b": "a"}, []),
        ({"a": "a/x/.."}, []),
        ({"a": "../a"}, ["a"]),
        ({"d/a": "../../x"}, ["d/a"]),
        ({"a": "/etc/passwd"}, ["a"]),
        ({"a": ""}, ["a"]),
        ({"a": "x/../.."}, ["a"]),
        ({"d/e": "..", "x": "d/e/../.."}, ["x"]),
        ({"d/e": "..", "x": "d/e/.."}, ["x"]),
        ({"d/e/f": "../..", "x": "d/e/f/y"}, []),
        ({"a/b": "..", "c": "a/b/a/b/a/b/.."}, ["c"]),
        ({"up": "..", "x": "up/y"}, ["up", "x"]),
        ({"abs": "/", "x": "abs/y"}, ["abs", "x"]),
        ({f"l{n}": f"l{n + 1}" for n in range(60)}, []),
    ],
)
def test_links_that_lead_out_of_the_tree(links: dict[str, str], wrong: list[str]) -> None:
    found = link_problems(links)
    assert [line.split(" ")[0] for line in found] == [repr(path) for path in wrong]
    assert link_problems(dict(reversed(links.items()))) == found[::-1]
