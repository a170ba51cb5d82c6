"""``make bench``: what klops costs, printed. Nothing here asserts a time."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klops.sim import rehearsal as sim
from klops.sim.layout import Rehearsal
from tests.bench.fleet import fleet
from tests.bench.probe import probe
from tests.bench.reaping import reap
from tests.bench.sync import sync
from tests.bench.timing import Contender, in_turn, show
from tests.bench.xccl import xccl
from tests.host.support import klops

RUNS = 10
#: Seconds over which the idle supervisor is watched.
IDLE = 60

BARE_TYPER = """
import typer
app = typer.Typer()
@app.command()
def hello(name: str, loud: bool = False) -> None:
    "Say hello."
app()
"""


def main() -> None:
    """The sections that the command line names, or all of them, in the order below."""
    # as an installed klops has them: compiled modules stay from one run to the next
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; medians, ratios to the last row")
    sections = {
        "start": start_up,
        "host": host,
        "supervisor": supervisor,
        "reap": reap,
        "xccl": xccl,
        "fleet": fleet,
        "sync": sync,
    }
    for name in sys.argv[1:] or sections:
        sections[name]()


def host() -> None:
    """What klops costs on one rehearsal host over ssh."""
    with rehearsal_host() as rehearsal:
        converged(rehearsal)
        agent(rehearsal)


def supervisor() -> None:
    """What launcher and supervisor of a ready unit use while nothing happens."""
    with rehearsal_host() as rehearsal:
        idle(rehearsal)


def start_up() -> None:
    """--help against the smallest typer app."""
    show(
        "Start-up",
        in_turn(
            [
                Contender("klops --help", [sys.executable, "-m", "klops", "--help"], RUNS),
                Contender("bare typer app --help", [sys.executable, "-c", BARE_TYPER, "--help"], RUNS),
            ]
        ),
    )


@contextmanager
def rehearsal_host() -> Iterator[Rehearsal]:
    """A rehearsal host that is up."""
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    try:
        rehearsal = sim.make(directory, transports=["ssh"])
        done = klops("up", "all", "-i", str(rehearsal.inventory))
        if done.rc:
            raise SystemExit(done.stdout + done.stderr)
        yield rehearsal
    finally:
        sim.stop(directory)


def converged(rehearsal: Rehearsal) -> None:
    """A second up against a bare process that sends the same script."""
    host, ssh = rehearsal.hosts[0], rehearsal.ssh
    assert ssh is not None
    up = ["up", host.name, "-i", str(rehearsal.inventory)]
    bare = probe(up, [host.address], ssh, rehearsal.directory, runs=RUNS)
    own = Contender("klops up", [sys.executable, "-m", "klops", *up], RUNS)
    show("Converged up, one host over ssh", in_turn([own, bare]))


def agent(rehearsal: Rehearsal) -> None:
    """The agent's status verb against a docker exec of nothing."""
    host, engine = rehearsal.hosts[0], rehearsal.engine
    assert engine is not None
    execute = ["docker", *(["-H", engine.host] if engine.host else []), "exec", host.container]
    status = [sys.executable, "-I", "-S", f"{host.root}/agent/current", "status", "--root", str(host.root)]
    show(
        "Agent in the container",
        in_turn(
            [
                Contender("docker exec agent status", [*execute, *status], RUNS),
                Contender("docker exec true", [*execute, "true"], RUNS),
            ]
        ),
    )


def idle(rehearsal: Rehearsal) -> None:
    """The supervisor of a ready unit, doing nothing."""
    host = rehearsal.hosts[0]
    status = klops("status", host.name, "-i", str(rehearsal.inventory), "-o", "json").json
    (service,) = status["hosts"][host.name]["services"].values()
    print(f"\nIdle, a unit with TP={service['tp']} is {service['state']}; aims: 0.5% of a core, 40 MiB")
    rows = klops("ps", host.name, "-i", str(rehearsal.inventory), "-o", "json").json
    inside = [p for p in rows["hosts"][host.name]["processes"] if p["cpid"] != 1]  # docker-init
    pids = {
        word: next(p["pid"] for p in inside if word in p["title"].split()) for word in ("hold", "supervise")
    }
    before = {word: _ticks(pid) for word, pid in pids.items()}
    time.sleep(IDLE)  # the figure is what is used in this time
    for word, pid in pids.items():
        share = (_ticks(pid) - before[word]) / os.sysconf("SC_CLK_TCK") / IDLE
        rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        print(f"  {word:10} {share:.2%} of a core over {IDLE} s, {rss / 2**20:.0f} MiB resident")


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    main()
