"""What a look or a clean-up comes to: candidates, warnings, and why it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from klops.actions.own.reap.findings import ALIVE, Look, Memory
from klops.errors import TaskFailed

_IDENTITY = re.compile(r"[1-9][0-9]*:[0-9]+\Z")


#: (host pid, start) of unowned processes that are to be ended as well
Named = Collection[tuple[int, int]]


def identity(text: str) -> tuple[int, int]:
    """``PID:START`` as numbers. Raises ``ValueError``."""
    if not _IDENTITY.match(text):
        raise ValueError(f"{text!r} is not PID:START, as klops reap lists them")
    pid, _, start = text.partition(":")
    return int(pid), int(start)


def is_named(process: Mapping[str, Any], named: Named) -> bool:
    """Whether a process was named to be ended."""
    return (process.get("pid"), process.get("start")) in named


def candidates(look: Look, named: Named) -> list[Mapping[str, Any]]:
    """Who would be ended. Those that are spared, as they are young, the agent has no signal for."""
    due = [process for process in look.processes("processes") if process.get("action") != "none"]
    # by the host's pids the agent in a container knows nobody
    return due + [process for process in look.processes("unowned") if is_named(process, named)]


def refused(look: Look, named: Named) -> TaskFailed | None:
    """The error for a process that was named and isn't klops' to end."""
    others = look.processes("foreign", "unsupervised", "unseen", "observers")
    wrong = [p for p in others if is_named(p, named)]
    if not wrong:
        return None
    return TaskFailed(
        f"not to be ended by klops: {'; '.join(map(told, wrong))}",
        hint="only processes that klops reap lists as unowned can be named; nothing was done",
        code="reap-not-ours",
    )


def told(process: Mapping[str, Any]) -> str:
    """A process in a few words."""
    pid, cpid = process.get("pid"), process.get("cpid")
    who = f"pid {pid}" if pid is not None else f"pid {cpid} in the container"
    parts = [f"{who} {process.get('name')}"]
    if process.get("cards"):
        parts.append(f"card {', '.join(map(str, process['cards']))}")
    if process.get("memory_mib") is not None:
        parts.append(f"{process['memory_mib']} MiB")
    return ", ".join(parts)


def whose(process: Mapping[str, Any]) -> str:
    """The same with user and container."""
    container = str(process.get("container") or "")
    where = f"container {container[:12]}" if container else "no container"
    return f"{told(process)}, user {process.get('user')}, {where}"


def blind_spots(look: Look) -> list[str]:
    """What could not be seen, done or written down."""
    found = []
    if look.narrowed:
        found.append(
            f"only the container was looked at, so who else holds a card is not known: {look.narrowed}"
        )
    if look.shm_unseen:
        found.append(f"what is left in shared memory could not be looked at: {look.shm_unseen}")
    if look.untold:
        found.append(look.untold)
    return found


def warnings(look: Look, named: Named, command: str) -> tuple[str, ...]:
    """What somebody should know, though nothing is done about it. ``command`` is what asked for the look."""
    found = []
    for process in look.processes("unowned"):
        if is_named(process, named):
            continue
        pid, start = process.get("pid"), process.get("start")
        way = f"; {command} --include-unowned {pid}:{start} ends it" if pid is not None else ""
        found.append(f"held by a process that klops did not start: {whose(process)}{way}")
    found += [
        f"held by a process outside klops' containers, which is left alone: {whose(process)}"
        for process in look.processes("foreign")
    ]
    found += [
        f"of unit {process.get('unit')}, which nobody supervises just now: {told(process)}; klops up starts "
        "a supervisor, which takes it over"
        for process in look.processes("unsupervised")
    ]
    unseen = look.processes("unseen")
    if unseen:
        found.append(f"whether these hold a card could not be seen: {'; '.join(map(told, unseen))}")
    found += blind_spots(look)
    known = {(p.get("pid"), p.get("start")) for p in look.processes("processes", "unowned")}
    found += [f"no unowned process {pid}:{start} is there" for pid, start in sorted(set(named) - known)]
    return tuple(found)


def failure(look: Look, memory: Memory, busy: frozenset[int], ours: Sequence[int]) -> TaskFailed | None:
    """Why the host can't be called clean: what could not be ended, or who holds a card can't be seen.

    Where only the container was to be looked at, nothing is said of what others hold; there it counts whether
    what lives on is in the way of the cards that klops uses.
    """
    alive = [p for p in look.processes("processes") if p.get("outcome") in ALIVE]
    if not look.answers_for_all:
        alive = [p for p in alive if not p["cards"] or {*p["cards"]} & {*ours}]
    if alive:
        stuck = any(p.get("outcome") == "unkillable" for p in alive)
        return TaskFailed(
            "still there after the clean-up: "
            + "; ".join(f"{told(p)} ({p['outcome']}, state {p.get('state')})" for p in alive),
            hint="KILL does not end it: the driver holds it, and only a reset of the card or a reboot of the "
            "host helps"
            if stuck
            else "run klops reap again; klops ps shows what it is",
            code="reap-alive",
        )
    if not look.answers_for_all:
        return None
    parts = [
        f"card {i} has {memory.used[i]} MiB in use, and nobody is seen to hold it"
        for i in look.unexplained(memory, busy, ours)
    ]
    unseen, blind = look.processes("unseen"), [i for i in ours if i not in memory.used]
    if unseen and (parts or blind):
        # where the memory of a card tells that nobody uses it, they don't either
        parts.append(f"processes that could not be looked at: {'; '.join(map(told, unseen))}")
    if look.narrowed and (parts or blind):
        # as are those outside the container then
        parts.append(f"only the container was looked at: {look.narrowed}")
    return nobody_looked("; ".join(parts)) if parts else None


def nobody_looked(why: str) -> TaskFailed:
    """The error for cards of which nobody can tell who holds them."""
    return TaskFailed(
        f"who holds the cards can't be seen: {why}",
        hint="look on the host as root: fuser -v /dev/xpu*; a process that is gone may have left its memory "
        "to the driver",
        code="cards-unseen",
    )
