"""Whether card nodes that are listed in this container can be opened: a container can lose that.

Only the supervisor has this tested, so that whoever watches the cards knows who that is: by a child that
opens a node, closes it at once and ends. With a driver that is stuck an open may never return, and neither
does the end of its process: that must not be the supervisor's. Such a child holds nothing, neither the card
nor anything of the supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from typing import Any, NamedTuple, Sequence

from klops.agent import environment, isolated
from klops.agent.devices import Node

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
    #: what it says comes here; as long as nothing did and this has no end, it lives
    said: int
    since: float


class Access:
    """Has nodes tested, and remembers the outcome for a while."""

    def __init__(self) -> None:
        #: by path and device number: when the test ended, and its error number (0: it was opened)
        self._outcomes: dict[tuple[str, int], tuple[float, int]] = {}
        #: tests that go on
        self._testing: dict[tuple[str, int], _Test] = {}

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
        return {test.pid for test in self._testing.values()}

    def hear(self) -> None:
        """Note what tests have come to, and reap who made them."""
        self._hear(0.0)

    def close(self) -> None:
        """Give up all tests that go on. A child that the driver doesn't let go ends when it does."""
        self.hear()
        for test in self._testing.values():
            os.kill(test.pid, signal.SIGKILL)
            os.close(test.said)
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
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(test.pid, 0)  # it has nothing more to do
                # one that was killed from outside says nothing
                self._outcomes[key] = (time.monotonic(), int(said) if said else errno.EAGAIN)


def _begin(path: str, now: float) -> _Test:
    said, told = os.pipe()
    try:
        pid = os.posix_spawn(
            isolated.PYTHON[0],
            [*isolated.PYTHON, "-c", _OPEN, path],
            {**os.environ, environment.MARKER: f"{environment.NOBODY}:0"},
            # all other descriptors end with the start of the program: it keeps no lock and no socket
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, told, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
    except OSError:
        os.close(said)
        raise
    finally:
        os.close(told)
    return _Test(pid, said, now)
