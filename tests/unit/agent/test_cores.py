"""Many processes are looked at by several, and what they see is put together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from klops.agent.processes import cores, procs

PIDS = list(range(1, 1001))
WORTH = 100


# who runs the tests side by side has threads
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def who(part: Sequence[int]) -> list[list[int]]:
    return [[pid, os.getpid()] for pid in part]


def told(found: list[list[list[int]]]) -> dict[int, int]:
    return {pid: by for part in found for pid, by in part}


def children() -> set[int]:
    """Of this process, ended ones that nobody has waited for too."""
    return {one.pid for one in procs.table().values() if one.ppid == os.getpid()}


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def test_all_are_looked_at_once_by_as_many_as_there_are_cores() -> None:
    found = cores.shared(who, PIDS, WORTH)
    assert sorted(pid for part in found for pid, _ in part) == PIDS
    assert len({by for part in found for _, by in part}) == len(found) == 4


@pytest.mark.parametrize("count", [0, 1, 2 * WORTH - 1])
def test_few_are_looked_at_here(count: int) -> None:
    assert set(told(cores.shared(who, PIDS[:count], WORTH)).values()) <= {os.getpid()}


def test_in_a_program_of_several_threads_nobody_is_begotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert set(told(cores.shared(who, PIDS, WORTH)).values()) == {os.getpid()}


@pytest.mark.parametrize("ends", ["killed", "fails"])
def test_the_part_of_a_child_that_ends_is_looked_at_here(ends: str) -> None:
    here = os.getpid()

    def look(part: Sequence[int]) -> list[list[int]]:
        if os.getpid() != here and 2 in part:
            if ends == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("no room")
        return who(part)

    found = told(cores.shared(look, PIDS, WORTH))
    assert sorted(found) == PIDS
    assert (found[2], found[3] == here) == (here, False)


def test_what_is_wrong_here_too_comes_up_and_nobody_is_waited_for() -> None:
    here, before = os.getpid(), children()
    waits, goes_on = os.pipe()

    def look(part: Sequence[int]) -> list[list[int]]:
        if os.getpid() != here:
            os.close(goes_on)
            os.read(waits, 1)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        cores.shared(look, PIDS, WORTH)
    late = children() - before
    assert len(late) == 3
    os.close(goes_on)
    for pid in late:
        os.waitpid(pid, 0)
    os.close(waits)


def test_where_no_process_can_be_started_all_is_looked_at_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the code under test has it
    found = told(cores.shared(who, PIDS, WORTH))
    assert (sorted(found), set(found.values())) == (PIDS, {os.getpid()})
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - the same
