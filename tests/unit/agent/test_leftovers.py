"""What is removed of shared memory and what is kept: only own things go, and only if nobody has them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.processes import openfiles, procs, sysv, unixsockets
from klops.agent.processes.access import Access
from klops.agent.trouble import Troubles
from klops.agent.units import leftovers, traces
from klops.agent.units.kept import Surroundings
from klops.agent.units.leftovers import Place
from klops.agent.units.memory import Memory
from klops.agent.units.remains import Remains
from klops.agent.units.traces import File, Traces
from tests.shortpaths import short_folder
from tests.unit.agent.sharing import LISTEN, MAP, OPEN, SEGMENT, SEMAPHORE, having, memory_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="seeing the open files of all processes needs root")
UUID = "0b9f2c1e-7c1d-4a55-9a71-5a1f4c0e7d11"


class Corner:
    """A container's /dev/shm and /tmp, as far as this is concerned, and a root."""

    def __init__(self, shm: Path, tmp: Path, root: Path) -> None:
        self.shm, self.tmp = shm, tmp
        self.paths = store.Paths(str(root))
        self.paths.make()

    def place(self, *, made: bool = True, shared_ipc: bool = False, shared_tmp: bool = False) -> Place:
        audit = Audit(self.paths.audit, "a test", Troubles())
        return Place(self.paths, audit, made, shared_ipc, str(self.shm), str(self.tmp), shared_tmp)

    def tidy(
        self,
        *,
        made: bool = True,
        shared_ipc: bool = False,
        shared_tmp: bool = False,
        check: bool = False,
        running: tuple[str, ...] = (),
        grace: float = 0,
        only: str | None = None,
    ) -> dict[str, tuple[str, str]]:
        """Action and reason by name."""
        place = self.place(made=made, shared_ipc=shared_ipc, shared_tmp=shared_tmp)
        # whoever runs the tests is older than what they make
        own = list(procs.table())
        found = leftovers.tidy(place, running, check=check, own=own, grace=grace, only=only)
        return {one["path"].rpartition("/")[2]: (one["action"], one["why"]) for one in found}

    def left(self, unit: str, *names: str) -> None:
        """Files that are on the list of a unit of which nothing lives."""
        files = []
        for name in names:
            (self.shm / name).write_bytes(bytes(4096))
            files.append(traces.look(f"{self.shm}/{name}", traces.MEMORY))
        self.listed(unit, *files)

    def listed(self, unit: str, *files: File | None) -> None:
        traces.save(self.paths.traces(unit), Traces([file for file in files if file], [], []))

    @property
    def audit(self) -> list[dict[str, Any]]:
        """Lines of the audit log."""
        try:
            return [json.loads(line) for line in Path(self.paths.audit).read_text().splitlines()]
        except FileNotFoundError:
            return []


@pytest.fixture
def corner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corner]:
    """A corner where nobody is about but this process and its children: others of a machine that is busy
    can't be read for a moment now and then."""
    whole = procs.table

    def ours() -> dict[int, procs.Process]:
        return {pid: one for pid, one in whole().items() if os.getpid() in (pid, one.ppid)}

    monkeypatch.setattr(procs, "table", ours)
    with memory_folder() as shm, short_folder() as tmp:
        yield Corner(shm, tmp, tmp_path / "root")


def test_what_a_dead_unit_left_is_removed_and_told(corner: Corner) -> None:
    corner.left("llm", "psm_0123", "odd-name")
    assert corner.tidy(made=False) == {
        "psm_0123": ("removed", "left behind by llm"),
        "odd-name": ("removed", "left behind by llm"),
    }
    assert list(corner.shm.iterdir()) == []
    assert [(one["event"], one["unit"], one["path"], one["outcome"]) for one in corner.audit] == [
        ("remove", "llm", f"{corner.shm}/psm_0123", "removed"),
        ("remove", "llm", f"{corner.shm}/odd-name", "removed"),
    ]
    assert not Path(corner.paths.traces("llm")).exists()  # there is no such unit any more
    assert corner.tidy(made=False) == {}


