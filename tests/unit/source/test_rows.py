"""The reports from the field about what git on this machine makes of a tree: the half that happens here."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from klops.source.tree import Request, Tree, look
from tests.unit.source.repos import Repo, everything, fails, git, init, pointer, shipped, store

SCRIPT = b"#!/bin/sh\necho it runs\n"
CONFIGURATIONS = {
    "none": "",
    "a-autocrlf": "[core]\nautocrlf = true\n",
    "d-eol": "[core]\neol = crlf\n",
    "attributes": "[core]\nattributesFile = ~/attributes\n",
    "all": "[core]\nautocrlf=true\neol=crlf\nabbrev=5\nattributesFile=~/attributes\n[tar]\numask=511\n",
}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("case", ["as committed", "b-attributes", "c-committed with CRLF"])
def test_row_D22_a_script_runs_whatever_the_configuration(
    repo: Repo, home: Path, tmp_path: Path, case: str, configuration: str
) -> None:
    crlf = SCRIPT.replace(b"\n", b"\r\n")
    files: dict[str | bytes, bytes] = {
        "run.sh": crlf if case.startswith("c") else SCRIPT,
        "start.bat": b"@echo off\r\n",
        "setup.ps1": b"exit 0\r\n",
        "unix.bat": b"@rem\n",
    }
    if case.startswith("b"):
        files[".gitattributes"] = b"* text=auto eol=crlf\n"
    repo.commit(files)
    expected = repo.look().release.digest  # with no configuration at all

    (home / ".gitconfig").write_text(CONFIGURATIONS[configuration])
    (home / "attributes").write_text("*.sh text eol=crlf export-ignore\n")
    (repo.folder / ".git/info/attributes").write_text("*.sh text eol=crlf export-ignore\n")
    repo.checkout()
    (home / "kept").rename(home / "kept before")  # nothing is known from before
    before = everything(repo.folder), (home / ".gitconfig").read_bytes(), (home / "attributes").read_bytes()

    tree = repo.look()

    after = everything(repo.folder), (home / ".gitconfig").read_bytes(), (home / "attributes").read_bytes()
    assert after == before
    assert tree.release.digest == expected
    content = shipped(tree)
    assert content["run.sh"] == SCRIPT
    assert content["start.bat"] == b"@echo off\r\n"
    assert content["setup.ps1"] == b"exit 0\r\n"
    # declared to have CRLF, and of a kind that takes it; else as committed
    assert content["unix.bat"] == (b"@rem\r\n" if case.startswith("b") else b"@rem\n")
    # git took the CR away when these were committed
    wanted = {"b-attributes": ("setup.ps1", "start.bat", "unix.bat"), "c-committed with CRLF": ("run.sh",)}
    assert tree.report.normalised == wanted.get(case, ())
    assert tree.release.about["normalised"] == len(wanted.get(case, ()))
    script = tmp_path / "run.sh"
    script.write_bytes(content["run.sh"])
    script.chmod(0o755)
    assert subprocess.run([script], capture_output=True, check=True).stdout == b"it runs\n"


def test_row_D22_crlf_that_is_declared_for_a_kind_of_windows(repo: Repo) -> None:
    repo.commit(
        {
            ".gitattributes": b"*.sln eol=crlf\n*.sh eol=crlf\n*.cmd -text\n",
            "a.sln": b"one\ntwo\n",
            "b.vcxproj": b"<x>\r\n</x>\r\n",
            "c.sh": b"#!/bin/sh\r\n",
            "d.cmd": b"mixed\r\nmixed\n",
        }
    )
    content = shipped(repo.look())
    assert content["a.sln"] == b"one\r\ntwo\r\n"
    assert content["b.vcxproj"] == b"<x>\n</x>\n"
    assert content["c.sh"] == b"#!/bin/sh\n"
    assert content["d.cmd"] == b"mixed\r\nmixed\n"


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
        + chunk(b"IEND", b"")
    )


BINARY = {
    "w.safetensors": struct.pack("<Q", 34) + b'{"x":{"dtype":"U8","shape":[6]}}\r\n' + b"\r\n\r\n\0\1",
    "tok.model": b"printable only\r\nno zero byte\r\n",
    "dot.png": _png(),
    "array.npy": b"\x93NUMPY\x01\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\r\n\r\n\r\n",
    "log.gz": gzip.compress(b"a\r\nb\r\n" * 9, mtime=0) + b"\r\n",
    "no-extension": b"zero\0byte\r\n",
    "lone": b"a\r\nlone\rcr\r\n",
    "escapes": b"\x01\x02\x03\r\n" * 9,
    "shard.1": b"\x89BIN\r\n\x00\x01\r\n",
    "x.in": b"IN\r\n\0\r\n",
    "fixture.r": b"RDX3\nX\r\n\0\0\0\3\r\n",
    "a.i": b"\r\n\0",
    "core.lock": b"\0\r\n",
    "dump.po": b"\xde\x12\x04\x95\r\n\0\r\n",
    "old.reg": "a\r\nb\r\n".encode("utf-16-le"),
    "declared.txt": b"a\r\nb\r\n",
    "declared.py": b"a\r\nb\r\n",
    "wide.txt": "a\r\nb\r\n".encode("utf-16"),
}
MIXED = b"aaa\r\nbbb\r\r\nccc\nlone\rcr"
TEXT = {
    "mixed.txt": (MIXED, b"aaa\nbbb\r\r\nccc\nlone\rcr"),
    "end.sh": (b"#!/bin/sh\r\necho\r", b"#!/bin/sh\necho\r"),
    "plain": (b"one\r\ntwo\r\n", b"one\ntwo\n"),
    "manual.1": (b".TH x 1\r\n", b".TH x 1\n"),
    "poetry.lock": (b"# one\r\n", b"# one\n"),
}


@pytest.mark.parametrize("more", ["", "* text=auto\n", "* text=auto eol=crlf\n"])
def test_row_D23_what_is_no_text_stays_as_it_is(repo: Repo, home: Path, more: str) -> None:
    attributes = more + "declared.txt binary\ndeclared.py -text\n"
    blobs = {name.encode(): ("100644", content) for name, content in BINARY.items()}
    blobs |= {name.encode(): ("100644", content) for name, (content, _) in TEXT.items()}
    repo.commit_blobs({b".gitattributes": ("100644", attributes.encode()), **blobs})
    (home / ".gitconfig").write_text(CONFIGURATIONS["all"])

    tree = look(Request(repo.bare()))

    content = shipped(tree)
    assert {name: content[name] for name in BINARY} == BINARY
    assert {name: content[name] for name in TEXT} == {name: after for name, (_, after) in TEXT.items()}
    assert tree.report.normalised == tuple(sorted(TEXT))


def test_row_D23_what_is_shipped_is_shipped_again_unchanged(repo: Repo, tmp_path: Path) -> None:
    first = shipped(_committed(repo, {name: content for name, (content, _) in TEXT.items()} | BINARY))
    again = init(tmp_path / "again")
    tree = _committed(again, first)
    assert shipped(tree) == first
    assert tree.report.normalised == ()


def _committed(repo: Repo, files: dict[str, bytes]) -> Tree:
    repo.commit_blobs({name.encode(): ("100644", content) for name, content in files.items()})
    return look(Request(repo.bare()))


WEIGHTS = b"\0\1weights\r\n" * 500


@pytest.fixture
def parts(repo: Repo, tmp_path: Path) -> Repo:
    """An LFS pointer in two places, a submodule with one of its own, initialised; no content of LFS yet."""
    inner = init(tmp_path / "inner")
    inner.commit(
        {
            "x/run.sh": SCRIPT,
            "x/w.bin": pointer(b"inner" * 99),
            "skip/me": b"",
            ".gitattributes": b"skip export-ignore\n",
        }
    )
    files: dict[str | bytes, bytes] = {
        ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\nsub/away export-ignore\n",
        "sub/w.bin": pointer(WEIGHTS),
        "sub/away": b"",
        "top.bin": pointer(WEIGHTS),
        "about-lfs.md": b"A pointer begins like this:\n\n" + pointer(WEIGHTS),
    }
    repo.write(files)
    repo.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "-q",
        "add",
        "--name",
        "x",
        str(inner.folder),
        "sub/third_party/x",
    )
    repo.commit()
    return repo


@pytest.fixture(params=["git-lfs there", "no git-lfs"])
def git_lfs(
    request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Where a git-lfs on PATH notes that it was called: it is to make no difference."""
    called = tmp_path / "git-lfs was called"
    if request.param == "git-lfs there":
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "git-lfs").write_text(f"#!/bin/sh\ntouch '{called}'\ncat\n")
        (folder / "git-lfs").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        filters = "clean = git-lfs clean -- %f\nsmudge = git-lfs smudge -- %f\nrequired = true\n"
        (home / ".gitconfig").write_text(f'[filter "lfs"]\n{filters}')
    return called


