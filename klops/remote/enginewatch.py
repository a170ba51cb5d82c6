"""A look at the docker engine while something waits for it: an engine that hangs answers nobody, for ever.

The docker client has no time limit of its own, and that of a command (a minute, or none) is made for work,
not for an engine that is stuck. So what calls docker and stays silent is watched: after a while
``docker version`` is asked beside it, over the same connection. What an engine in good health does for long
(stop a container, load an image) goes on; what waits for one that doesn't answer is given up. Nothing is
asked where an answer comes in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from klops.commands import docker
from klops.errors import CommandTimeout, DockerUnavailable, KlopsError

if TYPE_CHECKING:
    from klops.remote.base import Remote

#: Seconds of silence before the first look; after one that was answered each waits twice as long.
PATIENCE = 6.0
#: Seconds that ``docker version`` gets, look after look, until the engine counts as one that hangs. It takes
#: milliseconds, a second under load. A read is given up after the first: nothing is lost. Work is given up
#: when all of them, at once after each other, are in vain: an engine under heavy load, or one that writes to
#: a slow disk, may be silent for half a minute.
ANSWERS = (14.0, 24.0, 24.0)
#: Seconds that a look under way may take to end; one that can't be reached is left to its thread.
ENDING = 2.0

#: Commands that an engine answers at once: nothing in a container or on the network is waited for.
_QUESTIONS = (["version"], ["info"], ["inspect"], ["image"], ["ps"])

_HINT = (
    "on the host: systemctl status docker; journalctl -u docker -n 100; top, iostat. It may be only slow: ask"
    " docker ps again in some minutes. Restart docker as the last resort only: where live-restore is off that"
    " stops every container, and all services with them"
)


def hanging(name: str, seen: str) -> DockerUnavailable:
    """The error for an engine that hangs; ``seen`` says what was asked, and for how long in vain."""
    return DockerUnavailable(f"{name}: the docker engine hangs: {seen}", hint=_HINT, code="docker-hangs")


def waiting(command_lines: Iterable[str]) -> str:
    """The first of the command lines that asks something of the engine alone; "" when there is none."""
    for line in command_lines:
        words = line.split()
        prefix = docker.prefix_of(words)
        if prefix and words[len(prefix) : len(prefix) + 1] in _QUESTIONS:
            return line.strip()
    return ""


def is_look(argv: Sequence[str]) -> bool:
    """Whether a command is what a look asks: nobody looks beside that."""
    prefix = docker.prefix_of(argv)
    return bool(prefix) and tuple(argv) == tuple(docker.version(prefix))


class EngineWatch:
    """Watches the engine for one command of ``remote``; ``engine`` is the start of a docker command line.

    ``reading``: the command only asks, and one look in vain is enough to give it up.
    """

    def __init__(self, remote: Remote, engine: Sequence[str], *, reading: bool) -> None:
        self._remote = remote
        self._looker = remote
        self._version = docker.version(tuple(engine))
        self._answers = ANSWERS[:1] if reading else ANSWERS
        self._patience = PATIENCE
        self._look: threading.Thread | None = None
        self._heard = False
        self._closed = False
        #: looks in vain, one right after the other
        self._vain = 0
        self.begins()

    def begins(self) -> None:
        """The command begins now: what it waited for until then was not the engine."""
        self._began = time.monotonic()
        self._next = self._began + self._patience

    def heard(self) -> None:
        """The command has said something: from here on its own limits are the right ones."""
        self._heard = True

    @property
    def hung(self) -> bool:
        """Whether the engine is known to hang."""
        return self._vain >= len(self._answers)

    @property
    def doubted(self) -> bool:
        """Whether the last look was in vain, and nothing has been heard."""
        return bool(self._vain) and not self._heard

    def hangs(self) -> bool:
        """Whether the command is to be given up; to be asked often, which begins a look when one is due."""
        now = time.monotonic()
        if self._look is not None and not self._look.is_alive():
            self._look = None
            if not self._vain:
                self._patience *= 2
            self._next = now if self._vain else now + self._patience
        if self._look is None and not self._heard and not self.hung and now >= self._next:
            self._looker = self._remote.clone()
            self._look = threading.Thread(target=self._ask, daemon=True)
            self._look.start()
        return self.hung and not self._heard

    def error(self, what: str, left: str) -> DockerUnavailable:
        """Why ``what`` was given up; ``left`` says what of it could not be ended."""
        waited = time.monotonic() - self._began
        times = f", asked {self._vain} times," if self._vain > 1 else ""
        seconds = sum(self._answers[: self._vain])
        asked = f"`docker version`{times} got no answer within {seconds:g} s, and {what} none within"
        return hanging(self._remote.name, f"{asked} {waited:.0f} s{left}")

    def close(self) -> None:
        """End a look that is under way."""
        self._closed = True
        look, end = self._look, time.monotonic() + ENDING
        while look is not None and look.is_alive() and time.monotonic() < end:
            # again and again: it may not have begun its command yet
            self._looker.close()
            look.join(0.2)

    def _ask(self) -> None:
        try:
            if not self._closed:
                limit = self._answers[self._vain]
                self._looker.run(self._version, timeout=limit, check=False)
            self._vain = 0
        except CommandTimeout as error:
            # only one that began was asked of the engine
            self._vain = self._vain + 1 if error.code == CommandTimeout.code else 0
        except DockerUnavailable:
            self._vain += 1
        except KlopsError:
            # the connection's fault, or the end of what was watched: nothing is known of the engine
            self._vain = 0