def test_what_a_unit_that_lives_has_is_nothing_left_over(corner: Corner) -> None:
    corner.left("llm", "odd-name", "psm_0123")
    assert corner.tidy(running=("llm",)) == {}
    assert (corner.shm / "odd-name").exists()
    assert (corner.shm / "psm_0123").exists()


def test_check_lists_the_same_and_does_nothing(corner: Corner) -> None:
    corner.left("llm", "psm_0123")
    before = Path(corner.paths.traces("llm")).read_text()
    assert corner.tidy(check=True) == {"psm_0123": ("none", "left behind by llm; would be removed")}
    assert (corner.shm / "psm_0123").exists()
    assert Path(corner.paths.traces("llm")).read_text() == before
    assert corner.audit == []


@pytest.mark.parametrize("program", [OPEN, MAP])
def test_what_anybody_has_stays(corner: Corner, program: str) -> None:
    corner.left("llm", "nccl-live")
    (corner.shm / "psm_live").write_bytes(bytes(4096))
    with having(program, corner.shm / "nccl-live") as one, having(program, corner.shm / "psm_live") as two:
        assert corner.tidy() == {
            "nccl-live": ("none", f"left behind by llm; in use by pid {one.pid} ({one.name})"),
            "psm_live": (
                "none",
                f"by its name Python's shared memory; in use by pid {two.pid} ({two.name})",
            ),
        }
    assert {name: action for name, (action, _) in corner.tidy().items()} == {
        "nccl-live": "removed",
        "psm_live": "removed",
    }


def test_a_semaphore_that_was_mapped_by_another_name_is_in_use(corner: Corner) -> None:
    with having(SEMAPHORE, corner.shm / "sem.tmp", corner.shm / "sem.mp-0123") as process:
        assert "sem.tmp (deleted)" in Path(f"/proc/{process.pid}/maps").read_text()
        assert corner.tidy()["sem.mp-0123"][1].endswith(f"in use by pid {process.pid} ({process.name})")


