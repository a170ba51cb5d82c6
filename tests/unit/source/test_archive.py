"""What git archives is read as Python's own reader of such files does it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

import pytest

from klops.errors import TaskFailed
from klops.source import archive
from klops.source.git.isolated import Isolated
from tests.unit.source.repos import Repo

LONG = "/".join(["folder " + "n" * 60] * 5)
BLOBS: dict[bytes, tuple[str, bytes]] = {
    b"a": ("100644", b""),
    b"run": ("100755", b"#!/bin/sh\n"),
    **{b"sizes/%d" % size: ("100644", bytes(size)) for size in (1, 511, 512, 513, 1024, 70_000)},
    b"n" * 100: ("100644", b"100"),
    b"n" * 101: ("100644", b"101"),
    b"n" * 255: ("100644", b"255"),
    b"d" * 90 + b"/" + b"n" * 90: ("100644", b"split"),
    LONG.encode() + b"/x": ("100644", b"long"),
    "模型 说明".encode() * 12: ("100644", b"utf-8"),
    b"\xff\n\\": ("100644", b"not utf-8"),
    b"\xff" * 120: ("100644", b"neither"),
    b"link": ("120000", b"run"),
    b"long link": ("120000", b"../" + b"l" * 200),
    b"odd link": ("120000", b"\xff\xfe"),
    b"sub": ("160000", b"c0ffee" * 6 + b"c0ff"),
}


class Archived(Isolated):
    """Stands for a git that prints this."""

    def __init__(self, data: bytes) -> None:
        object.__setattr__(self, "data", data)

    @contextmanager
    def stream(self, argv: Any) -> Iterator[IO[bytes]]:
        yield cast("IO[bytes]", io.BufferedReader(cast("Any", io.BytesIO(cast("Any", self).data))))


def read(data: bytes, most: int = 1 << 20) -> list[tuple[str, bytes | None, str | None]]:
    """All members, each file read in pieces of ``most`` bytes."""
    found = []
    for member in archive.members(Archived(data), "HEAD"):
        content = None
        if member.file is not None:
            content = b"".join(iter(lambda file=member.file: file.read(most), b""))  # type: ignore[misc]
            assert len(content) == member.size
        found.append((member.path, content, member.target))
    return found


@pytest.fixture
def archived(repo: Repo) -> bytes:
    repo.commit_blobs(BLOBS)
    return repo.git("archive", "--format=tar", "HEAD")


@pytest.mark.parametrize("most", [1 << 20, 512, 7])
def test_it_is_what_another_reader_finds(archived: bytes, most: int) -> None:
    expected = []
    with tarfile.open(fileobj=io.BytesIO(archived), encoding="utf-8") as tar:
        for info in tar:
            file = tar.extractfile(info) if info.isreg() else None
            expected.append(
                (info.name, None if file is None else file.read(), info.linkname if info.issym() else None)
            )
    found = read(archived, most)
    assert found == expected
    as_bytes = {path.encode("utf-8", "surrogateescape"): content for path, content, _ in found}
    for path, (mode, content) in BLOBS.items():
        assert as_bytes[path] == (content if mode.startswith("100") else None)


def test_what_is_not_read_is_passed_over(archived: bytes) -> None:
    paths = [member.path for member in archive.members(Archived(archived), "HEAD")]
    assert paths == [path for path, _, _ in read(archived)]


def test_nothing_but_the_header_that_names_a_commit(repo: Repo) -> None:
    repo.commit()
    assert read(repo.git("archive", "--format=tar", "HEAD")) == []


@pytest.mark.parametrize("end", [0, 511, 512, 1024, 1500, 40_000, -10_240])
def test_one_that_is_cut_is_no_archive(archived: bytes, end: int) -> None:
    with pytest.raises(TaskFailed, match="ended early") as caught:
        read(archived[:end].rstrip(b"\0") if end < 0 else archived[:end])
    assert caught.value.code == "git-failed"
