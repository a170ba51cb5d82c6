"""A unit that is removed while members of it may live in an earlier life of the container."""

from __future__ import annotations

import json
import os
import signal

from tests.sim.agent.site import Site
from tests.waiting import until


def another(site: Site) -> None:
    """Have another supervisor take over."""
    before = site.supervisor()
    os.kill(before, signal.SIGKILL)
    until(lambda: site.supervisor() != before, what="another supervisor")


def test_they_stay_on_record_until_a_clean_up_has_seen_that_they_are_gone(held: Site) -> None:
    held.start(held.spec(tp=1))
    held.reaches("ready")
    path = held.root / "run" / "llm.lineage.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    earlier = {**line, "ns": line["ns"] + 1}
    with path.open("a") as file:
        file.write(json.dumps(earlier) + "\n")
    another(held)
    held.reaches("ready")
    assert held.verb("remove", "llm")["state"] == "stopped"
    assert [json.loads(text) for text in path.read_text().splitlines()] == [earlier]
    another(held)
    assert held.verb("status")["units"] == {}
    assert path.exists()
    with path.open("a") as file:  # as a clean-up from the host does
        file.write(json.dumps({"over": earlier["ns"]}) + "\n")
    another(held)
    assert held.verb("status")["units"] == {}
    until(lambda: not path.exists(), what="it is forgotten")