def test_a_mapping_whose_device_looks_different_counts_by_its_path(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    corner.left("llm", "nccl-live")
    real = openfiles.mapped

    def stacked(pid: int, folder: str = "/") -> Iterator[openfiles.Mapping]:
        return (one._replace(dev=one.dev + 1) for one in real(pid, folder))

    monkeypatch.setattr(openfiles, "mapped", stacked)
    with having(MAP, corner.shm / "nccl-live") as process:
        assert corner.tidy()["nccl-live"][1].endswith(f"in use by pid {process.pid} ({process.name})")


def test_a_list_of_another_file_of_the_name_is_no_claim(corner: Corner) -> None:
    corner.left("llm", "odd-name", "odd-link")
    for name in ("odd-name", "odd-link"):
        (corner.shm / name).unlink()
    (corner.shm / "odd-name").write_text("somebody else's")
    (corner.shm / "odd-link").symlink_to(corner.shm / "odd-name")
    assert corner.tidy() == {}
    assert (corner.shm / "odd-name").read_text() == "somebody else's"


def test_names_count_only_where_klops_made_the_container_and_after_the_grace_time(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "GRACE", 3600.0)
    for name in ("psm_1", "sem.mp-2", "vllm_dist_3", "vllm_offload_4.mmap", "nccl-5", "torch_6", "users.dat"):
        (corner.shm / name).write_bytes(bytes(4096))
    (corner.shm / "psm_folder").mkdir()
    assert corner.tidy(made=False) == {}
    young = corner.tidy(grace=3600.5)
    assert {action for action, _ in young.values()} == {"none"}
    assert {why.partition("; ")[2] for _, why in young.values()} == {
        "it was made or changed less than 3600 s ago"
    }
    assert len(young) == 6
    assert {action for action, _ in corner.tidy().values()} == {"removed"}
    assert sorted(path.name for path in corner.shm.iterdir()) == ["psm_folder", "users.dat"]


def test_files_of_other_users_stay(corner: Corner) -> None:
    (corner.shm / "nccl-theirs").write_bytes(bytes(4096))
    os.chown(corner.shm / "nccl-theirs", 4242, 4242)
    corner.listed("llm", traces.look(f"{corner.shm}/nccl-theirs", traces.MEMORY))
    assert corner.tidy() == {
        "nccl-theirs": ("none", "left behind by llm; it belongs to user 4242, not to klops'")
    }


def test_where_the_memory_is_shared_nothing_is_removed(corner: Corner) -> None:
    corner.left("llm", "nccl-own")
    (corner.shm / "nccl-other").write_bytes(b"")
    found = corner.tidy(shared_ipc=True)
    assert {action for action, _ in found.values()} == {"none"}
    assert "who uses it can't be seen from here" in found["nccl-own"][1]
    assert len(list(corner.shm.iterdir())) == 2


def test_where_tmp_is_shared_what_is_in_it_stays_and_only_that(corner: Corner) -> None:
    corner.left("llm", "nccl-own")
    (corner.tmp / "vllm_dist_x").write_bytes(b"")
    for name in (UUID, "own.sock"):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"{corner.tmp}/{name}")
    corner.listed("other", traces.look(f"{corner.tmp}/own.sock", traces.SOCKET))
    found = corner.tidy(shared_tmp=True)
    assert found.pop("nccl-own") == ("removed", "left behind by llm")
    assert set(found) == {UUID, "own.sock", "vllm_dist_x"}
    assert {action for action, _ in found.values()} == {"none"}
    assert all(why.endswith("who uses it can't be seen from here") for _, why in found.values())
    assert {path.name for path in corner.tmp.iterdir()} == set(found)
    assert {action for action, _ in corner.tidy().values()} == {"removed"}


