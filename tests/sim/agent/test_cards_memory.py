"""Units on cards: what is asked of them before a start, and what a stop waits for and says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.agent.processes import procs
from klops.cards.memory import SLACK
from klops.sim.xpu_smi import HELD_MIB
from tests.sim.agent.cards import Cards
from tests.sim.agent.site import KEY, Site, alive
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")

#: It ends as it is asked to, and so does its engine; its workers don't, and hold their cards until killed.
WORKERS_STAY = """
import ctypes, os, signal, sys, time
def title(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
def stay(_number, _frame):
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stay)
if os.fork() == 0:
    title("VLLM::EngineCore")
    for rank, node in enumerate(sys.argv[1:]):
        if os.fork() == 0:
            title("VLLM::Worker_TP%d" % rank)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.open(node, os.O_RDWR | os.O_NOCTTY)
            while True:
                signal.pause()
    while True:
        signal.pause()
while True:
    signal.pause()
"""


def holds_a_card(pid: int) -> bool:
    """Whether a process has a device open that is no console of its own."""
    return any(
        os.path.realpath(fd).rpartition("/")[2].startswith("xpu") for fd in Path(f"/proc/{pid}/fd").iterdir()
    )


def on_cards(site: Site, cards: Cards, *indexes: int, **changes: Any) -> dict[str, Any]:
    """A specification of a unit on some cards."""
    chosen = [cards.identity(index) for index in indexes]
    env = {"KLOPS_SIM_DEVICE_DIR": str(site.devices), "KLOPS_SIM_LOAD_SECONDS": "0.1"}
    return site.spec(**{"cards": chosen, "tp": len(chosen), "env": env, "smi": str(cards.smi), **changes})


def test_a_start_puts_on_record_what_is_in_use_and_a_stop_waits_until_it_is_again(
    held: Site, cards: Cards
) -> None:
    cards.keep(card1=300)
    held.start(on_cards(held, cards, 0, 1))
    unit = held.reaches("ready")
    zero, one = (cards.identity(index)["bdf"] for index in (0, 1))
    assert unit["idle"] == {zero: 0, one: 300}
    table = subprocess.run([cards.smi, "-m"], capture_output=True, text=True, check=True).stdout
    assert table.count(f" {HELD_MIB} ") == 2
    # what nobody here holds: it is given back while the stop waits
    cards.keep(card0=40000, card1=300)
    stopping = subprocess.Popen(held.command("stop", "llm"), stdout=subprocess.PIPE, text=True, env=held.env)
    until(lambda: held.unit()["state"] == "stopped", what="nothing of it lives")
    assert stopping.poll() is None
    cards.keep(card1=300 + SLACK)
    said, _ = stopping.communicate(timeout=20)
    assert stopping.returncode == 0
    assert '"memory": {"state": "returned", "held": [], "why": ""}' in said
    assert '"escalated": []' in said


def test_a_start_without_room_is_refused_and_names_card_free_and_asked(held: Site, cards: Cards) -> None:
    cards.keep(card2=50000)
    spec = on_cards(held, cards, 2, restart={"policy": "never"})
    held.start(spec)
    refused = held.reaches("failed")
    bdf = cards.identity(2)["bdf"]
    assert f"card 2 ({bdf}) has {98304 - 50000} of 98304 MiB free and 88473 will be asked" in refused["error"]
    assert (refused["generation"], refused["lineage"]) == (0, [])
    # asking for less is somebody's decision, and then there is room
    argv = [*spec["argv"], "--gpu-memory-utilization", "0.4"]
    held.start(on_cards(held, cards, 2, port=spec["port"], argv=argv))
    assert held.reaches("ready")["idle"] == {bdf: 50000}


def test_without_an_xpu_smi_inside_what_the_other_side_read_counts(held: Site, cards: Cards) -> None:
    spec = on_cards(held, cards, 3, smi="")
    bdf = cards.identity(3)["bdf"]
    given = {"spec": spec, "secrets": {"VLLM_API_KEY": KEY}, "idle": {bdf: 120}}
    held.verb("start", "llm", given=given)
    assert held.reaches("ready")["idle"] == {bdf: 120}
    said = held.verb("stop", "llm")
    assert said["memory"] == {
        "state": "unknown",
        "held": [],
        "why": "xpu-smi can't be asked inside the container",
    }


def test_row_A7_a_stop_waits_for_workers_that_outlive_all_and_says_that_it_took_kill(
    held: Site, cards: Cards, tmp_path: Path
) -> None:
    stub = tmp_path / "stub.py"
    stub.write_text(WORKERS_STAY)
    nodes = [str(held.devices / Path(cards.identity(index)["node"]).name) for index in (4, 5)]
    held.start(on_cards(held, cards, 4, 5, argv=[sys.executable, str(stub), *nodes]))

    def workers() -> list[int]:
        return [p["cpid"] for p in held.unit()["lineage"] if p["name"].startswith("VLLM::Worker")]

    until(lambda: len(workers()) == 2 and all(holds_a_card(pid) for pid in workers()), what="they hold cards")
    both = workers()
    said = held.verb("stop", "llm")
    assert said["state"] == "stopped"
    assert sorted(one["cpid"] for one in said["escalated"]) == sorted(both)
    assert {one["why"] for one in said["escalated"]} == {"outlived TERM"}
    assert said["memory"]["state"] == "returned"
    assert not any(alive(pid) for pid in both)
    # the API server and the engine went as they were asked to, each once
    kills = [line for line in held.audit("signal") if line["signal"] == "SIGKILL"]
    assert sorted(line["pid"] for line in kills) == sorted(both)
    assert all(procs.read(pid) is None for pid in both)
