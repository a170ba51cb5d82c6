"""Whether card nodes that are listed in this container can be opened: a container can lose that.

Only the supervisor has this tested, so that whoever watches the cards knows who that is: by a child that
opens a node, closes it at once and ends. With a driver that is stuck an open may never return, and neither
does the end of its process: that must not be the supervisor's. Such a child holds nothing, neither the card
nor anything of the supervisor.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from typing import Any, NamedTuple, Sequence

from klops.agent import isolated
from klops.agent.audit import Audit
from klops.agent.processes import children, identity, procs
from klops.agent.processes.children import gone
from klops.agent.processes.devices import Node

#: Seconds that an outcome counts for whoever only wants to know.
FRESH = 10.0
#: Seconds that are waited for an open, and until it counts as one that doesn't return: a driver may have to
#: wake the card first.
_PATIENCE = 1.0
_STUCK = 10.0
#: What a container refuses that has lost access to a device. Whatever else goes wrong is the driver's.
_CONTAINER = (errno.EPERM, errno.EACCES)
#: The node is one that can be opened, but not now: somebody has it for himself, or it was removed just now.
_OPENS = (0, errno.EBUSY, errno.ENOENT)
#: Too little of something to open it, or to have it opened: no news of the node.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)

#: What the child does; it says the error number, 0 when all went well.
_OPEN = """
import os, sys
number = 0
try:
    os.close(os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
except OSError as error:
    number = error.errno
os.write(1, b"%d" % number)
os._exit(0)
"""


class Refusal(NamedTuple):
    """A node that can't be opened."""

    node: str
    #: in the system's words
    error: str
    #: whether it is the container that has no access; else the driver or the card doesn't answer
    container: bool

    def as_json(self) -> dict[str, Any]:
        """``{node, error, fault}``; ``fault`` is ``container`` or ``driver``."""
        return {
            "node": self.node,
            "error": self.error,
            "fault": "container" if self.container else "driver",
        }

    @property
    def problem(self) -> str:
        """In words, with what to do."""
        if self.container:
            return (
                f"{self.node} is listed in this container but opening it is refused ({self.error}):"
                " the container has lost access to the device, a fault of the container, not of the card;"
                " a docker restart of it may give it back, klops status shows whether it did;"
                " klops up --recreate makes a new container"
            )
        return (
            f"{self.node} is listed in this container but can't be opened ({self.error}): the driver or the"
            " card doesn't answer, and another container would not help; see dmesg and xpu-smi on the host"
        )


class _Test(NamedTuple):
    """A child that opens a node."""

    pid: int
    #: None when it had ended before it could be looked at
    who: identity.Identity | None
    #: what it says comes here; as long as nothing did and this has no end, it lives
    said: int
    since: float


class Access:
    """Has nodes tested, and remembers the outcome for a while."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        #: by path and device number: when the test ended, and its error number (0: it was opened)
        self._outcomes: dict[tuple[str, int], tuple[float, int]] = {}
        #: tests that go on
        self._testing: dict[tuple[str, int], _Test] = {}
        #: those that have said what there is to say, and were not seen to end yet
        self._leaving: list[_Test] = []

    @property
    def undecided(self) -> bool:
        """Whether a test goes on of which it can't be said yet that it is stuck."""
        now = time.monotonic()
        return any(now - test.since < _STUCK for test in self._testing.values())

    def refusals(self, nodes: Sequence[Node], max_age: float = 0.0) -> list[Refusal] | None:
        """The nodes that can't be opened, in order; None when that isn't known now.

        An outcome that is no older than ``max_age`` seconds counts.
        """
        self._test(nodes, max_age)
        now, found = time.monotonic(), []
        for node in nodes:
            key = (node.path, node.rdev)
            if key in self._testing:
                if now - self._testing[key].since < _STUCK:
                    return None
                found.append(Refusal(node.path, "the open doesn't return", container=False))
                continue
            number = self._outcomes[key][1]
            if number in _SHORT:
                return None
            if number not in _OPENS:
                found.append(Refusal(node.path, os.strerror(number), container=number in _CONTAINER))
        return found

    @property
    def pids(self) -> set[int]:
        """Children that were not seen to end: those that test, and such as the caller has reaped since."""
        return {test.pid for test in (*self._testing.values(), *self._leaving)}

    def hear(self) -> None:
        """Note what tests have come to, and reap who made them."""
        self._hear(0.0)
        for key, test in list(self._testing.items()):
            if test.who is not None and _halted(test.who):
                self._repeat(key, test)

    def _repeat(self, key: tuple[str, int], test: _Test) -> None:
        """Somebody has stopped it, which says nothing of the driver: end it and test again."""
        try:
            another = _begin(key[0], test.since)
        except OSError:
            return  # no room for another one now
        self._end(test, "it was stopped")
        self._testing[key] = another

    def _end(self, test: _Test, why: str) -> None:
        # whoever reaps all children may have reaped it: no bare pid
        handle = identity.hold(test.who) if test.who is not None else None
        if handle is not None:
            self._audit.signal("", handle, "opens a node", signal.SIGKILL, why)
            handle.close()
        os.close(test.said)
        self._leaving.append(test)

    def close(self) -> None:
        """Give up all tests that go on. A child that the driver doesn't let go ends when it does."""
        self.hear()
        for test in self._testing.values():
            self._end(test, "its supervisor leaves")
        self._testing.clear()

    def _test(self, nodes: Sequence[Node], max_age: float) -> None:
        now = time.monotonic()
        self.hear()
        begun = False
        for node in nodes:
            key = (node.path, node.rdev)
            if key in self._testing or (key in self._outcomes and now - self._outcomes[key][0] < max_age):
                continue
            try:
                self._testing[key] = _begin(node.path, now)
                begun = True
            except OSError:  # no descriptors, no processes, no memory
                self._outcomes[key] = (now, errno.EAGAIN)
        while begun and any(test.since == now for test in self._testing.values()):
            left = now + _PATIENCE - time.monotonic()
            if left <= 0:
                return
            self._hear(left)

    def _hear(self, seconds: float) -> None:
        """The same, waiting that long for one."""
        poll = select.poll()
        for test in self._testing.values():
            poll.register(test.said, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(seconds * 1000)} if self._testing else set()
        for key, test in list(self._testing.items()):
            if test.said in ready:
                said = os.read(test.said, 16)
                os.close(test.said)
                del self._testing[key]
                self._leaving.append(test)
                # one that was killed from outside says nothing
                self._outcomes[key] = (time.monotonic(), int(said) if said else errno.EAGAIN)
        self._leaving = [test for test in self._leaving if not gone(test.pid, test.who)]


def _halted(who: identity.Identity) -> bool:
    process = procs.read(who.pid)
    return process is not None and process.start == who.start and process.state in procs.HALTED


def _begin(path: str, now: float) -> _Test:
    pid, said = children.ask([*isolated.PYTHON, "-c", _OPEN, path])
    return _Test(pid, identity.of_pid(pid), said, now)