@pytest.mark.usefixtures("git_lfs")
@pytest.mark.parametrize("ref", ["HEAD", "HEAD:sub"])
def test_row_D25_pointers_without_content_stop_it(parts: Repo, ref: str) -> None:
    with fails("lfs-missing") as failed:
        parts.look(ref)
    assert "git lfs pull, or export-ignore" in failed.value.hint
    lacking = ["sub/third_party/x/x/w.bin", "sub/w.bin", *(["top.bin"] if ref == "HEAD" else [])]
    assert f"{len(lacking)} LFS pointers" in failed.value.message
    assert all(repr(path) in failed.value.message for path in lacking)
    assert "about-lfs" not in failed.value.message
    assert ("top.bin" in failed.value.message) == (ref == "HEAD")


@pytest.mark.usefixtures("git_lfs")
@pytest.mark.parametrize("ref", ["HEAD", "HEAD:sub"])
def test_row_D25_content_in_place_of_pointers_and_submodules(parts: Repo, ref: str) -> None:
    store(parts.folder / ".git/lfs/objects", WEIGHTS)
    store(parts.folder / ".git/modules/x/lfs/objects", b"inner" * 99)
    tree = parts.look(ref)
    content = shipped(tree)
    below = "sub/" if ref == "HEAD" else ""
    wanted = {"w.bin": WEIGHTS, "third_party/x/x/run.sh": SCRIPT, "third_party/x/x/w.bin": b"inner" * 99}
    assert wanted.items() <= {path.removeprefix(below): one for path, one in content.items()}.items()
    assert tree.report.lfs == (3 if ref == "HEAD" else 2)
    assert tree.report.submodules == 1
    # the attributes of the whole repository's top, and those of the submodule, hold
    assert tree.report.ignored == (f"{below}away", f"{below}third_party/x/skip/me")
    assert not any(path.endswith(("away", "skip/me")) for path in content)


