"""``ps``, ``holders`` and ``about``: views of this container. They only read."""

from __future__ import annotations

import os
import sys
from typing import Any

from klops.agent import store
from klops.agent.options import Options, digest_of
from klops.agent.processes import accounts, devices, observers, procs
from klops.agent.units import report


def view(options: Options, package: str) -> dict[str, Any]:
    """The object that a verb prints."""
    if options.verb == "about":
        return {
            "agent": digest_of(package),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "executable": sys.executable,
        }
    processes = {pid: p for pid, p in procs.table().items() if pid != os.getpid()}
    units = report.owners(store.Paths(options.root), processes)
    folder = str(options.values.get("--device-dir", "/dev"))
    held, unknown = devices.holders(processes.values(), devices.nodes(folder))
    if options.verb == "holders":
        looking = {pid for pid in held if observers.observes(processes[pid])}
        told = {
            pid: {
                "cpid": pid,
                "start": processes[pid].start,
                "name": processes[pid].name,
                "cards": held[pid],
                "unit": units.get(pid),
            }
            for pid in sorted(held)
        }
        return {
            "holders": [told[pid] for pid in told if pid not in looking],
            # they let go by themselves, and are in nobody's way
            "observers": [told[pid] for pid in told if pid in looking],
            # what can't be read is unknown, never "holds nothing"
            "unknown": [
                {"cpid": p.pid, "start": p.start, "name": p.name}
                for p in unknown
                if not observers.observes(p)
            ],
        }
    return {
        "processes": [_row(processes[pid], held.get(pid, []), units.get(pid)) for pid in sorted(processes)]
    }


def _row(process: procs.Process, cards: list[str], unit: str | None) -> dict[str, Any]:
    fields = {}
    for line in procs.slurp(f"/proc/{process.pid}/status").decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    rss = int(fields["VmRSS"][0]) if fields.get("VmRSS") else 0
    return {
        "cpid": process.pid,
        "start": process.start,
        "ppid": process.ppid,
        "name": process.name,
        "title": procs.title(process.pid) or f"[{process.name}]",
        "unit": unit,
        "state": process.state,
        "rss_mib": round(rss / 1024, 1),
        "cards": cards,
        "user": accounts.name(int(fields["Uid"][0])) if fields.get("Uid") else "?",
    }
