"""Whether card nodes that are listed in this container can be opened: a container can lose that.

Only the supervisor tests, so that whoever watches the cards knows who that is. It opens and closes at once,
and on a thread: with a driver that is stuck an open may never return, and there are other units to watch.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import Any, NamedTuple, Sequence

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
#: This process is short of something: no news of the node.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


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


class Access:
    """Tests nodes, and remembers the outcome for a while."""

    def __init__(self) -> None:
        #: by path and device number: when the test ended, and its error number (0: it was opened)
        self._outcomes: dict[tuple[str, int], tuple[float, int]] = {}
        #: tests that go on, and since when
        self._testing: dict[tuple[str, int], tuple[threading.Thread, float]] = {}

    @property
    def undecided(self) -> bool:
        """Whether a test goes on of which it can't be said yet that it is stuck."""
        now = time.monotonic()
        return any(thread.is_alive() and now - since < _STUCK for thread, since in self._testing.values())

    def refusals(self, nodes: Sequence[Node], max_age: float = 0.0) -> list[Refusal] | None:
        """The nodes that can't be opened, in order; None when that isn't known now.

        An outcome that is no older than ``max_age`` seconds counts.
        """
        self._test(nodes, max_age)
        now, found = time.monotonic(), []
        for node in nodes:
            key = (node.path, node.rdev)
            if key in self._testing:
                if now - self._testing[key][1] < _STUCK:
                    return None
                found.append(Refusal(node.path, "the open doesn't return", container=False))
                continue
            number = self._outcomes[key][1]
            if number in _SHORT:
                return None
            if number not in _OPENS:
                found.append(Refusal(node.path, os.strerror(number), container=number in _CONTAINER))
        return found

    def _test(self, nodes: Sequence[Node], max_age: float) -> None:
        now = time.monotonic()
        self._testing = {key: test for key, test in self._testing.items() if test[0].is_alive()}
        begun = []
        for node in nodes:
            key = (node.path, node.rdev)
            if key in self._testing or (key in self._outcomes and now - self._outcomes[key][0] < max_age):
                continue
            thread = threading.Thread(target=self._open, args=(key,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads
                self._outcomes[key] = (now, errno.EAGAIN)
                continue
            self._testing[key] = (thread, now)
            begun.append((key, thread))
        for key, thread in begun:
            thread.join(max(0.0, now + _PATIENCE - time.monotonic()))
            if not thread.is_alive():
                del self._testing[key]

    def _open(self, key: tuple[str, int]) -> None:
        number = 0
        try:
            os.close(os.open(key[0], os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError as error:
            number = error.errno or errno.EIO
        self._outcomes[key] = (time.monotonic(), number)