def test_row_D25_a_submodule_that_is_not_initialised_stops_it(parts: Repo, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(parts.folder), str(clone))
    store(clone / ".git/lfs/objects", WEIGHTS)
    for ref in ("HEAD", "HEAD:sub", "HEAD:sub/third_party/x"):
        with fails("submodule-missing") as failed:
            look(Request(clone, ref))
        assert "1 submodules" in failed.value.message
        assert "'sub/third_party/x' (not initialised)" in failed.value.message
        assert "git submodule update --init --recursive" in failed.value.hint
    # the store is another's, and both are named at once
    (clone / ".git/lfs").rename(clone / ".git/lfs away")
    with fails("lfs-missing") as failed:
        look(Request(clone))
    assert "2 LFS pointers" in failed.value.message
    assert "1 submodules" in failed.value.message


def test_row_D25_a_damaged_content_stops_it(parts: Repo) -> None:
    store(parts.folder / ".git/modules/x/lfs/objects", b"inner" * 99)
    path = store(parts.folder / ".git/lfs/objects", WEIGHTS)
    path.write_bytes(WEIGHTS[:-1] + b"?")
    with fails("lfs-missing") as failed:
        parts.look()
    assert str(path) in failed.value.message
    path.write_bytes(WEIGHTS[:-1])
    with fails("lfs-missing") as failed:
        parts.look()
    assert "'top.bin'" in failed.value.message


