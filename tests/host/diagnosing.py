"""A rehearsal host whose cards are tested: faults are set, ``klops doctor xccl`` is run, nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from klops.sim import rehearsal as sim
from klops.sim.layout import SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops
from tests.host.watch import device_numbers, holders
from tests.waiting import until

#: Few and small, as most of these tests are not about speed; faults of the tests begin at the larger one.
SIZES = (65536, 1 << 20)
#: Seconds that a rank may take to answer, and that a whole diagnosis may take.
TIMEOUT, BUDGET = 1.5, 120.0
#: A container with the agent in it, and no service that would have the cards.
_ONLY_A_CONTAINER = """
- hosts: all
  tasks:
    - klops.agent: {}
    - klops.container: {state: present}
"""


@dataclass(frozen=True)
class Bench:
    """One host, its container up."""

    rehearsal: Rehearsal
    host: RehearsalHost

    @contextmanager
    def patient(self, seconds: float = 30.0) -> Iterator[None]:
        """Ranks have this long to answer: where none hangs it costs nothing, however busy the machine is."""
        self.settings({"probe": _probe(seconds)})
        try:
            yield
        finally:
            self.settings({"probe": _probe(TIMEOUT)})

    def settings(self, cards: Mapping[str, Any]) -> None:
        """Change ``klops.cards`` of all hosts."""

        def change(everything: dict[str, Any]) -> None:
            shared = everything["all"]["vars"]["klops"]
            shared["cards"] = {**shared.get("cards", {}), **cards}

        self._change(change)

    def own_settings(self, cards: Mapping[str, Any], /, **service: Any) -> None:
        """Change ``klops.cards`` of this host, and its service; None takes a setting away."""

        def change(everything: dict[str, Any]) -> None:
            own = everything["all"]["children"]["rehearsal"]["hosts"][self.host.name]["klops"]
            own["cards"].update(cards)
            changed = {**own["services"][SERVICE], **service}
            own["services"][SERVICE] = {name: value for name, value in changed.items() if value is not None}

        self._change(change)

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        yaml = YAML(typ="safe")
        inventory = yaml.load(self.rehearsal.inventory)
        change(inventory)
        yaml.dump(inventory, self.rehearsal.inventory)

    def container(self) -> None:
        """Have the container running, and nothing in it."""
        play = self.rehearsal.directory / "container.yml"
        play.write_text(_ONLY_A_CONTAINER, encoding="ascii")
        done = klops("play", str(play), "-i", str(self.rehearsal.inventory), "--limit", self.host.name)
        assert done.rc == 0, done.stdout + done.stderr

    def break_(self, *specs: str) -> None:
        """Faults in place of those there were; none of them: all is repaired."""
        sim.set_faults(self.rehearsal, specs)

    def command(self, *words: str, rc: int | None = 0, alone: bool = True) -> Done:
        """A host command with JSON, that ends with ``rc``, None for any; no rank of a diagnosis is left.

        Not ``alone``: another diagnosis is at work, whose ranks are none of its concern.
        """
        done = klops(*words, "-i", str(self.rehearsal.inventory), "-o", "json")
        assert rc is None or done.rc == rc, done.stdout[-6000:] + done.stderr[-3000:]
        if alone:
            self.nothing_left()
        return done

    def object(self, *words: str, rc: int | None = 0, alone: bool = True) -> dict[str, Any]:
        """The host's object of such a command."""
        found: dict[str, Any] = self.command(*words, rc=rc, alone=alone).json["hosts"][self.host.name]
        return found

    def doctor(self, *words: str, rc: int = 1, budget: float = BUDGET) -> dict[str, Any]:
        """The object of ``klops doctor xccl``, whose ranks kept within the budget."""
        found = self.object("doctor", "xccl", self.host.name, *words, "--budget", str(budget), rc=rc)
        assert found["seconds"] < budget
        assert found["left"] == []
        # one a card, and one in place of each that was ended; no fault here ends one by itself
        assert found["rank_processes"] <= len(found["order"]) + len(found["killed"]) + found["renewed"]
        return found

    def slower_baseline(self) -> None:
        """Halve what was learned: on a machine that has other things to do, no two runs are within 15 %."""
        file = self.host.root / "baseline.json"
        kept = json.loads(file.read_text(encoding="utf-8"))
        for sizes in kept["bandwidth"].values():
            sizes.update({size: gbps / 2 for size, gbps in sizes.items()})
        file.write_text(json.dumps(kept), encoding="utf-8")

    def status(self) -> dict[str, Any]:
        """The object of ``klops status``."""
        return self.object("status", self.host.name)

    @contextmanager
    def begun(self, *words: str, ranks: int) -> Iterator[subprocess.Popen[str]]:
        """A command that is in the middle of a diagnosis: so many ranks have their cards."""
        argv = [sys.executable, "-m", "klops", *words, "-i", str(self.rehearsal.inventory), "-o", "json"]
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            try:
                until(lambda: {len(self.ranks()), len(self.holding())} == {ranks}, what="ranks are up")
                yield running
            finally:
                running.send_signal(signal.SIGKILL)

    def ranks(self) -> list[int]:
        """Pids of the ranks of diagnoses that live in this host's container."""
        mine = f"KLOPS_SIM_CARDS={self.host.cards_file}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environ = (entry / "environ").read_bytes().split(b"\0")
                except OSError:  # it ended while we looked
                    continue
                if mine in environ and any(item.startswith(b"KLOPS_RANK_PLACE=") for item in environ):
                    found.append(int(entry.name))
        return found

    def holding(self) -> list[int]:
        """Pids of whoever has a card of this host open."""
        return [one.pid for one in holders(device_numbers(self.host.device_dir))]

    def nothing_left(self) -> None:
        """No rank, and of all diagnoses so far one file: that of the lock."""
        assert self.ranks() == []
        left = [path.name for path in (self.host.root / "run").glob("*xccl*")]
        assert left in ([], ["xccl.lock"])


def _probe(timeout: float) -> dict[str, Any]:
    return {"sizes": list(SIZES), "timeout": timeout, "start_timeout": 60}


def bench_of(
    rehearsal: Rehearsal,
    number: int = 0,
    *,
    diagnose: str = "never",
    timeout: float = TIMEOUT,
    own: Mapping[str, Any] | None = None,
    service: Mapping[str, Any] | None = None,
) -> Bench:
    """One host of a rehearsal, its container up, set for short tests.

    ``own``: its own ``klops.cards``; ``service``: what is changed of its service, None takes a setting away.
    """
    bench = Bench(rehearsal, rehearsal.hosts[number])
    bench.settings({"diagnose": diagnose, "probe": _probe(timeout)})
    bench.own_settings(own or {}, **(service or {}))
    bench.container()
    return bench


def verdicts(found: Mapping[str, Any]) -> dict[int, str]:
    """The verdict on each card."""
    return {card["index"]: card["verdict"] for card in found["cards"]}


def failing_pairs(found: Mapping[str, Any]) -> dict[tuple[int, int], str]:
    """Pairs that are not ok, and what they are."""
    return {(pair["a"], pair["b"]): pair["status"] for pair in found["pairs"] if pair["status"] != "ok"}
