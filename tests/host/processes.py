"""Looking at this machine's processes from outside klops."""

from __future__ import annotations

import time

import psutil


def running(*words: str) -> list[int]:
    """Pids of processes whose argv is exactly these words (zombies have none)."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == list(words)]


def until_runs(*words: str) -> None:
    """Wait until such a process is there; an AssertionError after ten seconds."""
    deadline = time.monotonic() + 10
    while not running(*words):
        assert time.monotonic() < deadline, f"{words} never ran"
        time.sleep(0.02)
