"""What members of a unit have in shared memory: by what the kernel says of real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import sysv
from klops.agent.units import traces
from tests.shortpaths import short_folder
from tests.unit.agent.sharing import LISTEN, MAP, OPEN, SEGMENT, SEMAPHORE, having, memory_folder


@pytest.fixture
def shm() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the list is."""
    return str(tmp_path / "llm.traces.json")


def names(path: str) -> list[str]:
    """Names of the files on a list."""
    return [one.path.rpartition("/")[2] for one in traces.load(path).files]


@pytest.mark.parametrize("program", [OPEN, MAP])
def test_what_a_member_has_is_noted_once_it_is_its_own(shm: Path, path: str, program: str) -> None:
    (shm / "of-a-stranger").write_bytes(bytes(4096))
    traces.begin(path, str(shm))
    for name in ("psm_0123", "unused"):
        (shm / name).write_bytes(bytes(4096))
    with having(program, shm / "psm_0123") as member, having(program, shm / "of-a-stranger") as other:
        traces.note(path, [member, other], str(shm))
        assert names(path) == ["psm_0123"]
        (file,) = traces.load(path).files
        status = (shm / "psm_0123").stat()
        assert (file.dev, file.inode, file.uid) == (status.st_dev, status.st_ino, status.st_uid)
        assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_semaphore_is_known_by_its_last_name(shm: Path, path: str) -> None:
    traces.begin(path, str(shm))
    with having(SEMAPHORE, shm / "sem.tmp", shm / "sem.mp-0123") as member:
        traces.note(path, [member], str(shm))
    assert names(path) == ["sem.mp-0123"]


def test_it_stays_on_the_list_over_generations_until_it_is_gone(shm: Path, path: str) -> None:
    traces.begin(path, str(shm))
    (shm / "nccl-first").write_bytes(bytes(4096))
    with having(OPEN, shm / "nccl-first") as member:
        traces.note(path, [member], str(shm))
    traces.begin(path, str(shm))
    (shm / "nccl-second").write_bytes(bytes(4096))
    with having(OPEN, shm / "nccl-second") as member:
        traces.note(path, [member], str(shm))
        assert names(path) == ["nccl-first", "nccl-second"]
        (shm / "nccl-first").unlink()
        (shm / "nccl-first").write_bytes(b"somebody else's")  # the name alone is nothing
        traces.note(path, [member], str(shm))
        assert names(path) == ["nccl-second"]


def test_without_a_look_before_the_launch_no_file_counts(shm: Path, path: str) -> None:
    (shm / "psm_0123").write_bytes(bytes(4096))
    with having(OPEN, shm / "psm_0123") as member:
        traces.note(path, [member], str(shm))
    assert not Path(path).exists()


def test_a_file_without_a_name_leaves_nothing(shm: Path, path: str) -> None:
    traces.begin(path, str(shm))
    (shm / "gone").write_bytes(bytes(4096))
    with having(MAP, shm / "gone") as member:
        (shm / "gone").unlink()
        traces.note(path, [member], str(shm))
    assert names(path) == []


def test_sockets_that_a_member_listens_on(shm: Path, path: str) -> None:
    with short_folder() as folder, having(LISTEN, folder / "own") as member, having(LISTEN, folder / "other"):
        traces.note(path, [member], str(shm))
        assert [(one.path, one.kind) for one in traces.load(path).files] == [(f"{folder}/own", "socket")]


def test_segments_that_a_member_made(shm: Path, path: str, tmp_path: Path) -> None:
    with having(SEGMENT, tmp_path / "a") as member, having(SEGMENT, tmp_path / "b") as other:
        mine, others = (int((tmp_path / name).read_text()) for name in "ab")
        try:
            assert mine in {one.id for one in sysv.segments()}
            traces.note(path, [member], str(shm))
            (segment,) = traces.load(path).segments
            assert (segment.id, segment.cpid, segment.size) == (mine, member.pid, 4096)
            # a later process of the maker's pid didn't make it
            later = other._replace(start=other.start + 10**6)
            assert traces.seen([later], str(shm))[1] == []
        finally:
            for one in sysv.segments():
                if one.id in (mine, others):
                    sysv.remove(one)
    traces.note(path, [], str(shm))  # their last mappings went with them
    assert traces.load(path).segments == []


def test_nothing_new_is_not_written_again(shm: Path, path: str) -> None:
    traces.begin(path, str(shm))
    (shm / "psm_0123").write_bytes(bytes(4096))
    with having(OPEN, shm / "psm_0123") as member:
        traces.note(path, [member], str(shm))
        inode = Path(path).stat().st_ino
        traces.note(path, [member], str(shm))
        assert Path(path).stat().st_ino == inode  # written beside and renamed it would have another


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"schema": 1, "files": [["x"]], "segments": [], "before": null}',
        '{"schema": 1, "files": [], "segments": [], "before": [7]}',
        '{"schema": 99}',
    ],
)
def test_a_list_that_cannot_be_read_is_set_aside_at_the_next_launch(shm: Path, path: str, text: str) -> None:
    Path(path).write_text(text)
    with pytest.raises(VerbError):
        traces.note(path, [], str(shm))
    traces.begin(path, str(shm))
    assert Path(path + store.ASIDE).read_text() == text
    assert json.loads(Path(path).read_text()) == {"schema": 1, "files": [], "segments": [], "before": []}
