"""Whether card nodes can be opened: told by what the kernel says, without ever being held up."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent import isolated
from klops.agent.audit import Audit
from klops.agent.processes import access, devices, procs
from klops.agent.processes.access import Access
from klops.agent.trouble import Troubles
from klops.agent.units import launching
from tests.unit.agent.opening import opener
from tests.waiting import until

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")


def make(path: Path, major: int, minor: int) -> None:
    """A character device node."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(major, minor))


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nodes can be listed and not opened: as a container's when it has lost its devices."""
    folder = tmp_path / "refusing"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nodev", "refusing", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@NEEDS_ROOT
def test_what_the_container_refuses_and_what_the_driver_does_are_told_apart(
    tmp_path: Path, refusing: Path
) -> None:
    make(refusing / "xpu3", 1, 7)
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "xpu0").symlink_to("/dev/full")
    make(dev / "xpu1", 511, 7)  # a number that no driver has
    (dev / "xpu3").symlink_to(refusing / "xpu3")
    found = opener().refusals(devices.nodes(str(dev)))
    assert found is not None
    assert [one.as_json() for one in found] == [
        {"node": f"{dev}/xpu1", "error": "No such device or address", "fault": "driver"},
        {"node": f"{dev}/xpu3", "error": "Permission denied", "fault": "container"},
    ]
    assert "another container would not help" in found[0].problem
    assert "a fault of the container, not of the card" in found[1].problem
    assert "--recreate" in found[1].problem


@NEEDS_ROOT
@pytest.mark.parametrize("node", ["xpu3", "xpuctrl"])
def test_a_start_asks_for_its_own_cards_and_the_control_node(
    tmp_path: Path, refusing: Path, node: str
) -> None:
    for name in ("xpu2", "xpu3", "xpuctrl"):
        (tmp_path / name).symlink_to("/dev/full")
    make(refusing / node, 1, 7)
    (tmp_path / node).unlink()
    (tmp_path / node).symlink_to(refusing / node)
    cards = [{"index": 1, "minor": 2, "node": "/dev/xpu2"}]
    spec = {"cards": cards, "device_dir": str(tmp_path), "port": 1}
    problem, lacking, undecided = launching.obstacle(spec, {}, opener())
    assert (lacking, undecided) == (node == "xpuctrl", False)
    assert problem.startswith(f"{tmp_path}/xpuctrl is listed in this container") == lacking
    spec["cards"] = []
    assert launching.obstacle(spec, {}, opener()) == launching.Obstacle()


def refusals(found: Access, folder: Path, max_age: float = 0.0) -> list[tuple[str, bool]] | None:
    """What is refused there."""
    refused = found.refusals(devices.nodes(str(folder)), max_age)
    return None if refused is None else [(one.error, one.container) for one in refused]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EPERM, [("Operation not permitted", True)]),
        (errno.ENODEV, [("No such device", False)]),
        (errno.EIO, [("Input/output error", False)]),
        (errno.EBUSY, []),  # somebody has it: so it can be opened
        (errno.ENOENT, []),
        (errno.EMFILE, None),
        (errno.ENOMEM, None),
        ("", None),  # it was killed
    ],
)
def test_what_an_error_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: object, expected: list[tuple[str, bool]] | None
) -> None:
    (tmp_path / "xpu0").symlink_to("/dev/full")
    with monkeypatch.context() as patched:
        patched.setattr(isolated, "PYTHON", ["/bin/sh", "-c", f"printf '{number}'"])
        found = opener()
        assert refusals(found, tmp_path) == expected
    assert refusals(found, tmp_path, access.FRESH) == expected  # what was seen counts for a while
    assert refusals(found, tmp_path) == []


@pytest.mark.parametrize("what", ["pipe", "posix_spawnp"])
def test_no_descriptors_and_no_processes_are_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "xpu0").symlink_to("/dev/full")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "short")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, what, refuse)
    assert refusals(opener(), tmp_path) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def slow(folder: Path, card: str) -> list[str]:
    """A Python whose opens of one card don't return until somebody writes into ``folder``/driver."""
    os.mkfifo(folder / "driver")
    start = f"""
    for path; do :; done
    echo "${{path##*/}}" >>{folder}/opened
    [ "${{path##*/}}" = {card} ] && read -r _ <{folder}/driver
    exec {sys.executable} "$@"
    """
    return ["/bin/sh", "-c", start, "sh", "-I", "-S"]


def opened(folder: Path, card: str) -> int:
    """How often an open of that card was begun."""
    return (folder / "opened").read_text().split().count(card)


def test_an_open_that_does_not_return_holds_up_nobody_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "xpu0").symlink_to("/dev/full")
    (dev / "xpu1").symlink_to("/dev/zero")
    monkeypatch.setattr(isolated, "PYTHON", slow(tmp_path, "xpu0"))
    found = opener()
    cards = [{"index": 0, "minor": 0, "node": "/dev/xpu0"}]
    spec = {"cards": cards, "device_dir": str(dev), "port": 1}
    # it may only be slow
    assert refusals(found, dev) is None
    assert launching.obstacle(spec, {}, found) == launching.Obstacle(undecided=True)
    monkeypatch.setattr(access, "_STUCK", 0.0)
    assert refusals(found, dev) == [("the open doesn't return", False)]
    assert launching.obstacle(spec, {}, found).lacking
    assert (opened(tmp_path, "xpu0"), opened(tmp_path, "xpu1")) == (1, 2)
    (tmp_path / "driver").write_text("go on\n")
    until(lambda: refusals(found, dev, access.FRESH) == [], what="it did return")
    assert opened(tmp_path, "xpu0") == 1

    def left() -> set[int]:
        found.hear()
        return found.pids

    until(lambda: left() == set(), what="all are seen to end")


def test_who_opens_keeps_nothing_of_the_supervisor_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "xpu0").symlink_to("/dev/full")
    monkeypatch.setattr(isolated, "PYTHON", slow(tmp_path, "xpu0"))
    monkeypatch.setattr(access, "_PATIENCE", 0.0)
    found = Access(Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles()))
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        assert refusals(found, dev) is None
        (pid,) = found.pids
        until(lambda: (tmp_path / "opened").exists(), what="it opens the card")
        mine = (tmp_path / "lock").stat().st_ino
        folder = Path(f"/proc/{pid}/fd")
        assert mine not in {fd.stat().st_ino for fd in folder.iterdir()}
        started = procs.read(pid)
        found.close()
        os.waitpid(pid, 0)  # it ends, though nobody writes
    finally:
        os.close(lock)
    assert procs.read(pid) is None
    assert started is not None
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["event"], line["signal"], line["outcome"]) == ("signal", "SIGKILL", "sent")
    assert (line["pid"], line["start"]) == (pid, started.start)


def test_one_that_somebody_has_stopped_is_ended_and_the_node_tested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "xpu0").symlink_to("/dev/full")
    stops = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; kill -STOP $$; }}; printf 0"
    monkeypatch.setattr(isolated, "PYTHON", ["/bin/sh", "-c", stops])
    monkeypatch.setattr(access, "_PATIENCE", 0.0)
    found = Access(Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles()))
    until(lambda: refusals(found, dev, access.FRESH) == [], timeout=5, what="it was tested")
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["signal"], line["why"], line["outcome"]) == ("SIGKILL", "it was stopped", "sent")
