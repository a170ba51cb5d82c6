"""A rehearsal host with a real vLLM that is hit, and that has to be well afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ruamel.yaml import YAML

from tests.host.bystanders import Bystanders
from tests.host.lanes import Lane
from tests.host.watch import GenerationWatch, device_numbers
from tests.rehearsals import MakeRehearsal

#: Seconds until a real vLLM is ready again, on a machine that has other things to do.
PATIENCE = 400.0


@contextmanager
def real_lane(make_rehearsal: MakeRehearsal) -> Iterator[Lane]:
    """One host, not up yet, and nobody beside it."""
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"], vllm="real")
    host = rehearsal.hosts[0]
    settings = YAML(typ="safe").load(rehearsal.inventory)["all"]["vars"]["klops"]
    assert rehearsal.engine is not None
    with GenerationWatch(device_numbers(host.device_dir), host.root, interval=0.1) as watch:
        lane = Lane(
            host,
            rehearsal.engine,
            settings["container"]["python"],
            # cards 0 and 1
            device_numbers(host.device_dir, "xpu[23]"),
            watch,
            Bystanders(),
            inventory=rehearsal.inventory,
        )
        lane.patience, lane.restarts_stopped = PATIENCE, False
        yield lane
