"""What a server has in shared memory is on record while it runs, and cleared when it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from klops.agent.audit import Audit
from klops.agent.store import Paths
from klops.agent.trouble import Troubles
from klops.agent.units import leftovers
from klops.agent.units.leftovers import Place
from tests.sim.agent.site import Site
from tests.waiting import until


def listed(site: Site) -> list[dict[str, Any]]:
    """Files on the list of the unit."""
    try:
        value = json.loads((site.root / "run" / "llm.traces.json").read_text())
    except FileNotFoundError:
        return []
    return [dict(zip(("path", "dev", "inode", "uid", "kind"), one, strict=True)) for one in value["files"]]


def test_what_members_have_is_on_record_and_cleared_with_the_unit(held: Site) -> None:
    held.start(held.spec())
    held.reaches("ready")

    def all_of_it() -> list[dict[str, Any]] | None:
        files = listed(held)
        text = " ".join(one["path"] for one in files)
        sockets = [one for one in files if one["kind"] == "socket"]
        memory = all(f"/dev/shm/{name}" in text for name in ("psm_", "sem.mp-", "vllm_dist_"))
        return files if memory and len(sockets) == 11 else None

    files = until(all_of_it, what="memory, semaphores and sockets are on the list")
    sockets = [Path(one["path"]) for one in files if one["kind"] == "socket"]
    held.verb("stop", "llm")
    assert all(path.exists() for path in sockets)  # a server that ends in order leaves them too
    held.verb("remove", "llm")
    until(lambda: not any(path.exists() for path in sockets), what="the sockets are gone")

    def cleared() -> bool:
        # a process of this machine that was waiting for its disk just then leaves the rest to a clean-up
        if listed(held):
            paths = Paths(str(held.root))
            place = Place(paths, Audit(paths.audit, "a-test", Troubles()), made=True)
            leftovers.tidy(place, (), check=False, only="llm")
        return not listed(held)

    until(cleared, what="the list is gone")
    assert {line["path"] for line in held.audit("remove")} >= {str(path) for path in sockets}


def test_a_start_waits_for_room_in_shared_memory(held: Site) -> None:
    held.start(held.spec(min_shm=1 << 60))
    unit = held.reaches("backoff")
    assert unit["error"].startswith("/dev/shm has ")
    assert (unit["waits"], unit["restarts"], unit["generation"]) == (True, 0, 0)
    held.start(held.spec(min_shm=1))
    assert held.reaches("ready")["error"] == ""
