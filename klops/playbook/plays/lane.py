"""One host on its way through a play."""

from __future__ import annotations

from dataclasses import dataclass, field

from klops.errors import KlopsError
from klops.playbook.plays.handlers import Due
from klops.playbook.plays.notified import HostNotes
from klops.playbook.plays.walk import AnyStep, Done, Walk
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.taskrun import HostPlay


@dataclass
class Lane:
    """Where a host is in a play. Moved by one thread only; another carries its current step out."""

    host: Host
    play: HostPlay
    #: None for a play without handlers
    notes: HostNotes | None = None
    step: AnyStep | None = None
    #: False from when the host could not be reached until its errors are cleared
    reachable: bool = True
    #: came to the end of its walk by a failure
    failed: bool = False
    #: the last failure that no rescue took care of
    error: KlopsError | None = None
    _walk: Walk | None = field(default=None, repr=False)

    @property
    def going(self) -> bool:
        """Whether it has a step to do."""
        return self.step is not None and self.reachable

    def begin(self, walk: Walk) -> None:
        """Go to the first step."""
        self._walk = walk
        self._move(None)

    def advance(self, done: Done) -> None:
        """Go to the next step."""
        self._move(done)

    def end(self) -> None:
        """Leave the rest out."""
        if self._walk is not None:
            self._walk.close()
        self.step = None

    def _move(self, done: Done | None) -> None:
        assert self._walk is not None  # noqa: S101 - begun before
        try:
            self.step = next(self._walk) if done is None else self._walk.send(done)
        except StopIteration as end:
            self.step = None
            self.failed = not end.value

    def heard(self) -> dict[str, Due]:
        """What was notified since the last time, and what an earlier run left."""
        found = {} if self.notes is None else dict.fromkeys(self.notes.left_over(), Due(left_over=True))
        found |= {name: Due(reason) for name, reason in self.host.notified.items()}
        self.host.notified.clear()
        return found
