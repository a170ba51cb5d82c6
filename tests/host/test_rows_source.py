"""Reports from the field about bringing a source tree to a host, end to end: git here, files there."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from klops.source import endings
from klops.source.cache import VARIABLE as CACHE
from klops.source.manifest import FILE, LINK, Entry, Release, digest
from klops.source.manifest.release import named, ordered
from klops.source.tree import Request, Tree, look
from tests.host import sources
from tests.host.sources import PYTHON, VENV, Ground
from tests.rehearsals import MakeRehearsal
from tests.unit.source.repos import Repo, git, init, pointer, shipped, store
from tests.unit.source.test_rows import BINARY, NAMES, SCRIPT, TEXT, WEIGHTS

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

#: All that a control node could have in its configuration against it.
CONFIGURATION = (
    "[core]\nautocrlf = true\neol = crlf\nattributesFile = {folder}/attributes\nquotePath = true\n"
)
BAT = b"@echo off\r\n"
#: D22: a script as committed, with attributes against it, and committed with CRLF.
SCRIPTS: dict[bytes, tuple[str, bytes]] = {
    b"a/run.sh": ("100755", SCRIPT),
    b"b/.gitattributes": ("100644", b"* text=auto eol=crlf\n"),
    b"b/run.sh": ("100755", SCRIPT),
    b"c/run.sh": ("100755", SCRIPT.replace(b"\n", b"\r\n")),
    b"c/start.bat": ("100644", BAT),
}
LINK_NAME = NAMES[-1]
ALL = {
    **SCRIPTS,
    b"d/.gitattributes": ("100644", b"declared.txt binary\ndeclared.py -text\n"),
    **{b"d/" + name.encode(): ("100644", content) for name, content in BINARY.items()},
    **{b"d/" + name.encode(): ("100644", content) for name, (content, _) in TEXT.items()},
    **{name: ("100644", b"content of " + name) for name in NAMES[:-1]},
    LINK_NAME: ("120000", b"no utf-8 \xff\xfe"),
}


@pytest.fixture(scope="module")
def ground(make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A host without a service, reached by ssh; a bare repository beside the one that is worked in."""
    with sources.ground(make_rehearsal, tmp_path_factory.mktemp("source"), transport="ssh") as made:
        made.container()
        yield made


@pytest.fixture(scope="module")
def synced(ground: Ground) -> dict[str, Any]:
    """What the first sync of all of it said, on a control node that is configured against it."""
    (ground.folder / "gitconfig").write_text(CONFIGURATION.format(folder=ground.folder))
    (ground.folder / "attributes").write_text("*.sh text eol=crlf export-ignore\n")
    commit(ground, ALL)
    return ground.sync()


def bare(ground: Ground) -> Path:
    return ground.folder / "repo.git"


def commit(ground: Ground, files: dict[bytes, tuple[str, bytes]]) -> None:
    """Exactly these, into the bare repository, which is synced then: names that no work tree has to hold."""
    if not bare(ground).exists():
        git(ground.folder, "init", "-q", "--bare", "-b", "main", str(bare(ground)))
    ground.repo.commit_blobs(files)
    ground.repo.git("push", "-q", "--force", str(bare(ground)), "HEAD:refs/heads/main")
    ground.settings({"source": {"repo": str(bare(ground))}})


def by_the_rule(files: dict[bytes, tuple[str, bytes]]) -> dict[bytes, tuple[str, bytes]]:
    """What the host has to have of these."""
    kinds = {"100644": "file", "100755": "program", "120000": "link"}
    found = {path: (kinds[mode], content) for path, (mode, content) in files.items()}
    after = {b"c/run.sh": SCRIPT, **{b"d/" + name.encode(): text for name, (_, text) in TEXT.items()}}
    return {path: (kind, after.get(path, content)) for path, (kind, content) in found.items()}


def test_row_D22_scripts_run_on_the_host_whatever_the_control_node_is_told(
    ground: Ground, synced: dict[str, Any]
) -> None:
    for case in "abc":
        assert ground.inside(f"{ground.current}/{case}/run.sh") == "it runs"
    assert ground.shipped()[b"c/start.bat"] == ("file", BAT)
    assert synced["normalised"] == 1 + len(TEXT)
    assert (ground.folder / "gitconfig").read_text() == CONFIGURATION.format(folder=ground.folder)


def test_row_D23_what_is_no_text_arrives_as_it_is_and_is_not_sent_again(
    ground: Ground, synced: dict[str, Any]
) -> None:
    found = ground.shipped()
    for name, content in BINARY.items():
        assert found[b"d/" + name.encode()] == ("file", content), name
    for name, (_, after) in TEXT.items():
        assert found[b"d/" + name.encode()] == ("file", after), name
    again = ground.sync()
    assert (again["release"], again["sent_files"]) == (synced["release"], 0)


