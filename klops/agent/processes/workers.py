"""What only a child reads of a unit's processes: titles, variables that select cards, and devices.

Titles and variables lie in a process's memory, and whoever reads that of one that sits in the driver may sit
there too, out of reach even of KILL: that must not be the supervisor.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Sequence

from klops.agent import isolated
from klops.agent.processes import children, devices, procs

#: How the engine calls its workers; the kernel's own name of a process is cut off before the rank.
_WORKER = re.compile(rb"VLLM::Worker_TP(\d+)\b")
#: What the child does.
_START = """
import sys
sys.path.insert(0, sys.argv[1])
from klops.agent.processes import workers
workers.say(sys.argv[2].split(","), sys.argv[3:])
"""


def ask(package: str, names: Sequence[str], root: int, pids: Sequence[int]) -> tuple[int, int]:
    """Start a child that says what :func:`seen` returns: its pid and where it says it. Raises ``OSError``."""
    told = map(str, (root, *pids))
    return children.ask([*isolated.PYTHON, "-c", _START, package, ",".join(names), *told])


def say(names: Sequence[str], pids: Sequence[str]) -> None:
    """The child's work."""
    root, *others = map(int, pids)
    sys.stdout.write(json.dumps(seen(names, root, others)))
    sys.stdout.flush()
    os._exit(0)


def seen(names: Sequence[str], root: int, pids: Sequence[int]) -> dict[str, Any]:
    """``variables``: those of the main process that have these names; None when it has none at all.

    That is so when a title was written over them. ``workers``: the rank of each, and the numbers of the
    character devices that it has open.
    """
    data = procs.slurp(f"/proc/{root}/environ")
    pairs = [entry.partition("=") for entry in data.decode("utf-8", "replace").split("\0") if "=" in entry]
    workers = []
    for pid in pids:
        title = _WORKER.match(procs.slurp(f"/proc/{pid}/cmdline"))
        if title is not None:
            workers.append([int(title[1]), sorted(devices.opened(pid) or ())])
    variables = {name: value for name, _, value in pairs if name in names}
    return {"variables": variables if pairs else None, "workers": workers}