@pytest.mark.parametrize("state", ["unreadable", "D"])
def test_with_a_process_that_cannot_be_seen_nothing_is_certain(
    corner: Corner, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    corner.left("llm", "nccl-own")
    with having("") as hidden:
        real, opened = procs.read, openfiles.opened

        def read(pid: int) -> procs.Process | None:
            return hidden._replace(state="D") if pid == hidden.pid and state == "D" else real(pid)

        def refused(pid: int) -> list[os.stat_result]:
            if state == "unreadable" and pid == hidden.pid:
                raise PermissionError(13, "Permission denied")
            return opened(pid)

        monkeypatch.setattr(procs, "read", read)
        monkeypatch.setattr(openfiles, "opened", refused)
        action, why = corner.tidy()["nccl-own"]
        assert action == "none"
        assert why.endswith(f"can't be seen: no access to the open files of pid {hidden.pid} ({hidden.name})")


def stale_socket(path: Path) -> None:
    """A socket that nobody has any more."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def test_sockets_without_anybody_who_listens(corner: Corner, monkeypatch: pytest.MonkeyPatch) -> None:
    live = UUID.replace("0b", "1c")
    stale_socket(corner.tmp / UUID)
    stale_socket(corner.tmp / "own.sock")
    stale_socket(corner.tmp / "users.sock")
    corner.listed("llm", traces.look(f"{corner.tmp}/own.sock", traces.SOCKET))
    # bound by another name for its folder, as through a link
    with having(LISTEN.replace("sys.argv[1]", "'/proc/self/root' + sys.argv[1]"), corner.tmp / live):
        found = corner.tidy()
        assert found[UUID] == ("removed", "by its name a socket of vLLM's processes")
        assert found["own.sock"] == ("removed", "left behind by llm")
        assert found[live][1].endswith("a process listens on it")
        assert sorted(path.name for path in corner.tmp.iterdir()) == sorted([live, "users.sock"])

        def blind() -> list[unixsockets.Bound]:
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(unixsockets, "bound", blind)
        assert "can't be seen: No such file" in corner.tidy()[live][1]


def test_where_workers_met_goes_when_all_who_were_there_have_gone(corner: Corner) -> None:
    with having("") as worker:
        meeting = corner.tmp / "vllm_dist_12_abcd"
        meeting.write_text("")
        others = [pid for pid in procs.table() if pid != worker.pid]
        place = corner.place()
        assert leftovers.tidy(place, (), check=False, own=others, grace=0) == []
        assert meeting.exists()
    assert corner.tidy() == {meeting.name: ("removed", "by its name where vLLM's workers met")}


def test_segments_on_the_list_that_nobody_has_mapped(corner: Corner, tmp_path: Path) -> None:
    with having(SEGMENT, tmp_path / "id") as maker:
        number = int((tmp_path / "id").read_text())
        try:
            traces.note(corner.paths.traces("llm"), [maker], str(corner.shm))
            assert corner.tidy()[f"sysv:{number}"] == (
                "none",
                "left behind by llm; 1 mapping(s) of it are in use",
            )
        except BaseException:
            sysv.remove(next(one for one in sysv.segments() if one.id == number))
            raise
    assert corner.tidy() == {f"sysv:{number}": ("removed", "left behind by llm")}
    assert number not in {one.id for one in sysv.segments()}
    assert not Path(corner.paths.traces("llm")).exists()


def test_between_look_and_removal_a_file_may_become_another(corner: Corner) -> None:
    corner.left("llm", "nccl-own")
    file = traces.look(f"{corner.shm}/nccl-own", traces.MEMORY)
    assert file is not None
    (corner.shm / "nccl-own").unlink()
    assert not leftovers.unlink(file)
    (corner.shm / "nccl-own").write_text("somebody else's")
    assert not leftovers.unlink(file)
    assert (corner.shm / "nccl-own").read_text() == "somebody else's"
    assert not leftovers.unlink(file._replace(path=f"{corner.shm}/none/nccl-own"))


def test_one_unit_only_and_not_by_names(corner: Corner) -> None:
    corner.left("llm", "nccl-llm")
    corner.left("other", "nccl-other")
    (corner.shm / "nccl-nobodys").write_bytes(b"")
    assert set(corner.tidy(only="llm")) == {"nccl-llm"}
    assert sorted(path.name for path in corner.shm.iterdir()) == ["nccl-nobodys", "nccl-other"]


def test_a_list_that_cannot_be_read_is_named(corner: Corner) -> None:
    Path(corner.paths.traces("llm")).write_text("{")
    action, why = corner.tidy()["llm.traces.json"]
    assert (action, why.endswith("what its unit has left can't be told")) == ("none", True)


def test_a_removal_that_is_refused_is_told(corner: Corner, monkeypatch: pytest.MonkeyPatch) -> None:
    corner.left("llm", "nccl-own")

    def refused(path: str, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        found = corner.tidy()
    assert found == {"nccl-own": ("none", "left behind by llm; refused: Operation not permitted")}
    assert corner.audit[-1]["outcome"] == "refused: Operation not permitted"
    assert Path(corner.paths.traces("llm")).exists()


def test_a_unit_that_dies_young_is_cleared_before_its_next_start_too(corner: Corner) -> None:
    troubles, audit = Troubles(), Audit(corner.paths.audit, "a test", Troubles())
    around = Surroundings(
        paths=corner.paths,
        audit=audit,
        package="",
        umask=0o022,
        never=(),
        wake=None,
        exits={},
        home="here",
        troubles=troubles,
        access=Access(audit),
        memory=Memory(audit),
        made=True,
    )
    remains = Remains("llm", around)
    for name in ("first", "second"):
        remains.begin()
        corner.left("llm", name)
        remains.clear()
        assert list(corner.shm.iterdir()) == []
