"""Rows 16 and 17 of the field reports on a host: numbers of cards that are mixed up, access that is lost.

The others: F37 in test_xccl_up.py, F38, F40 and F41 in test_xccl.py and test_xccl_gloo.py; the data sets of
37, 38 and 40 in tests/unit/cards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVICE, Rehearsal
from tests.host.diagnosing import Bench, bench_of, verdicts
from tests.host.test_up import docker
from tests.host.watch import holders
from tests.rehearsals import MakeRehearsal

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

WING = [4, 5, 6, 7]


@pytest.fixture(scope="module")
def rehearsal(make_rehearsal: MakeRehearsal) -> Rehearsal:
    """Two hosts; where a container is made now, it may not open card 7's node, as its host may."""
    return make_rehearsal(hosts=2, transports=["local"])


@pytest.fixture(scope="module")
def wing(rehearsal: Rehearsal) -> Bench:
    """A host of which the cards 4 to 7 are used, and tested before a start."""
    return bench_of(rehearsal, 0, diagnose="auto", own={"use": WING, "expected": 8})


def inspected(bench: Bench) -> dict[str, Any]:
    """The container as the engine has it."""
    (found,) = json.loads(docker(bench.rehearsal, "inspect", bench.host.container))
    return dict(found)


@pytest.mark.long
def test_row_C16_the_cards_that_are_meant_under_every_number(wing: Bench) -> None:
    devices = {one["PathInContainer"] for one in inspected(wing)["HostConfig"]["Devices"]}
    assert devices == {*(f"/dev/xpu{minor}" for minor in (4, 5, 6, 7)), "/dev/xpuctrl"}
    wing.break_("card=6:wrong:1/1")
    found = wing.doctor("--card", "5,6,7")
    assert (found["excluded"], sorted(verdicts(found))) == ([6], WING)
    card = next(card for card in found["cards"] if card["index"] == 6)
    assert (card["minor"], card["container_index"], card["container_node"]) == (5, 1, "/dev/xpu5")
    assert [(one["index"], one["node"], one["read_back"]) for one in found["order"]] == [
        (5, "/dev/xpu7", 5),
        (6, "/dev/xpu5", 6),
        (7, "/dev/xpu6", 7),
    ]
    wing.break_()
    service = wing.object("up", wing.host.name)["services"][SERVICE]
    assert (service["state"], service["tp"], service["cards"], service["note"]) == ("ready", 4, WING, "")
    environ = Path(f"/proc/{service['pid']}/environ").read_bytes().split(b"\0")
    # card 4 is 0 in the container, card 5 is 3, card 6 is 1 and card 7 is 2
    assert b"XPU_VISIBLE_DEVICES=0,3,1,2" in environ
    others = (b"CUDA_VISIBLE_DEVICES=", b"XPULINK_VISIBLE_DEVICES=")
    assert not [entry for entry in environ if entry.startswith(others)]
    nodes = {(wing.host.device_dir / f"xpu{minor}").stat().st_rdev for minor in (4, 5, 6, 7)}
    assert {number for one in holders(nodes) for number in one.rdevs} == nodes


def test_row_C17_access_lost_inside_is_no_card_s_fault(rehearsal: Rehearsal) -> None:
    bench = Bench(rehearsal, rehearsal.hosts[1])
    bench.break_("card=7:open-eperm")
    bench.container()
    assert len(inspected(bench)["HostConfig"]["Devices"]) == 9
    for what in ("cards", "xccl"):
        found = bench.object("doctor", what, bench.host.name, rc=1)
        card = next(card for card in found["cards"] if card["index"] == 7)
        assert card["verdict"] == "unknown"
        assert "device access lost inside the container, host ok" in card["reason"]
    assert found["excluded"] == []
    assert found["healthy"] == [0, 1, 2, 3, 4, 5, 6]
    assert not [one for one in bench.object("cards", "list", bench.host.name)["cards"] if one["quarantine"]]
    bench.break_()
