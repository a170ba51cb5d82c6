"""Card nodes that appear late, and such that can be listed and not opened."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.site import Site
from tests.waiting import until

CARD = {"index": 3, "minor": 5, "node": "/dev/xpu5", "bdf": "", "uuid": "", "serial": ""}


def with_card(site: Site, nodes: Path) -> dict[str, Any]:
    """A unit on a card, whose node is there."""
    show(site, nodes / "xpu5")
    (site.devices / "xpuctrl").symlink_to(nodes / "xpuctrl")
    # one failure is all that it has
    return site.spec(cards=[CARD], restart={"limit": 1})


def show(site: Site, target: Path | None) -> None:
    """Have the node lead there, or have none."""
    (site.devices / "xpu5").unlink(missing_ok=True)
    if target is not None:
        (site.devices / "xpu5").symlink_to(target)


def boot(site: Site, node: Path | None, spec: dict[str, Any]) -> dict[str, Any]:
    """A unit that ran in an earlier life of the container; what it is like in this one, in which it waits."""
    hold = site.hold()
    site.start(spec)
    site.reaches("ready")
    hold.send_signal(signal.SIGTERM)
    hold.wait(20)
    path = site.root / "run" / "llm.state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "home": "another"}))
    show(site, node)
    site.hold()
    return site.reaches("backoff")


def looked_again(site: Site) -> None:
    """It is looked at again."""
    path = site.root / "run" / "llm.state.json"
    seen: set[float] = set()

    def more() -> bool:
        seen.add(json.loads(path.read_text())["not_before"])
        return len(seen) > 1

    until(more, what="it is looked at again")


def test_a_node_that_comes_late_is_waited_for(site: Site, nodes: Path) -> None:
    unit = boot(site, None, with_card(site, nodes))
    assert unit["error"] == f"card 3 (minor 5, {site.devices}/xpu5) is not in this container"
    looked_again(site)
    unit = site.unit()
    assert (unit["state"], unit["restarts"], unit["generation"]) == ("backoff", 0, 1)
    # said once, not at every look
    assert len(site.audit("start-refused")) == 1
    # another supervisor goes on waiting
    first = site.supervisor()
    os.kill(first, signal.SIGKILL)
    until(lambda: site.supervisor() != first, what="another supervisor")
    assert site.unit()["state"] == "backoff"
    show(site, nodes / "xpu5")
    again = site.ready_again(1)
    assert (again["restarts"], again["generation"], again["error"]) == (0, 2, "")


@pytest.mark.parametrize("ask", ["start", "restart"])
def test_who_asks_too_early_is_told_and_the_unit_waits_on(site: Site, nodes: Path, ask: str) -> None:
    missing = f"card 3 (minor 5, {site.devices}/xpu5) is not in this container"
    boot(site, None, with_card(site, nodes))
    site.verb(ask, "llm")
    waited = subprocess.run(site.command("wait", "llm"), capture_output=True, timeout=20, check=False)
    assert waited.returncode == 1
    told = json.loads(waited.stdout.splitlines()[-1])
    assert told["error"] == f"{missing}; it starts by itself as soon as that is over"
    unit = site.unit()
    assert (unit["state"], unit["desired"], unit["waits"]) == ("backoff", "running", True)
    show(site, nodes / "xpu5")
    again = site.ready_again(1)
    assert (again["restarts"], again["error"], again["waits"]) == (0, "", False)


@pytest.fixture
def refusing(nodes: Path, tmp_path: Path) -> Iterator[Path]:
    """A node that is listed and can't be opened, as one of a container that has lost its devices."""
    folder = tmp_path / "refusing"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nodev", "refusing", folder], check=True)
    try:
        os.mknod(folder / "node", 0o600 | stat.S_IFCHR, (nodes / "xpu5").stat().st_rdev)
        yield folder / "node"
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def opened_now(site: Site) -> list[dict[str, Any]]:
    """What can't be opened of all nodes, tested from now on."""
    began = time.monotonic()

    def known() -> list[Any] | None:
        found = site.verb("status", "--access-age", str(time.monotonic() - began))["access"]
        return None if found is None else [found]  # an empty one is an answer, too

    listed: list[dict[str, Any]] = until(known, what="all are opened")[0]
    return listed


def test_access_that_was_lost_is_the_containers_fault_and_waited_for(
    site: Site, nodes: Path, refusing: Path
) -> None:
    unit = boot(site, refusing, with_card(site, nodes))
    assert unit["error"].startswith(
        f"{site.devices}/xpu5 is listed in this container but opening it is refused (Permission denied): the"
        " container has lost access to the device, a fault of the container, not of the card"
    )
    refused = {"node": f"{site.devices}/xpu5", "error": "Permission denied", "fault": "container"}
    assert site.verb("status")["access"] == [refused]
    show(site, nodes / "xpu6")  # another device: what was seen of the one before says nothing of it
    assert site.verb("status")["access"] == []
    site.ready_again(1)
    spare = site.devices / "xpu7"  # no unit uses it
    os.mknod(spare, 0o600 | stat.S_IFCHR, os.makedev(511, 0))
    assert site.verb("status")["access"] == []
    assert [one["node"] for one in opened_now(site)] == [str(spare)]
    spare.unlink()
    assert opened_now(site) == []


def test_what_has_no_driver_is_not_the_containers_fault(site: Site, nodes: Path) -> None:
    os.mknod(site.devices / "xpu0", 0o600 | stat.S_IFCHR, os.makedev(511, 0))
    assert site.verb("status")["access"] is None  # nobody tests
    site.hold()
    site.supervisor()
    assert site.verb("status")["access"] is None  # no unit uses it
    site.start(site.spec(cards=[{**CARD, "minor": 0, "node": "/dev/xpu0"}]))
    assert "the driver or the card doesn't answer" in site.reaches("backoff")["error"]
    refused = {"node": f"{site.devices}/xpu0", "error": "No such device or address", "fault": "driver"}
    assert site.verb("status")["access"] == [refused]
    site.verb("stop", "llm")
    assert site.verb("status")["access"] == [refused]  # with none that is wanted those of all count
    show(site, nodes / "xpu5")
    site.start(site.spec("other", cards=[CARD]))
    site.reaches("ready", "other")
    assert site.verb("status")["access"] == []