def test_row_D26_every_name_arrives_as_its_exact_bytes(ground: Ground, synced: dict[str, Any]) -> None:
    assert ground.shipped() == by_the_rule(ALL)
    assert synced["files"] == len(ALL)
    # only what changed; and what is gone is gone
    rest = {path: one for path, one in ALL.items() if path not in NAMES[:3]}
    changed = {**rest, NAMES[3]: ("100644", b"another\n"), NAMES[10]: ("100755", b"content of " + NAMES[10])}
    commit(ground, changed)
    said = ground.sync()
    assert said["sent_files"] == 1
    assert ground.shipped() == by_the_rule(changed)


# -- D28 -------------------------------------------------------------------------------------------------


def send(ground: Ground, release: Release, contents: Callable[[list[int]], bytes]) -> dict[str, Any]:
    """What the agent in the container says last when a release is sent, with these ``contents``."""
    assert ground.rehearsal.engine is not None
    root, manifest = str(ground.host.root), release.dumps()
    argv = ["docker", "-H", ground.rehearsal.engine.host, "exec", "-i", ground.host.container, PYTHON, "-IS"]
    argv += [f"{root}/agent/current", "send", "--while-stdin", "--root", root]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"manifest": len(manifest)}).encode() + b"\n" + manifest)
        process.stdin.flush()
        found: dict[str, Any] = json.loads(process.stdout.readline())
        if found.get("lacking"):
            process.stdin.write(contents(found["lacking"]))
            process.stdin.close()
            found = json.loads(process.stdout.readlines()[-1])
    assert ("error" in found) == (process.returncode != 0)
    return found


def test_row_D28_a_stream_that_ends_40_bytes_early_is_no_release_and_the_rerun_completes(
    ground: Ground, synced: dict[str, Any]
) -> None:
    before = ground.current.name
    files = {**SCRIPTS, **{b"w%d.bin" % number: ("100644", os.urandom(9000)) for number in range(12)}}
    commit(ground, files)
    tree: Tree = look(Request(bare(ground)))
    content, lacking = shipped(tree), list[int]()

    def early(asked: list[int]) -> bytes:
        lacking.extend(asked)
        return gzip.compress(b"".join(content[tree.release.entries[one].path] for one in asked), 1)[:-40]

    error = send(ground, tree.release, early)["error"]
    assert error["code"] == "stream-cut"
    assert ground.current.name == before
    assert ground.inside(f"{ground.current}/a/run.sh") == "it runs"
    assert tree.release.name not in {path.stem for path in ground.releases.iterdir()}
    said = ground.sync()
    assert said["release"] == tree.release.name
    assert said["sent_files"] < len(lacking)  # what had arrived isn't sent again
    assert ground.shipped() == by_the_rule(files)
    assert ground.litter() == []


@pytest.mark.parametrize("hostile", ["../evil", "/tmp/evil", "a/../../evil", "link out"])
def test_row_D28_entries_that_lead_out_are_refused(
    ground: Ground, synced: dict[str, Any], hostile: str
) -> None:
    before = ground.current.name, sorted(ground.releases.iterdir())
    one = Entry(hostile, FILE, 0o644, 0, "0" * 64)
    if hostile == "link out":
        one = Entry("x", LINK, 0o777, 20, "0" * 64)
    content = b"../../../etc/passwd!"[: one.size]
    one = one._replace(sha256=hashlib.sha256(content).hexdigest())
    entries = tuple(ordered([one, Entry("fine", FILE, 0o644, 0, hashlib.sha256(b"").hexdigest())]))
    summed = digest(entries)
    release = Release(named("c0ffee" * 7, summed), summed, {"commit": "c0ffee" * 7, "committed": 0}, entries)
    # what a link points to isn't known before it arrives
    said = send(ground, release, lambda _: gzip.compress(content))
    assert said["error"]["code"] == "unsafe-path", said
    assert (ground.current.name, sorted(ground.releases.iterdir())) == before
    assert ground.litter() == []


