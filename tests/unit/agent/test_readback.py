"""Which cards a unit really has, read back from processes that live."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import klops
from klops.agent import isolated
from klops.agent.audit import Audit
from klops.agent.processes import devices, procs
from klops.agent.processes.devices import Node
from klops.agent.trouble import Troubles
from klops.agent.units import readback
from klops.agent.units.readback import ReadBack
from tests.waiting import until

#: Where the modules are that a package file has in it.
SOURCE = str(Path(klops.__file__).parent.parent)
#: A process called as a worker is, that has some files open; it says when it has.
WORKER = "import sys; kept = [open(p) for p in sys.argv[1:]]; print('there', flush=True); sys.stdin.read()"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Character devices that everybody may open stand for the nodes of two cards."""
    paths = ["/dev/null", "/dev/zero"]
    found = []
    for number, path in enumerate(paths):
        status = Path(path).stat()
        found.append(Node(f"/dev/xpu{number}", status.st_rdev, status.st_dev, status.st_ino))
    monkeypatch.setattr(devices, "nodes", lambda folder: found)
    return paths


def spec(*indexes: int) -> dict[str, Any]:
    cards = [{"index": index, "minor": at, "node": f"/dev/xpu{at}"} for at, index in enumerate(indexes)]
    return {"cards": cards, "device_dir": "/dev", "visible_env": "XPU_VISIBLE_DEVICES"}


@pytest.fixture
def begun() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.communicate("")


def worker(begun: list[subprocess.Popen[str]], rank: int, path: str, **env: str) -> procs.Process:
    process = subprocess.Popen(
        [f"VLLM::Worker_TP{rank}", "-c", WORKER, path],
        executable=sys.executable,
        # of its own, so that it has no other of these devices open
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **env},
        text=True,
    )
    begun.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    found = procs.read(process.pid)
    assert found is not None
    return found


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles())


@pytest.fixture
def reads(audit: Audit) -> Iterator[ReadBack]:
    made = ReadBack("llm", audit, SOURCE)
    yield made
    made.close()


def key(process: procs.Process) -> tuple[int, int]:
    return process.pid, process.start


def told(reads: ReadBack, living: list[procs.Process], asked: dict[str, Any]) -> dict[str, Any]:
    """What is told of a unit that has become ready, the first of whose processes is the main one."""
    reads.look(key(living[0]), living, asked)
    finished(reads)
    return reads.of(key(living[0]))


def finished(reads: ReadBack) -> None:
    def over() -> bool:
        reads.hear()
        return not reads.pids

    until(over, what="who reads has ended")


def test_all_is_as_it_was_asked_for(nodes: list[str], begun: list[Any], reads: ReadBack) -> None:
    living = [worker(begun, rank, path, XPU_VISIBLE_DEVICES="0,1") for rank, path in enumerate(nodes)]
    assert told(reads, living, spec(4, 6)) == {"ranks": [4, 6], "note": ""}


def test_row_C16_another_order_of_the_ranks_is_told(
    nodes: list[str], begun: list[Any], reads: ReadBack
) -> None:
    living = [
        worker(begun, rank, path, XPU_VISIBLE_DEVICES="0,1") for rank, path in enumerate(reversed(nodes))
    ]
    found = told(reads, living, spec(4, 6))
    assert found["ranks"] == [6, 4]
    assert found["note"] == "the ranks have cards 6, 4, asked for were 4, 6, in this order"


def test_row_C16_a_variable_that_is_not_the_one_that_was_set(
    nodes: list[str], begun: list[Any], reads: ReadBack
) -> None:
    living = [worker(begun, 0, nodes[0], XPU_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="5")]
    assert told(reads, living, spec(4, 6))["note"] == (
        "its cards are not those it was given: XPU_VISIBLE_DEVICES is 0, CUDA_VISIBLE_DEVICES is 5"
    )


def test_a_rank_without_a_card_of_its_own_tells_nothing(
    nodes: list[str], begun: list[Any], reads: ReadBack
) -> None:
    living = [worker(begun, 0, nodes[0], XPU_VISIBLE_DEVICES="0,1"), worker(begun, 1, "/etc/passwd")]
    assert told(reads, living, spec(4, 6)) == {"ranks": [], "note": ""}


def test_it_is_read_once_for_each_main_process(nodes: list[str], begun: list[Any], reads: ReadBack) -> None:
    living = [worker(begun, rank, path, XPU_VISIBLE_DEVICES="0,1") for rank, path in enumerate(nodes)]
    told(reads, living, spec(4, 6))
    begun.pop().communicate("")  # read now, this would be told of one rank only
    assert told(reads, living, spec(4, 6)) == {"ranks": [4, 6], "note": ""}
    assert reads.of((living[0].pid, living[0].start + 1)) == {"ranks": [], "note": ""}
    later = [living[0]._replace(start=living[0].start + 1)]
    assert told(reads, later, spec(4, 6)) == {"ranks": [], "note": ""}
    assert reads.of(key(living[0])) == {"ranks": [], "note": ""}


def test_one_that_may_sit_in_the_driver_is_not_read(
    nodes: list[str], begun: list[Any], reads: ReadBack
) -> None:
    living = [worker(begun, rank, path, XPU_VISIBLE_DEVICES="0,1") for rank, path in enumerate(nodes)]
    reads.look(key(living[0]), [living[0], living[1]._replace(state="D")], spec(4, 6))
    assert reads.pids == set()
    assert told(reads, living, spec(4, 6))["ranks"] == [4, 6]  # once it is out of it


def test_who_does_not_come_back_from_reading_holds_up_nobody_and_is_one(
    nodes: list[str],
    begun: list[Any],
    reads: ReadBack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    living = [worker(begun, rank, path, XPU_VISIBLE_DEVICES="0,1") for rank, path in enumerate(nodes)]
    # whoever opens such a pipe waits until somebody writes
    os.mkfifo(tmp_path / "driver")
    monkeypatch.setattr(isolated, "PYTHON", ["/bin/sh", "-c", f"read -r _ <{tmp_path}/driver"])
    before = time.monotonic()
    reads.look(key(living[0]), living, spec(4, 6))
    assert time.monotonic() - before < 5.0  # of the few tenths of a second that it may take
    (pid,) = reads.pids
    reads.look((living[0].pid, 7), living, spec(4, 6))
    assert reads.pids == {pid}
    assert reads.of(key(living[0])) == {"ranks": [], "note": ""}
    monkeypatch.setattr(readback, "DEADLINE", 0.0)
    finished(reads)
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["pid"], line["signal"], line["outcome"]) == (pid, "SIGKILL", "sent")
    assert reads.of(key(living[0])) == {"ranks": [], "note": ""}
