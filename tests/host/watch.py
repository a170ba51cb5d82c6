"""Look at card holders from outside, as host root: by device number, never by name or path."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Holder:
    """A process that has a card node open: its identity, its session id as the host sees it, its parent."""

    pid: int
    #: clock ticks since boot
    start: int
    session: int
    name: str
    rdevs: frozenset[int]
    #: pid of its parent, if that is of the same session; else 0
    parent: int = 0

    @property
    def identity(self) -> tuple[int, int]:
        """Pid and start: no other process ever has both."""
        return self.pid, self.start


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
        parent = int(rest[1]) if session_of(int(rest[1])) == int(rest[3]) else 0
        found.append(Holder(int(entry.name), int(rest[19]), int(rest[3]), name, frozenset(held), parent))
    return found


def session_of(pid: int) -> int:
    """The session of a process; -1 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return -1
    return int(stat[stat.rindex(")") + 2 :].split()[3])


def supervisor_pid(root: Path) -> int | None:
    """Pid of the supervisor that serves a root: who listens on its socket, as the kernel tells."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(root / "run" / "supervisor.sock"))
        pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)
    return None


@dataclass
class GenerationWatch:
    """Samples the holders of cards until it is left; keeps every moment at which two sessions had one card.

    A unit runs in a session of its own, so two sessions on one card are two generations at once. The
    supervisor is no generation: a child of it, in its own session, opens a node and closes it at once, to see
    whether its container still may. So whoever serves ``root`` (``klops.root`` of the host) is left out with
    such children, by pid and start time, and nobody else.
    """

    rdevs: frozenset[int]
    root: Path
    #: roots of further hosts whose cards are among ``rdevs``: one look for all of them
    others: Sequence[Path] = ()
    interval: float = 0.01
    samples: int = 0
    #: who was seen together on cards
    moments: set[frozenset[Holder]] = field(default_factory=set)
    #: identities of the supervisors, and of their children, that were seen on one
    supervisors: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._others: set[tuple[int, int]] = set()
        #: pids of those who serve or did: the supervisor of a child may be gone when it is asked for
        self._served: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self) -> None:
        while not self._stop.wait(self.interval):
            now = frozenset(holders(self.rdevs))
            self.samples += 1
            self.moments.add(now)
            strangers = {one for one in now if one.identity not in self.supervisors | self._others}
            asked = [supervisor_pid(root) for root in (self.root, *self.others)] if strangers else [None]
            self._served |= {pid for pid in asked if pid is not None}
            found = {one.identity for one in strangers if self._served & {one.pid, one.parent}}
            self.supervisors |= found
            if (
                None not in asked
            ):  # while one of them serves nobody, nobody else can be told apart: asked again
                self._others |= {one.identity for one in strangers} - found

    @property
    def doubles(self) -> list[list[Holder]]:
        """The moments with two generations on one card."""
        return self.doubles_on(self.rdevs)

    def doubles_on(self, rdevs: Iterable[int]) -> list[list[Holder]]:
        """The same for some of the cards."""
        found = []
        for moment in self.moments.copy():
            units = [holder for holder in moment if holder.identity not in self.supervisors]
            sessions = ({h.session for h in units if rdev in h.rdevs} for rdev in rdevs)
            if any(len(on_one) > 1 for on_one in sessions):
                found.append(units)
        return found

    @property
    def sessions(self) -> set[int]:
        """Sessions of all generations that were seen."""
        return {h.session for moment in self.moments for h in moment if h.identity not in self.supervisors}

    def __enter__(self) -> GenerationWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