NAMES = [
    "模型 说明.md".encode(),
    "café/x.sh".encode(),
    b'with "quotes".py',
    b"new\nline.txt",
    b"-rf",
    b"--output=x",
    b" leading",
    b"trailing ",
    b"trailing dot.",
    b"tab\tand \\ backslash",
    b"no utf-8 \xff\xfe",
    b":(glob)**",
    b"a=b",
    b"$HOME `id`",
    b"n" * 240,
    b"/".join([b"d" * 60] * 5) + b"/" + "深".encode() * 20,
    b"link to \xe4",
]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_row_D26_names_are_their_exact_bytes(
    repo: Repo, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    files = {
        name: ("100755" if name.endswith(b".sh") else "100644", b"content of " + name) for name in NAMES[:-1]
    }
    files[NAMES[-1]] = ("120000", b"no utf-8 \xff\xfe")
    repo.commit_blobs(files)
    tree = look(Request(repo.bare()))
    assert sorted(entry.raw for entry in tree.release.entries) == sorted(NAMES)
    assert {entry.raw for entry in tree.release.entries if entry.mode == 0o755} == {"café/x.sh".encode()}
    content = {path.encode("utf-8", "surrogateescape"): one for path, one in shipped(tree).items()}
    assert content == {name: one for name, (_, one) in files.items()}
    # only what changed
    for entry in tree.release.entries:
        alone = [(found, b"".join(chunks)) for found, chunks in tree.contents([entry.path])]
        assert alone == [(entry, files[entry.raw][1])]


def test_row_D26_names_in_a_dirty_tree(repo: Repo) -> None:
    repo.commit({"there": b""})
    wanted: dict[str | bytes, bytes] = {name: b"content of " + name for name in NAMES[:-1]}
    repo.write(wanted)
    with fails("dirty-tree"):
        repo.look()
    tree = repo.look(dirty=True)
    content = {path.encode("utf-8", "surrogateescape"): one for path, one in shipped(tree).items()}
    assert content == wanted | {b"there": b""}


def test_row_D26_a_name_that_linux_cannot_hold_is_named(repo: Repo) -> None:
    repo.commit_blobs({b"fine": ("100644", b""), b"n" * 256: ("100644", b"")})
    with fails("unsafe-path") as failed:
        look(Request(repo.bare()))
    assert "n" * 256 in failed.value.message


#: What Windows lacks is blocked, and what its Python has otherwise is as it is there.
AS_ON_WINDOWS = """
import os, sys, tempfile
for name in ("fcntl", "pwd", "termios", "grp", "resource"):
    sys.modules[name] = None
os.linesep = "\\r\\n"
from pathlib import Path
from klops.source import endings, files, survey
from klops.source.tree import Request, look
tree = look(Request(Path(sys.argv[1])))
print(tree.release.digest, tree.release.name, len(tree.report.normalised))
"""


def test_the_same_digest_from_a_checkout_of_windows(repo: Repo, home: Path, tmp_path: Path) -> None:
    files: dict[str | bytes, bytes] = {
        "pkg/__init__.py": b"x = 1\n",
        "pkg/sub/run.sh": SCRIPT,
        "crlf.txt": b"one\r\ntwo\r\n",
        "start.bat": b"@echo off\r\n",
        **{f"binary/{name}": content for name, content in BINARY.items()},
    }
    repo.commit(files)
    on_linux = repo.look()

    (home / ".gitconfig").write_text("[core]\nautocrlf = true\nsymlinks = false\nfileMode = false\n")
    clone = tmp_path / "windows"
    git(tmp_path, "clone", "-q", str(repo.folder), str(clone))
    assert (clone / "pkg/sub/run.sh").read_bytes().count(b"\r\n") == 2
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS, clone],
        capture_output=True,
        check=True,
        env={**os.environ, "KLOPS_CACHE": "off"},
    )
    digest, name, normalised = done.stdout.decode().split()
    assert (digest, name) == (on_linux.release.digest, on_linux.release.name)
    assert int(normalised) == len(on_linux.report.normalised) > 0

    # the same folder seen by a git that knows nothing of that: all that differs is line endings
    (home / ".gitconfig").write_text("[core]\nfileMode = false\n")
    tree = look(Request(clone))
    assert tree.release == on_linux.release._replace(about=tree.release.about)
    assert tree.report.endings_only > 0
    assert tree.release.about["dirty"] is False
