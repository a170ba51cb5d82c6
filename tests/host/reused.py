"""Pid 2 of a pid namespace of its own, as ``python -m tests.host.reused FOLDER SOCKETS``: strangers get the
pids that a lineage has on record, and the real agent looks at them. Prints what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from klops.agent.processes import identity, procs
from klops.agent.units.lineage import Lineage
from tests.sim.agent.site import Site
from tests.waiting import until

#: Pids after the last one that come to be on record.
NEXT = 300
_LAST = Path("/proc/sys/kernel/ns_last_pid")


def stranger_at(pid: int, start: int) -> subprocess.Popen[bytes]:
    """A process that has exactly this pid, and began at another tick than its former owner."""
    until(lambda: procs.read(pid) is None, what=f"nobody has pid {pid}")

    def tried() -> subprocess.Popen[bytes] | None:
        _LAST.write_text(str(pid - 1))
        made = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        now = identity.of_pid(made.pid)
        if made.pid == pid and now is not None and now.start != start:
            return made
        made.kill()
        made.wait()
        return None

    return until(tried, what=f"a stranger gets pid {pid}")


def end_all(site: Site) -> None:
    """Kill launcher, supervisor and all of the unit: nobody is left to note anything."""
    members = [member["cpid"] for member in site.unit()["lineage"]]
    supervisor = site.supervisor()
    site.holds[-1].kill()
    site.holds[-1].wait()
    for pid in (supervisor, *members):
        os.kill(pid, signal.SIGKILL)
    for pid in members:
        until(lambda pid=pid: procs.read(pid) is None, what="it is gone")  # type: ignore[misc]  # of a lambda


def put_the_next_on_record(site: Site) -> tuple[int, int]:
    """Record that those were the unit's who come next, the supervisor too, and pid 1 as it is; their pids."""
    path = site.root / "run" / "llm.lineage.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    first = identity.of_pid(1)
    assert first is not None
    start = procs.table()[os.getpid()].start
    begin = int(_LAST.read_text()) + 1
    lines = [{**line, "pid": 1, "start": first.start}]
    lines += [{**line, "pid": pid, "start": start} for pid in range(begin, begin + NEXT)]
    with path.open("a") as lineage:
        lineage.writelines(json.dumps(one) + "\n" for one in lines)
    return begin, begin + NEXT


def main(folder: Path, sockets: Path) -> dict[str, Any]:
    """The story; returns what is to be judged."""
    site = Site(folder, sockets)
    site.hold()
    site.supervisor()
    site.start(site.spec())
    unit = site.reaches("ready")
    # the root, the engine and a worker: of one of them a hold was had all the while
    chosen = unit["lineage"][0], unit["lineage"][-2], unit["lineage"][-1]
    were = [identity.Identity(*identity.here(), one["cpid"], one["start"]) for one in chosen]
    handle = identity.hold(were[1])
    assert handle is not None
    end_all(site)
    strangers = [stranger_at(who.pid, who.start) for who in were]
    now = [identity.of_pid(who.pid) for who in were]
    found: dict[str, Any] = {
        "were": were,
        "now": now,
        "held before": handle.send(signal.SIGKILL),
        "held now": [identity.hold(who) is not None for who in were],
    }
    lineage = Lineage(str(site.root / "run" / "llm.lineage.jsonl"))
    table = procs.table()
    found["living"] = [p.pid for p in lineage.living(table)]
    found["unrecorded"] = [p.pid for p in lineage.unrecorded(table, (1,))]
    found["without supervisor"] = site.verb("reap", "--grace", "0")
    found["first"] = identity.of_pid(1)
    found["recorded"] = put_the_next_on_record(site)
    site.hold()
    found["supervisor"] = identity.of_pid(site.supervisor())
    found["again"] = site.ready_again(unit["generation"])["generation"]
    found["with supervisor"] = site.verb("reap", "--grace", "0")
    found["stopped"] = site.verb("stop", "llm")["state"]
    found["signals"] = site.audit("signal")
    found["alive"] = [one.poll() is None for one in strangers]
    site.close()
    for one in strangers:
        one.kill()
        one.wait()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