def test_row_D28_a_host_whose_clock_is_behind_gets_it_all_the_same(
    ground: Ground, synced: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the host an hour behind every file is of the future."""
    ahead = int(time.time()) + 3600
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{ahead} +0000")
    commit(ground, {**SCRIPTS, b"new": ("100644", b"new\n")})
    ground.sync()
    assert ground.inside(f"{ground.current}/a/run.sh") == "it runs"
    assert (ground.current / "new").stat().st_mtime == ahead


def test_row_D25_pointers_and_submodules_arrive_with_content_or_not_at_all(
    ground: Ground, synced: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = _in_parts(tmp_path)
    ground.settings({"source": {"repo": str(repo.folder)}})
    before = ground.current.name
    error = ground.fails("sync")
    assert error["code"] == "lfs-missing"
    for part in ("3 LFS pointers", "top.bin", "sub/w.bin", "sub/third_party/x/w.bin"):
        assert part in error["message"]
    assert ground.current.name == before
    store(repo.folder / ".git/lfs/objects", WEIGHTS)
    store(repo.folder / ".git/modules/x/lfs/objects", b"inner" * 99)
    ground.sync()
    found = ground.shipped()
    assert found[b"top.bin"] == found[b"sub/w.bin"] == ("file", WEIGHTS)
    assert found[b"sub/third_party/x/w.bin"] == ("file", b"inner" * 99)
    assert found[b"about-lfs.md"][1].endswith(pointer(WEIGHTS))
    said = ground.sync("--ref", "HEAD:sub")
    assert ground.shipped() == {
        path.removeprefix(b"sub/"): one for path, one in found.items() if path.startswith(b"sub/")
    }
    assert said["sent_files"] == 0  # the host has all of it
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo.folder), str(clone))
    store(clone / ".git/lfs/objects", WEIGHTS)
    ground.settings({"source": {"repo": str(clone)}})
    monkeypatch.setenv(CACHE, "off")
    error = ground.fails("sync")
    assert (error["code"], "sub/third_party/x" in error["message"]) == ("submodule-missing", True)


def _in_parts(folder: Path) -> Repo:
    """A repository with pointers of LFS whose content isn't there, and a submodule with one of its own."""
    inner, repo = init(folder / "inner"), init(folder / "parts")
    inner.commit({"run.sh": SCRIPT, "w.bin": pointer(b"inner" * 99)})
    repo.write(
        {
            ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\nsub/away export-ignore\n",
            "sub/w.bin": pointer(WEIGHTS),
            "sub/away": b"",
            "top.bin": pointer(WEIGHTS),
            "about-lfs.md": b"A pointer begins like this:\n\n" + pointer(WEIGHTS),
        }
    )
    add = ("submodule", "-q", "add", "--name", "x", str(inner.folder), "sub/third_party/x")
    repo.git("-c", "protocol.file.allow=always", *add)
    repo.commit()
    return repo


# -- random trees ----------------------------------------------------------------------------------------

_PARTS = [
    b"a",
    b"b.py",
    b"c.md",
    b"d.bin",
    b"e",
    "模型".encode(),
    b"x\xff",
    b"sp ace",
    b"-q",
    b"new\nline",
    b"UP.TXT",
]
_PIECES = [b"\r\n", b"\n", b"\r", b"line", b"\0", b"\x01\x02", "中".encode(), b"\r\r\n", b"#!/bin/sh\n"]
_CONTENTS = st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join)
_PATHS = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=3).map(b"/".join)
_FILES = st.dictionaries(
    _PATHS, st.tuples(st.sampled_from(["100644", "100755"]), _CONTENTS), min_size=1, max_size=12
)
_ATTRIBUTES = {b"*.bin": {"text": "unset"}, b"*.md": {"eol": "lf", "text": "set"}, b"e": {"text": "unset"}}


def _without_clashes(files: dict[bytes, tuple[str, bytes]]) -> dict[bytes, tuple[str, bytes]]:
    """No path that is a file and a folder."""
    return {
        path: one for path, one in files.items() if not any(other.startswith(path + b"/") for other in files)
    }


def _ruled(path: bytes, mode: str, content: bytes) -> tuple[str, bytes]:
    found: dict[str, str] = {}
    for pattern, attributes in _ATTRIBUTES.items():
        if path.endswith(pattern[1:]) if pattern.startswith(b"*") else path.rpartition(b"/")[2] == pattern:
            found = attributes
    treated = endings.treatment(path.decode("utf-8", "surrogateescape"), found)
    return "program" if mode == "100755" else "file", endings.apply(treated, content)


def far_side_is_the_rule_applied(ground: Ground, files: dict[bytes, tuple[str, bytes]]) -> None:
    files = _without_clashes(files)
    text = b"*.bin binary\n*.md text eol=lf\ne -text\n"
    commit(ground, {b".gitattributes": ("100644", text), **files})
    said = ground.sync()
    expected = {path: _ruled(path, *one) for path, one in files.items()}
    assert ground.shipped() == {b".gitattributes": ("file", text), **expected}
    changed = [path for path, (_, content) in expected.items() if content != files[path][1]]
    assert said["normalised"] == len(changed)
    again = ground.sync()
    assert (again["release"], again["sent_files"], again["sent_bytes"]) == (said["release"], 0, 0)
    assert ground.litter() == []


