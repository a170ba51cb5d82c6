"""The ranks of a diagnosis: started, put on record, listened to, ended, so that nothing is left."""

from __future__ import annotations

import os
import select
import shutil
import time
from typing import Any, Iterable, Mapping, NamedTuple

from klops.agent.audit import Audit
from klops.agent.processes import procs
from klops.agent.units import killing
from klops.agent.units.lineage import Lineage
from klops.agent.xccl.ranks import process
from klops.agent.xccl.ranks.process import BUSY, GONE, IDLE, Rank

#: Seconds that one look waits for news at most.
LOOK = 0.1
#: Seconds for a rank that was asked to leave; seconds for KILL to have its effect.
_LEAVING = 2.0
_KILLING = 5.0


class Setting(NamedTuple):
    """What every rank is started with."""

    package: str
    env: Mapping[str, str]
    #: folder for logs and meeting points
    folder: str
    device_dir: str
    backend: str


class Pool:
    """At most one living rank a place."""

    def __init__(
        self,
        setting: Setting,
        lineage: Lineage,
        audit: Audit,
        note: process.Note = lambda ranks: None,
    ) -> None:
        """``note`` sees ranks about to end, and each once it has ended, while its pid is still its own."""
        self.setting = setting
        self._lineage = lineage
        self._audit = audit
        self._note = note
        #: what ranks are called in the audit log, by place, where more is known than the place
        self.names: dict[int, str] = {}
        self.ranks: dict[int, Rank] = {}
        #: those that KILL doesn't end, by place
        self.stuck: dict[int, Rank] = {}
        #: ``{place, pid, why}``
        self.killed: list[dict[str, Any]] = []
        self.started = 0

    def start(self, place: int) -> Rank:
        """Start one; it is on record before it does anything. Raises ``OSError``."""
        log = f"{self.setting.folder}/rank-{place}-{self.started}.log"
        rank = process.spawn(self.setting.package, self.setting.env, place, log, self._note)
        self.started += 1
        self.ranks[place] = rank
        if rank.seen is not None:
            try:
                self._lineage.record(rank.seen, self.started)
            except OSError:
                self.kill({place: "it can't be put on record"})
                raise
        rank.ask({"place": place, "backend": self.setting.backend, "device_dir": self.setting.device_dir})
        return rank

    def ask(self, rank: Rank, message: Mapping[str, Any]) -> None:
        """Give it work."""
        rank.state = BUSY
        rank.used += 1
        rank.ask(message)

    def listen(self, seconds: float) -> None:
        """Wait that long for any of them to say something or to end, and take it in."""
        poll = select.poll()
        for rank in self.ranks.values():
            for fd in (rank.tell, rank.pidfd):
                if fd >= 0 and rank.state != GONE:
                    poll.register(fd, select.POLLIN)
        poll.poll(max(0.0, min(seconds, LOOK)) * 1000)
        for rank in self.ranks.values():
            rank.listen()

    def drop(self, place: int) -> None:
        """Forget one that is gone by itself."""
        rank = self.ranks.pop(place, None)
        if rank is not None:
            rank.close()

    def leave(self, places: Iterable[int]) -> int:
        """Have some end by themselves; those that don't are killed. How many were not."""
        ranks = self._about_to_end(places)
        for rank in ranks:
            rank.leave()
        late = _wait(ranks, _LEAVING)
        self.kill({rank.place: "it was asked to leave and did not" for rank in late})
        for rank in ranks:
            if self.ranks.get(rank.place) is rank:
                self.drop(rank.place)
        return len(ranks) - len(late)

    def kill(self, why: Mapping[int, str], patience: float = _KILLING) -> None:
        """KILL those at some places, by identity, and wait until they are gone. ``why`` by place."""
        ranks = self._about_to_end(why)
        for rank in ranks:
            name = self.names.get(rank.place, f"rank at place {rank.place}")
            rank.kill(self._audit, name, why[rank.place])
            self.killed.append({"place": rank.place, "pid": rank.pid, "why": why[rank.place]})
        for rank in _wait(ranks, patience):
            self.stuck[rank.place] = rank
        for rank in ranks:
            self.drop(rank.place)

    def _about_to_end(self, places: Iterable[int]) -> list[Rank]:
        ranks = [self.ranks[place] for place in places if place in self.ranks]
        living = [seen for seen in (rank.process() for rank in ranks) if seen is not None and seen.alive]
        if living:
            self._note(living)
        return ranks

    def close(self) -> list[procs.Process]:
        """End all of them, and whatever they have begotten; what lives on is returned."""
        table = procs.table()
        self._lineage.grow(table, 0, (0, 1, os.getpid()))
        self.leave([place for place, rank in self.ranks.items() if rank.state in (IDLE, GONE)])
        # what is at something may not come back from it
        self.kill(dict.fromkeys(self.ranks, "the diagnosis is over"))
        return killing.end_all(self._lineage, self._audit, "left by a rank of a diagnosis that is over")


def _wait(ranks: list[Rank], seconds: float) -> list[Rank]:
    """Until all have ended; those that have not in that time."""
    deadline = time.monotonic() + seconds
    while True:
        left = [rank for rank in ranks if not rank.over()]
        remaining = deadline - time.monotonic()
        if not left or remaining <= 0:
            return left
        poll = select.poll()
        for rank in left:
            if rank.pidfd >= 0:
                poll.register(rank.pidfd, select.POLLIN)
        poll.poll(min(remaining, LOOK) * 1000)


def clear(folder: str) -> None:
    """Remove a folder of logs and meeting points, with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
