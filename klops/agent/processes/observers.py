"""Tools that read cards: each holds the nodes while it looks, and lets go by itself.

Exporters run them over and over. Being spared is all that a name is good for: whoever is called so is not
ended, is in nobody's way, and that is all.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Sequence

from klops.agent.processes import openfiles, procs
from klops.agent.processes.procs import Process

#: What the tool is called, by the driver's package and by images of it.
TOOLS = ("xpu-smi", "xpu_smi")


def named(process: Process) -> bool:
    """Whether a process has the name of such a tool."""
    return process.name in TOOLS


def observes(process: Process, words: Sequence[bytes] | None = None) -> bool:
    """Whether it is such a tool, or an interpreter that runs one.

    ``words``: its command line, where that was read already. One that is stuck in the driver is none: it
    doesn't let go by itself, and whoever reads its command line may be stuck as well.
    """
    if words is None:
        if not openfiles.settled(process, time.monotonic() + openfiles.PATIENCE):
            return False
        words = procs.slurp(f"/proc/{process.pid}/cmdline").split(b"\0")
    if named(process):
        return True
    called = [os.path.basename(word).decode("utf-8", "replace") for word in words[:2]]
    with contextlib.suppress(OSError):  # of another user, or gone
        called.append(os.path.basename(os.readlink(f"/proc/{process.pid}/exe")))
    return any(name in TOOLS for name in called)