def _property(examples: int) -> Callable[..., Any]:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@_property(3)
@given(files=_FILES)
def test_of_a_random_tree_the_host_has_what_the_rule_says(
    ground: Ground, files: dict[bytes, tuple[str, bytes]]
) -> None:
    far_side_is_the_rule_applied(ground, files)


@pytest.mark.long
@pytest.mark.timeout(1200)
@_property(40)
@given(files=_FILES)
def test_of_many_random_trees_the_host_has_what_the_rule_says(
    ground: Ground, files: dict[bytes, tuple[str, bytes]]
) -> None:
    far_side_is_the_rule_applied(ground, files)


# -- E31 -------------------------------------------------------------------------------------------------

#: klops as a program, where what Windows lacks is blocked, and what its Python has otherwise is as there.
AS_ON_WINDOWS = """
import os, sys, tempfile
import fabric, jinja2, paramiko, psutil, pydantic, rich.live, ruamel.yaml, structlog, tenacity, typer
for name in ("fcntl", "pwd", "termios", "grp", "resource", "pty", "tty"):
    sys.modules[name] = None
os.linesep = "\\r\\n"
from klops.__main__ import main
sys.exit(main())
"""


def test_row_E31_the_same_release_comes_from_a_checkout_of_windows(ground: Ground, tmp_path: Path) -> None:
    (ground.folder / "gitconfig").write_text("[core]\nautocrlf = true\nsymlinks = false\nfileMode = false\n")
    repo = init(tmp_path / "linux")
    repo.commit({"sub/run.sh": SCRIPT, ".hidden/a": b"a\n", "b.txt": b"one\r\ntwo\r\n", "c.bat": BAT})
    windows = tmp_path / r"C:\work\proj"
    git(tmp_path, "clone", "-q", str(repo.folder), str(windows))
    assert (windows / "sub/run.sh").read_bytes().count(b"\r\n") == 2
    ground.settings({"source": {"repo": str(windows), "targets": [{"root": f"{VENV}/app/"}]}})
    argv = [sys.executable, "-c", AS_ON_WINDOWS, "sync", ground.host.name, "-o", "json"]
    argv += ["-i", str(ground.rehearsal.inventory)]
    env = {**os.environ, "USERNAME": "lilei"}
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)["hosts"][ground.host.name]
    names = {b"sub/run.sh", b".hidden/a", b"b.txt", b"c.bat"}
    assert set(ground.shipped()) == names
    assert not any(b"\\" in name for name in ground.shipped())
    assert ground.inside("cat", f"{VENV}/app/sub/run.sh").encode() == SCRIPT.strip()
    (ground.folder / "gitconfig").write_text("")
    ground.settings({"source": {"repo": str(repo.folder)}})
    again = ground.sync()
    assert (again["release"], again["digest"], again["sent_files"]) == (said["release"], said["digest"], 0)


@pytest.mark.parametrize(
    "path",
    [
        "C:\\work\\proj\\",
        r"\\server\share\proj",
        pytest.param(r"C:\work\proj", marks=pytest.mark.long),
        pytest.param("proj/", marks=pytest.mark.long),
    ],
)
def test_row_E31_a_repository_by_a_path_of_windows_is_a_path(
    ground: Ground, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never host:path; and a name that has a backslash here has it there."""
    monkeypatch.chdir(tmp_path)
    init(tmp_path / path).commit({"sub/run.sh": SCRIPT, "with\\backslash": path.encode()})
    ground.settings({"source": {"repo": path}})
    ground.sync()
    assert ground.shipped() == {b"sub/run.sh": ("file", SCRIPT), b"with\\backslash": ("file", path.encode())}


@pytest.mark.parametrize(
    "root",
    ["~/app", *(pytest.param(root, marks=pytest.mark.long) for root in ("app", r"C:\app", "/opt/../app"))],
)
def test_row_E31_a_place_on_the_host_is_absolute_and_nothing_else(ground: Ground, root: str) -> None:
    ground.settings({"source": {"targets": [{"root": root}]}})
    done = ground.run("sync", rc=2)
    assert "expected an absolute path" in done.json["error"]["message"]
    assert repr(root) in done.json["error"]["message"]
    ground.settings({"source": {"targets": None}})
