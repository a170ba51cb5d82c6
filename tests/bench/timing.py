"""Whole processes, timed in turn: figures are medians, comparisons are ratios within one run."""

from __future__ import annotations

import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One command's medians: wall seconds, CPU seconds of it and its children, and how many runs."""

    label: str
    wall: float
    cpu: float
    runs: int


def in_turn(commands: Sequence[tuple[str, Sequence[str]]], *, runs: int) -> list[Figure]:
    """Run the commands A B A B ..., one uncounted round first. Raises when one of them fails."""
    walls: dict[str, list[float]] = {label: [] for label, _ in commands}
    cpus: dict[str, list[float]] = {label: [] for label, _ in commands}
    for turn in range(runs + 1):
        for label, argv in commands:
            before, began = _children(), time.monotonic()
            subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)
            wall, cpu = time.monotonic() - began, _children() - before
            if turn:
                walls[label].append(wall)
                cpus[label].append(cpu)
    return [
        Figure(label, statistics.median(walls[label]), statistics.median(cpus[label]), runs)
        for label, _ in commands
    ]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(title: str, figures: Sequence[Figure]) -> None:
    """A table; the last row is what the others are compared with."""
    print(f"\n{title}")
    print(f"  {'':44} {'wall s':>8} {'cpu s':>8} {'ratio':>7} {'runs':>5}")
    for figure in figures:
        ratio = figure.wall / figures[-1].wall
        print(f"  {figure.label:44} {figure.wall:8.3f} {figure.cpu:8.3f} {ratio:7.2f} {figure.runs:5}")
