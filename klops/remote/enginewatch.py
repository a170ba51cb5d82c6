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

#: Seconds of silence before the first look; each further one waits twice as long as the one before.
PATIENCE = 6.0
#: Seconds in which an engine answers ``docker version``: it takes milliseconds, a second under load.
ANSWER = 14.0

#: Commands that an engine answers at once: nothing in a container or on the network is waited for.
_QUESTIONS = (["version"], ["info"], ["inspect"], ["image"], ["ps"])

_HINT = (
    "on the host: systemctl status docker; journalctl -u docker -n 100. systemctl restart docker mostly"
    " helps; it stops all containers, unless the engine's live-restore is on"
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


class EngineWatch:
    """Watches the engine for one command of ``remote``; ``engine`` is the start of a docker command line."""

    def __init__(self, remote: Remote, engine: Sequence[str]) -> None:
        self._remote = remote
        self._looker = remote
        self._version = docker.version(tuple(engine))
        self._began = time.monotonic()
        self._patience = PATIENCE
        self._next = self._began + PATIENCE
        self._look: threading.Thread | None = None
        self._heard = False
        self.hung = False

    def heard(self) -> None:
        """The command has said something: from here on its own limits are the right ones."""
        self._heard = True

    def hangs(self) -> bool:
        """Whether the engine is known to hang; to be asked often, which begins a look when one is due."""
        if self._look is not None and not self._look.is_alive():
            self._look = None
            self._patience *= 2
            self._next = time.monotonic() + self._patience
        if self._look is None and not self._heard and not self.hung and time.monotonic() >= self._next:
            self._looker = self._remote.clone()
            self._look = threading.Thread(target=self._ask, daemon=True)
            self._look.start()
        return self.hung and not self._heard

    def error(self, what: str, left: str) -> DockerUnavailable:
        """Why ``what`` was given up; ``left`` says what of it could not be ended."""
        waited = time.monotonic() - self._began
        asked = f"`docker version` got no answer within {ANSWER:g} s, and {what} none within {waited:.0f} s"
        return hanging(self._remote.name, asked + left)

    def close(self) -> None:
        """End a look that is under way."""
        look = self._look
        while look is not None and look.is_alive():
            # again and again: it may not have begun its command yet
            self._looker.close()
            look.join(0.2)

    def _ask(self) -> None:
        try:
            self._looker.run(self._version, timeout=ANSWER, check=False)
        except (CommandTimeout, DockerUnavailable):
            self.hung = True
        except KlopsError:
            # the connection's fault, or the end of what was watched: nothing is known of the engine
            return
