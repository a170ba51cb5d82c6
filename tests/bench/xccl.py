"""What a diagnosis of cards costs: rank processes, and pairs at the same time against one after another."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from klops.cards.xccl.planning.tournament import rounds
from klops.remote import agentpackage
from klops.sim import cards, faults, rankside
from klops.sim import rehearsal as sim
from tests.host.diagnosing import Bench, bench_of

#: What takes most: a rank that hangs is killed, and its peers are replaced with it.
HANGING = tuple(f"card={card}:hang-collective" for card in range(cards.CARDS))
FAULTS: Mapping[str, tuple[str, ...]] = {
    "healthy": (),
    "one card wrong": ("card=2:wrong:3/10@1MiB",),
    "one link": ("pair=2,6:error",),
    "one card hangs": ("card=5:hang-collective",),
    "four cards hang": HANGING[:4],
    "all cards hang": HANGING,
}

#: Runs batches of pairs, and prints seconds, rank processes and groups. Its argument is a JSON object; a
#: process of its own, as the agent is, which ranks end with.
_PAIRS = """
import json, sys, time
asked = json.loads(sys.argv[1])
sys.path.insert(0, asked["package"])
from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.trouble import Troubles
from klops.agent.units.lineage import Lineage
from klops.agent.xccl.ranks.pool import Pool, Setting
from klops.agent.xccl.runner import Limits, Runner
from klops.cards.xccl.results import Batch, Test
import os
paths = store.Paths(asked["root"])
paths.make()
os.makedirs(paths.ranks_folder, exist_ok=True)
setting = Setting(asked["package"], dict(os.environ), paths.ranks_folder, asked["devices"], "auto")
begun = time.monotonic()
pool = Pool(setting, Lineage(paths.ranks), Audit(paths.audit, "bench", Troubles()))
runner = Runner(pool, asked["cards"], Limits(), begun + 600)
runner.start(lambda numbers: None)
runner.sizes = tuple(asked["sizes"])
well = [one.status for tests in asked["batches"]
        for one in runner.batch(Batch(tuple(Test(tuple(two)) for two in tests)))]
assert not pool.close()
print(json.dumps([time.monotonic() - begun, pool.started, runner.collectives, set(well) == {"ok"}]))
"""


def xccl() -> None:
    """Both tables."""
    _processes()
    _tournament()


def _processes() -> None:
    """Rank processes of whole diagnoses on a rehearsal host."""
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    print("\nRank processes of a diagnosis: at most one a card, and one for each that was killed or renewed")
    heads = (
        f"{'started':>8} {'cards':>6} {'killed':>7} {'renewed':>8} {'most':>5} {'groups':>7} {'seconds':>8}"
    )
    print(f"  {'':20} {heads}")
    try:
        bench = bench_of(sim.make(directory, transports=["local"], diagnose="never"))
        for name, specs in FAULTS.items():
            bench.break_(*specs)
            _row(bench, name)
    finally:
        sim.stop(directory)


def _row(bench: Bench, name: str) -> None:
    found = bench.doctor(rc=0 if name == "healthy" else 1, budget=300)
    started, groups, seconds = found["rank_processes"], found["collectives_run"], found["seconds"]
    seated, killed, renewed = len(found["order"]), len(found["killed"]), found["renewed"]
    most = seated + killed + renewed
    print(f"  {name:20} {started:8} {seated:6} {killed:7} {renewed:8} {most:5} {groups:7} {seconds:8.1f}")


@dataclass(frozen=True)
class Ranks:
    """Where ranks can be run without a container."""

    folder: Path
    package: Path
    env: Mapping[str, str]

    def run(self, indexes: list[int], batches: list[list[tuple[int, int]]]) -> tuple[float, int, int]:
        """Seconds, rank processes and groups of these batches, the start of the processes included."""
        asked = {
            "package": str(self.package),
            "root": str(self.folder / "root"),
            "devices": str(self.folder / "dev"),
            "cards": indexes,
            "sizes": [64 << 10, 1 << 20],
            "batches": batches,
        }
        visible = {"XPU_VISIBLE_DEVICES": ",".join(map(str, indexes))}
        argv = [sys.executable, "-c", _PAIRS, json.dumps(asked)]
        env = {**os.environ, **self.env, **visible}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise SystemExit(f"ranks ended with {done.returncode}: {done.stderr}")
        seconds, started, groups, well = json.loads(done.stdout)
        if not well:
            raise SystemExit("a pair of a healthy host failed")
        return seconds, started, groups


def _tournament() -> None:
    """All pairs, in rounds of disjoint ones by a process a card, and one after another in fresh ones."""
    with _ranks() as ranks:
        indexes = list(range(cards.CARDS))
        begun = time.monotonic()
        _, started, groups = ranks.run(indexes, [list(tests) for tests in rounds(indexes)])
        together = time.monotonic() - begun
        singly = [ranks.run(list(two), [[two]]) for two in itertools.combinations(indexes, 2)]
        apart = time.monotonic() - begun - together
    print("\nAll pairs of 8 cards, stand-in torch")
    print(f"  {'':44} {'wall s':>8} {'ratio':>7} {'groups':>7} {'processes':>10}")
    label = "in rounds of disjoint pairs, a process a card"
    print(f"  {label:44} {together:8.1f} {together / apart:7.2f} {groups:7} {started:10}")
    sums = [sum(column) for column in zip(*singly, strict=True)]
    print(f"  {'one after another, fresh processes':44} {apart:8.1f} {1:7.2f} {sums[2]:7} {sums[1]:10}")


@contextmanager
def _ranks() -> Iterator[Ranks]:
    with tempfile.TemporaryDirectory(prefix="klops-bench-") as name:
        folder, package = Path(name), agentpackage.build()
        (folder / "agent.pyz").write_bytes(package.data)
        (folder / "root").mkdir()
        (folder / "dev").mkdir()
        numbers = cards.claim(folder)
        try:
            none = faults.parse([])
            cards.make_nodes(folder / "dev", numbers, none)
            description = cards.describe("bench", "bench", numbers, folder / "faults.json")
            cards.write_description(folder / "cards.json", description)
            (folder / "faults.json").write_text(json.dumps(none), encoding="utf-8")
            rankside.write(folder / "python", real=False)
            env = {
                "PYTHONPATH": str(folder / "python"),
                "KLOPS_SIM_DEVICE_DIR": str(folder / "dev"),
                "KLOPS_SIM_CARDS": str(folder / "cards.json"),
                "KLOPS_SIM_FAULTS": str(folder / "faults.json"),
            }
            yield Ranks(folder, folder / "agent.pyz", env)
        finally:
            cards.release(folder)
