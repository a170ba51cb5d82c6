"""The members of a lineage without which a server can't serve."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Sequence

from klops.agent.processes import devices, procs
from klops.agent.processes.procs import Process


class Vital:
    """Members that hold a card, and those between them and the root.

    They are learnt from two good checks in a row: a child that was just forked holds the cards of its parent
    until it becomes another program, and its end means nothing. One that lives longer is taken for vital by
    mistake: so before the end of a member counts, the server has to show whether it can do without.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], str] | None = None
        self._names: dict[tuple[int, int], str] = {}

    def clear(self) -> None:
        """Another generation begins."""
        self._before, self._names = None, {}

    def known(self) -> list[list[Any]]:
        """Pid, start and name of each, for the record; empty until they are learnt."""
        return [[pid, start, name] for (pid, start), name in self._names.items()]

    def restore(self, known: Sequence[Sequence[Any]]) -> None:
        """What an earlier supervisor had learnt: one that is gone by now is missed at once."""
        self._names = {(pid, start): name for pid, start, name in known}

    def learn(
        self, living: Sequence[Process], processes: Mapping[int, Process], root: int, spec: Mapping[str, Any]
    ) -> None:
        """Take in what a good check goes with, until they are known."""
        if self._names:
            return
        now = holding(living, dict(processes), root, spec)
        if self._before is not None:
            self._names = {key: name for key, name in now.items() if key in self._before}
        self._before = now

    def missing(self, living: Sequence[Process]) -> frozenset[tuple[int, int]]:
        """Pid and start of those that are gone."""
        return frozenset(self._names) - {(p.pid, p.start) for p in living}

    def drop(self, members: Collection[tuple[int, int]]) -> None:
        """The server has served without these."""
        for key in members:
            self._names.pop(key, None)

    def lost(self, living: Sequence[Process]) -> str:
        """Which of them is gone, in words; "" for none."""
        for pid, start in sorted(self.missing(living)):
            return f"a part of the engine is gone: pid {pid} ({self._names[pid, start]})"
        return ""


def holding(
    living: Sequence[Process], processes: dict[int, Process], root: int, spec: Mapping[str, Any]
) -> dict[tuple[int, int], str]:
    """Names by pid and start of members that hold a card now, and of those between them and the root."""
    watched, _ = devices.resolve(spec.get("cards", []), spec.get("device_dir", "/dev"))
    found = {}
    for process in living if watched else ():
        if process.pid != root and devices.held(process, watched):
            chain = [process.pid, *procs.ancestors(process.pid, processes)]
            for pid in chain[: chain.index(root)] if root in chain else [process.pid]:
                found[(pid, processes[pid].start)] = processes[pid].name
    return found
