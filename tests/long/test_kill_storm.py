"""Many kills one after another: never two generations at once, and ready again by itself each time."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.support import klops, models
from tests.host.watch import GenerationWatch, device_numbers, holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.long, pytest.mark.timeout(1800)]
ROUNDS = 20


@pytest.mark.parametrize("seed", [1, 2])
def test_twenty_seeded_kills(make_rehearsal: MakeRehearsal, seed: int) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    host = rehearsal.hosts[0]
    on = ["-i", str(rehearsal.inventory), "-o", "json"]
    chance = random.Random(seed)

    def ask(command: str) -> Any:
        done = klops(command, host.name, *on)
        return done.json["hosts"][host.name] if done.rc == 0 else None

    def serving() -> bool:
        now = ask("status")
        if now is None:
            return False
        if now["services"][SERVICE]["state"] == "failed":
            # the limit of restarts in its window is loud and final, until somebody restarts it
            return klops("restart", host.name, *on).rc == 0
        return bool(now["services"][SERVICE]["state"] == "ready")

    assert klops("up", host.name, *on).rc == 0
    with GenerationWatch(device_numbers(host.device_dir), host.root) as watch:
        for _ in range(ROUNDS):
            until(serving, timeout=180, what="ready")
            rows = [
                row
                for row in ask("ps")["processes"]
                if row["unit"] == SERVICE or "supervise" in row["title"].split()
            ]
            for row in chance.sample(rows, chance.choice([1, 1, 2])):
                try:
                    handle = os.pidfd_open(row["pid"])
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    os.close(handle)
                except ProcessLookupError:
                    continue  # the first kill took it along
        until(serving, timeout=180, what="ready")
    print(f"seed {seed}: {ROUNDS} rounds, {len(watch.sessions)} generations, {watch.samples} looks")
    assert watch.doubles == []
    assert models(host.port, host.api_key) == [SERVED_NAME]
    assert klops("down", host.name, *on).rc == 0
    assert holders(device_numbers(host.device_dir)) == []
