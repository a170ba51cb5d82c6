"""Random kill schedules, each the same for its number for ever: whatever is hit, all is well afterwards.

A few hosts are under fire at once, since most of a schedule is waiting; a test waits for the outcome of its
own. ``-k 'seed17'`` runs one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVICE, Rehearsal
from tests.host.bystanders import bystanders
from tests.host.lanes import Lane
from tests.host.schedules import schedule
from tests.host.support import klops
from tests.host.test_adoption import Hand
from tests.host.watch import GenerationWatch, device_numbers
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.timeout(1200)]

#: Hosts under fire at once.
LANES = 3
QUICK, ALL = 20, 200
#: A unit that is quick to start, and that is never given up: many failures are the point here.
HASTY: dict[str, Any] = {
    "tp": 2,
    "cards": [0, 1],
    "start_timeout": 30,
    "stop_timeout": 3,
    "restart": {"delay": 0.1, "max_delay": 0.5, "limit": 100_000, "window": 1},
    "env": {"KLOPS_SIM_LOAD_SECONDS": "0.6"},
}
Outcome = Callable[[int], Future[None]]


def hasty(rehearsal: Rehearsal) -> None:
    """Have every host's unit be one that starts again fast."""
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    for host in inventory["all"]["children"]["rehearsal"]["hosts"].values():
        host["klops"]["services"][SERVICE].update(HASTY)
    yaml.dump(inventory, rehearsal.inventory)


@pytest.fixture(scope="module")
def lanes(make_rehearsal: MakeRehearsal) -> Iterator[list[Lane]]:
    """Hosts whose unit is ready, bystanders on the first of them; the last one's container is adopted."""
    rehearsal = make_rehearsal(hosts=LANES, transports=["local"])
    hasty(rehearsal)
    by_hand = Hand(rehearsal, rehearsal.hosts[-1])
    root = by_hand.host.root
    by_hand.make("--network=host", f"-v{root}:{root}", minors={minor: minor for minor in range(8)})
    up = klops("up", "all", "-i", str(rehearsal.inventory), "-o", "json")
    assert up.rc == 0, up.stdout + up.stderr
    container = YAML(typ="safe").load(rehearsal.inventory)["all"]["vars"]["klops"]["container"]
    # cards 0 and 1
    cards = [device_numbers(host.device_dir, "xpu[23]") for host in rehearsal.hosts]
    roots = [host.root for host in rehearsal.hosts]
    assert rehearsal.engine is not None
    with ExitStack() as stack:
        about = bystanders(rehearsal.hosts[0].device_dir, rehearsal.engine, rehearsal.image)
        around = stack.enter_context(about)
        watch = GenerationWatch(frozenset().union(*cards), roots[0], roots[1:], interval=0.05)
        stack.enter_context(watch)
        made = [
            Lane(host, rehearsal.engine, container["python"], own, watch, around, rehearsal.inventory)
            for host, own in zip(rehearsal.hosts, cards, strict=True)
        ]
        made[-1].adopted = True
        yield made


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, lanes: list[Lane]) -> Iterator[Outcome]:
    """The outcome of a seed's schedule, always on the same host: those of all tests to run are under way."""
    here = [item for item in request.session.items if item.path == request.path]
    seeds = [item.callspec.params.get("seed") for item in here if isinstance(item, pytest.Function)]
    wanted = [seed for seed in seeds if isinstance(seed, int)]
    pools = [ThreadPoolExecutor(1) for _ in lanes]
    running = {seed: pools[seed % LANES].submit(lanes[seed % LANES].fight, schedule(seed)) for seed in wanted}
    yield lambda seed: running[seed]
    for pool in pools:
        pool.shutdown(wait=True, cancel_futures=True)


@pytest.mark.parametrize("lane", [0, LANES - 1], ids=["made", "adopted"])
def test_a_clean_up_never_hits_what_starts_or_runs(lanes: list[Lane], lane: int) -> None:
    """Without a grace time, all through a start: whoever is a unit's is known from its first moment."""
    hit = lanes[lane]
    with hit.trial("a restart, and one clean-up after another until it is ready"):
        before = hit.unit_status()["generation"]
        hit.command("restart")
        until(lambda: hit.unit_status()["generation"] > before, what="the next generation is launched")
        while hit.wrong():
            hit.note(hit.reap(grace=0))
        hit.note(hit.reap(grace=0))
        after = hit.unit_status()
    assert (after["generation"], after["restarts"]) == (before + 1, 0), "\n".join(hit.diary)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, id=f"seed{seed}", marks=[pytest.mark.long] if seed >= QUICK else [])
        for seed in range(ALL)
    ],
)
def test_a_random_schedule(outcome: Outcome, seed: int) -> None:
    outcome(seed).result()
