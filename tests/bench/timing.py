"""Whole processes, timed in turn: figures are medians, comparisons are ratios within one run."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Contender:
    """One command. ``check`` is given what it printed, and says what is wrong with that ("": nothing)."""

    label: str
    argv: Sequence[str]
    runs: int
    check: Callable[[str], str] = lambda _: ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


@dataclass(frozen=True)
class Figure:
    """One command's medians: wall seconds, CPU seconds of it and its children, and how many runs."""

    label: str
    wall: float
    cpu: float
    runs: int


@dataclass(frozen=True)
class Run:
    """One command, once: wall and CPU seconds, what it printed, and what is wrong with it ("": nothing)."""

    wall: float
    cpu: float
    printed: str
    wrong: str


def in_turn(contenders: Sequence[Contender]) -> list[Figure]:
    """Run the commands A B A B ..., one uncounted round first (not of those that run once only).

    Raises when one of them fails, or doesn't print what it should.
    """
    walls: dict[str, list[float]] = {contender.label: [] for contender in contenders}
    cpus: dict[str, list[float]] = {contender.label: [] for contender in contenders}
    for turn in range(max(contender.runs for contender in contenders) + 1):
        for contender in contenders:
            if (turn or contender.runs > 1) and len(walls[contender.label]) < contender.runs:
                run = once(contender)
                if run.wrong:
                    raise SystemExit(f"{contender.label}: {run.wrong}\n{run.printed[-4000:]}")
                if turn:
                    walls[contender.label].append(run.wall)
                    cpus[contender.label].append(run.cpu)
    return [
        Figure(c.label, statistics.median(walls[c.label]), statistics.median(cpus[c.label]), c.runs)
        for c in contenders
    ]


def once(contender: Contender) -> Run:
    """Run the command, and look at what it printed."""
    before, began = _children(), time.monotonic()
    done = subprocess.run(
        contender.argv,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **contender.env},
        cwd=contender.cwd,
        text=True,
        errors="replace",
    )
    wall, cpu = time.monotonic() - began, _children() - before
    wrong = f"ended with {done.returncode}" if done.returncode else contender.check(done.stdout)
    return Run(wall, cpu, done.stdout, wrong)


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
