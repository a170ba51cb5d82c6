"""Look at card holders from outside, as host root: by device number, never by name or path."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Holder:
    """A process that has a card node open; ``session`` is its session id as the host sees it."""

    pid: int
    session: int
    name: str
    rdevs: frozenset[int]


def device_numbers(directory: Path, pattern: str = "xpu[0-9]*") -> frozenset[int]:
    """st_rdev of the card nodes in a folder."""
    return frozenset(node.stat().st_rdev for node in directory.glob(pattern))


def holders(rdevs: Iterable[int]) -> list[Holder]:
    """Every living process on this machine that has one of the device numbers open."""
    wanted = frozenset(rdevs)
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            held = set()
            for fd in os.scandir(f"{entry.path}/fd"):
                try:
                    held.add(Path(fd.path).stat().st_rdev)
                except OSError:
                    continue
            held &= wanted
            if not held:
                continue
            stat = Path(f"{entry.path}/stat").read_text(errors="replace")
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        if rest[0] in "ZX":
            continue
        found.append(Holder(int(entry.name), int(rest[3]), name, frozenset(held)))
    return found


@dataclass
class GenerationWatch:
    """Samples the holders of cards until it is left; keeps every moment at which two sessions had one card.

    A unit runs in a session of its own, so two sessions on one card are two generations at once.
    """

    rdevs: frozenset[int]
    interval: float = 0.01
    samples: int = 0
    sessions: set[int] = field(default_factory=set)
    doubles: list[list[Holder]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self) -> None:
        while not self._stop.wait(self.interval):
            now = holders(self.rdevs)
            self.samples += 1
            self.sessions |= {h.session for h in now}
            for rdev in self.rdevs:
                if len({h.session for h in now if rdev in h.rdevs}) > 1:
                    self.doubles.append(now)
                    break

    def __enter__(self) -> GenerationWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
