"""Which cards a unit that runs really has: read back from its processes, not from what they were given.

An image, a script or the program itself may choose other cards after klops has; and runtimes may count cards
in another order than the list that they are given, which changes with the exact list.

It is read once, when the unit is ready, by a child that nobody waits for: see
:mod:`klops.agent.processes.workers`. A status tells what was read then.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Mapping, NamedTuple, Sequence

from klops.agent.audit import Audit
from klops.agent.processes import children, devices, identity, openfiles, workers
from klops.agent.processes.procs import Process
from klops.agent.units import environment

#: Seconds that the look at which it is begun waits for it, and until no answer is expected any more.
_PATIENCE = 0.3
DEADLINE = 10.0
#: Bytes of an answer: that of eight ranks has less than 2000.
_LONGEST = 1 << 16


class _Wanted(NamedTuple):
    """What a unit was given."""

    #: variables by name; None: not to be set
    variables: Mapping[str, str | None]
    #: index by device number, in the order of the ranks
    by_number: Mapping[int, int]


class _Asking(NamedTuple):
    """A child that reads."""

    pid: int
    #: None when it had ended before it could be looked at
    who: identity.Identity | None
    said: int
    since: float
    wanted: _Wanted


class ReadBack:
    """Has the processes of one unit read, and remembers what came of it."""

    def __init__(self, name: str, audit: Audit, package: str) -> None:
        """``package``: the package file that the child takes its modules from."""
        self._name = name
        self._audit = audit
        self._package = package
        #: pid and start of the main process that was asked about last
        self._root: tuple[int, int] | None = None
        self._told = nothing()
        self._asking: _Asking | None = None
        self._text = b""
        #: the descriptor that it says it on is closed
        self._closed = False

    @property
    def pids(self) -> set[int]:
        """The child that was not seen to end."""
        return {self._asking.pid} if self._asking is not None else set()

    def of(self, root: tuple[int, int]) -> dict[str, Any]:
        """``ranks``: index of each rank's card, [] where that isn't known; ``note``: what isn't as asked."""
        return dict(self._told) if root == self._root else nothing()

    def look(self, root: tuple[int, int], living: Sequence[Process], spec: Mapping[str, Any]) -> None:
        """Of a unit that is ready: have it read, unless that was done. There is one child at most."""
        if root == self._root or self._asking is not None:
            return
        # later, if one is reading from a disk; never, if it sits in the driver
        if not all(openfiles.settled(one, 0.0) for one in living):
            return
        wanted = _wanted(spec)
        if wanted is None:
            self._root, self._told = root, nothing()
            return
        try:
            pid, said = workers.ask(
                self._package, list(wanted.variables), root[0], [one.pid for one in living]
            )
        except OSError:
            return  # no room for one now
        self._root, self._told, self._text, self._closed = root, nothing(), b"", False
        self._asking = _Asking(pid, identity.of_pid(pid), said, time.monotonic(), wanted)
        self.hear(_PATIENCE)

    def hear(self, seconds: float = 0.0) -> None:
        """Take in what it says, waiting that long for it, and that it has ended."""
        asking = self._asking
        if asking is None:
            return
        deadline = time.monotonic() + seconds
        while not self._closed:
            poll = select.poll()
            poll.register(asking.said, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            part = os.read(asking.said, 65536)
            self._text += part[: _LONGEST - len(self._text)]
            if not part:
                self._close(asking)
                self._told = _compared(self._text, asking.wanted)
        if not self._closed and time.monotonic() - asking.since > DEADLINE:
            self._end(asking, f"it does not answer within {DEADLINE:g} s")
        if self._closed and children.gone(asking.pid, asking.who):
            self._asking = None

    def _end(self, asking: _Asking, why: str) -> None:
        # whoever reaps all children may have reaped it: no bare pid
        handle = identity.hold(asking.who) if asking.who is not None else None
        if handle is not None:
            self._audit.signal(self._name, handle, "reads back cards", signal.SIGKILL, why)
            handle.close()
        self._close(asking)

    def _close(self, asking: _Asking) -> None:
        os.close(asking.said)
        self._closed = True

    def close(self) -> None:
        """Give it up. A child that the driver doesn't let go ends when it does."""
        self.hear()
        if self._asking is not None and not self._closed:
            self._end(self._asking, "whoever asked leaves")
        self._asking = None


def nothing() -> dict[str, Any]:
    """What is told where nothing is known."""
    return {"ranks": [], "note": ""}


def _wanted(spec: Mapping[str, Any]) -> _Wanted | None:
    """None when there is nothing to compare with."""
    cards, folder = spec["cards"], spec["device_dir"]
    nodes, lacking = devices.resolve(cards, folder)
    if not cards or lacking:
        return None
    variables = environment.selection(spec["visible_env"], devices.ranks(nodes, folder))
    return _Wanted(variables, {node.rdev: cards[at]["index"] for at, node in enumerate(nodes)})


def _compared(text: bytes, wanted: _Wanted) -> dict[str, Any]:
    try:
        seen = json.loads(text)
    except ValueError:
        return nothing()  # somebody has killed it
    ranks, asked = _ranks(seen["workers"], wanted.by_number), list(wanted.by_number.values())
    notes = [_selection(seen["variables"], wanted.variables)]
    if ranks and ranks != asked:
        notes.append(f"the ranks have cards {_listed(ranks)}, asked for were {_listed(asked)}, in this order")
    return {"ranks": ranks, "note": "; ".join(filter(None, notes))}


def _selection(found: Mapping[str, str] | None, wanted: Mapping[str, str | None]) -> str:
    """What the main process has in the variables that select cards, where that isn't what it was given."""
    if found is None:
        return ""
    wrong = [name for name, value in wanted.items() if found.get(name) != value]
    shown = (f"{name} {'is ' + found[name] if name in found else 'is not set'}" for name in wrong)
    return f"its cards are not those it was given: {', '.join(shown)}" if wrong else ""


def _ranks(seen: Sequence[Sequence[Any]], index: Mapping[int, int]) -> list[int]:
    """Index of the card of each rank, in their order; [] unless each of them has exactly one."""
    found: dict[int, int] = {}
    for rank, opened in seen:
        held = [index[number] for number in opened if number in index]
        if len(held) != 1:
            return []
        found[rank] = held[0]
    whole = len(found) == len(index) and sorted(found) == list(range(len(index)))
    return [found[rank] for rank in sorted(found)] if whole else []


def _listed(cards: Sequence[int]) -> str:
    return ", ".join(map(str, cards))
