"""Dry runs: what a task would find on the host once the tasks before it had run. Pure.

What earlier tasks would make of which paths is kept for each host. The replies to a later task's reads are
rewritten to what they would be then. Where that can't be told the task is ``unknown``; where only the owner
of something new can't be told, the task is planned for root as its owner and for another, and what both
plans agree in is certain.

Not seen: what programs of the author do, and one file under two names that lead through different folders.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from klops.actions.base import Plan
from klops.actions.files.attributes import found
from klops.actions.touched import Touched
from klops.errors import KlopsError
from klops.playbook.tasks.rewriting import ANYBODY, AT_CONTENT, ROOT, inner, plain, rewritten, within
from klops.remote.base import Reply
from klops.remote.reads import PathRead, Read

Planner = Callable[[Mapping[str, Reply]], Plan]


@dataclass
class Foreseen:
    """What tasks of a dry run would have made of one host so far. Threads may add to it."""

    _touched: list[Touched] = field(default_factory=list)

    def add(self, touched: Iterable[Touched]) -> None:
        """A task would do this besides."""
        self._touched.extend(replace(one, path=plain(one.path), leads=plain(one.leads)) for one in touched)

    def plan(self, make: Planner, reads: Sequence[Read], replies: Mapping[str, Reply]) -> Plan:
        """The plan of a task as it would be when its turn comes, with what it ``touches`` in turn."""
        touched = tuple(self._touched)
        worlds = (dict(replies), dict(replies))
        for read in reads:
            for world, owner in zip(worlds, (ROOT, ANYBODY), strict=True):
                reply = rewritten(read, replies[read.key], touched, owner)
                if isinstance(reply, str):
                    return self._vague(reply, _tried(make, replies), reads, replies)
                world[read.key] = reply
        if all(world == replies for world in worlds):
            plan = make(replies)
            return replace(plan, touches=_touches(plan, reads, replies))
        first, other = (_tried(make, world) for world in worlds)
        if _outcome(first) != _outcome(other):
            return self._vague(_subjects(reads)[0], first, reads, replies)
        result = {name: value for name, value in first.result.items() if other.result.get(name) == value}
        return replace(first, result=result, foreseen=True, touches=_touches(first, reads, worlds[0]))

    def _vague(self, path: str, stale: Plan, reads: Sequence[Read], replies: Mapping[str, Reply]) -> Plan:
        """What comes out isn't known; it may touch what it would as things are, and all that it is about."""
        touched = [one.unsure for one in _touches(stale, reads, replies)]
        for look in _subjects(reads):
            touched.append(Touched(look.rstrip("/") or "/", below=look.endswith("/")))
            through = [one for one in tuple(self._touched) if one.leads and within(plain(look), one.path)]
            touched += [Touched(one.leads, below=True) for one in through]
        return Plan(unknown=f"an earlier task would change {path}", foreseen=True, touches=tuple(touched))


def _tried(make: Planner, replies: Mapping[str, Reply]) -> Plan:
    try:
        return make(replies)
    except KlopsError as error:
        return Plan(failure=error)


def _outcome(plan: Plan) -> tuple[bool, ...]:
    return (bool(plan.changes), bool(plan.unknown), bool(plan.skipped), plan.failure is not None)


def _subjects(reads: Sequence[Read]) -> list[str]:
    """What a task is about: nobody changes a path of which only the content was looked at."""
    return [look for read in map(inner, reads) if not isinstance(read, AT_CONTENT) for look in read.looks]


def _touches(plan: Plan, reads: Sequence[Read], replies: Mapping[str, Reply]) -> tuple[Touched, ...]:
    """What the steps of a plan make of which paths, a link that it went through and its target included."""
    if plan.failure is not None or plan.skipped:
        return ()
    touched = [one for step in plan.steps for one in step.touches()]
    if plan.unknown:
        touched = [one.unsure for one in touched]
    if not touched:
        return ()
    names = {one.path for one in touched}
    for read in map(inner, reads):
        if isinstance(read, PathRead):
            (path,) = read.paths
            own = found(replies[read.key]).own
            if own is not None and own.type == "link":
                both = (path, posixpath.join(posixpath.dirname(path), own.target))
                touched += [Touched(name, below=True) for name in both if name not in names]
    return tuple(touched)
