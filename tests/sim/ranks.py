"""Ranks on the stand-in torch, and the cards of a host for them: what a diagnosis has, without klops."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from klops.sim import cards, faults, rankside
from tests.cardnumbers import card_numbers

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
MIB = 1 << 20
#: Seconds that members of a group wait for each other where one of them won't come.
SOON = 0.5

_RANK = """
import datetime, json, os, sys, time
import torch, torch.distributed as dist

PLACE = int(os.environ["KLOPS_RANK_PLACE"])
CARD = torch.device("cuda:%d" % PLACE)


def take():
    torch.cuda.set_device(PLACE)
    links = ["/proc/self/fd/" + fd for fd in os.listdir("/proc/self/fd")]
    nodes = [os.readlink(one) for one in links if os.path.exists(one)]
    return sorted(os.path.basename(node) for node in nodes if "/xpu" in node)


def group(store, rank, world, size, rounds, timeout, barrier):
    patience = datetime.timedelta(seconds=timeout)
    found = dist.FileStore(store, world)
    found.set_timeout(patience)
    dist.init_process_group(backend="nccl", store=found, rank=rank, world_size=world, timeout=patience)
    try:
        base = torch.remainder(torch.arange(size // 4, device=CARD, dtype=torch.float32), 251.0)
        wrong, seconds = [], []
        if barrier == "first":
            dist.barrier()
        for turn in range(1, rounds + 1):
            x = base * (rank + 1) + turn
            begun = time.perf_counter()
            dist.all_reduce(x)
            if barrier:
                dist.barrier()
            seconds.append(time.perf_counter() - begun)
            if (x != base * (world * (world + 1) // 2) + turn * world).sum().item():
                wrong.append(turn)
    finally:
        dist.destroy_process_group()
    return {"wrong": wrong, "seconds": seconds}


def single(size, rounds):
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        torch.full((size // 4,), 1.0, device=CARD, dtype=torch.float32)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return seconds


def reset():
    dist.distributed_c10d._world.group_count = 0


for line in sys.stdin:
    what, more = json.loads(line)
    try:
        told = {"did": {"take": take, "group": group, "single": single, "reset": reset}[what](**more)}
    except (RuntimeError, ValueError) as error:
        told = {"error": repr(error)}
    print(json.dumps(told), flush=True)
"""


class Rank:
    """One rank's process, with the card of a place among the visible ones."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def ask(self, what: str, **more: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([what, more]) + "\n")
        self.process.stdin.flush()

    def answer(self, seconds: float = 60) -> dict[str, Any] | None:
        """``{"did": ...}`` or ``{"error": ...}``; None when there is none in time."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def do(self, what: str, **more: Any) -> Any:
        """Ask, and what it did."""
        self.ask(what, **more)
        told = self.answer()
        assert told is not None
        assert "did" in told, told
        return told["did"]


class Host:
    """Eight cards, faults, and ranks on them."""

    def __init__(self, folder: Path, numbers: cards.Numbers) -> None:
        self.folder = folder
        self.devices = folder / "dev"
        self.numbers = numbers
        self.groups = 0
        cards.write_description(
            folder / "cards.json", cards.describe("site", "salt", numbers, folder / "faults.json")
        )
        rankside.write(folder / "python", real=False)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(folder / "python"),
            "KLOPS_SIM_DEVICE_DIR": str(self.devices),
            "KLOPS_SIM_CARDS": str(folder / "cards.json"),
            "KLOPS_SIM_FAULTS": str(folder / "faults.json"),
            "KLOPS_SIM_STRETCH": "1",
        }
        self.break_()

    def break_(self, *specs: str) -> None:
        """Faults from now on; nodes stay as they are, as in a container that runs."""
        content = faults.parse(list(specs))
        new = self.folder / "faults.json.new"
        new.write_text(json.dumps(content))
        new.rename(self.folder / "faults.json")
        if not self.devices.exists():
            cards.make_nodes(self.devices, self.numbers, content)

    @contextmanager
    def ranks(self, *indexes: int, took: bool = True) -> Iterator[list[Rank]]:
        """A rank for each of these cards, killed at the end."""
        env = {**self.env, "XPU_VISIBLE_DEVICES": ",".join(str(cards.MINORS[index]) for index in indexes)}
        with ExitStack() as stack:
            found = []
            for place in range(len(indexes)):
                log = self.folder / f"log-{place}"
                with log.open("a") as errors:
                    process = subprocess.Popen(
                        [sys.executable, "-B", "-c", _RANK],
                        env={**env, "KLOPS_RANK_PLACE": str(place)},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                    )
                stack.enter_context(process)
                stack.callback(process.kill)
                found.append(Rank(process, log))
            if took:
                for rank in found:
                    rank.ask("take")
                assert all("did" in (rank.answer() or {}) for rank in found)
            yield found

    def form(
        self,
        ranks: Sequence[Rank],
        size: int = MIB,
        rounds: int = 1,
        timeout: float = 20.0,
        barrier: str = "",
    ) -> None:
        """Have these form a group and add up ``rounds`` times; each answers then.

        ``barrier``: "after" each sum, or also "first" of all.
        """
        self.groups += 1
        store = str(self.folder / f"store-{self.groups}")
        more = {"size": size, "rounds": rounds, "timeout": timeout, "barrier": barrier}
        for number, rank in enumerate(ranks):
            rank.ask("group", store=store, rank=number, world=len(ranks), **more)

    def grouped(self, ranks: Sequence[Rank], **more: Any) -> list[Any]:
        """The same, and what they answer: what each did, or its error."""
        self.form(ranks, **more)
        answers = [rank.answer() for rank in ranks]
        return [told and told.get("did", told.get("error")) for told in answers]


@contextmanager
def a_host(folder: Path) -> Iterator[Host]:
    """Cards below ``folder``, with numbers that no other test on this machine uses."""
    with card_numbers(folder) as numbers:
        yield Host(folder, numbers)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Eight healthy cards."""
    with a_host(tmp_path) as made:
        yield made
