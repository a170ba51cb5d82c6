"""Looking at this machine's processes from outside klops."""

from __future__ import annotations

import psutil

from tests.waiting import until


def running(*words: str) -> list[int]:
    """Pids of processes whose argv is exactly these words (zombies have none)."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == list(words)]


def until_runs(*words: str) -> None:
    """Wait until such a process is there; an AssertionError when it never comes."""
    until(lambda: running(*words), what=f"{words} runs")
