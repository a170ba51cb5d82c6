"""Whether card nodes can be opened: told by what the kernel says, without ever being held up."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent import access, devices, launching
from klops.agent.access import Access
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
    found = Access().refusals(devices.nodes(str(dev)))
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
    problem, lacking, undecided = launching.obstacle(spec, {}, Access())
    assert (lacking, undecided) == (node == "xpuctrl", False)
    assert problem.startswith(f"{tmp_path}/xpuctrl is listed in this container") == lacking
    spec["cards"] = []
    assert launching.obstacle(spec, {}, Access()) == launching.Obstacle()


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
    ],
)
def test_what_an_error_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: list[tuple[str, bool]] | None
) -> None:
    (tmp_path / "xpu0").symlink_to("/dev/full")

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        found = Access()
        assert refusals(found, tmp_path) == expected
    assert refusals(found, tmp_path, access.FRESH) == expected  # what was seen counts for a while
    assert refusals(found, tmp_path) == []


def test_no_threads_is_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xpu0").symlink_to("/dev/full")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert refusals(Access(), tmp_path) is None


def test_an_open_that_does_not_return_holds_up_nobody_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xpu0").symlink_to("/dev/full")
    (tmp_path / "xpu1").symlink_to("/dev/zero")
    stuck, opened, real = threading.Event(), [], os.open

    def slow(path: str, flags: int, *more: int) -> int:
        opened.append(Path(path).name)
        if path.endswith("xpu0"):
            stuck.wait(60)
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", slow)
    monkeypatch.setattr(access, "_PATIENCE", 0.05)
    found = Access()
    cards = [{"index": 0, "minor": 0, "node": "/dev/xpu0"}]
    spec = {"cards": cards, "device_dir": str(tmp_path), "port": 1}
    try:
        # it may only be slow
        assert refusals(found, tmp_path) is None
        assert launching.obstacle(spec, {}, found) == launching.Obstacle(undecided=True)
        monkeypatch.setattr(access, "_STUCK", 0.0)
        assert refusals(found, tmp_path) == [("the open doesn't return", False)]
        assert launching.obstacle(spec, {}, found).lacking
        assert (opened.count("xpu0"), opened.count("xpu1")) == (1, 2)
    finally:
        stuck.set()
    until(lambda: refusals(found, tmp_path, access.FRESH) == [], what="it did return")
    assert opened.count("xpu0") == 1
