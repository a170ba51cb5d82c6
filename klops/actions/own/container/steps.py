"""Steps of ``klops.container``."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, hostview
from klops.commands import docker
from klops.commands.containerspec import ContainerSpec
from klops.errors import AgentError, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Completed, Remote

#: Seconds that making or starting a container may take: engines with full disks are slow.
_ENGINE_TIMEOUT = 180.0
#: Seconds until the agent's supervisor must answer after a start.
AGENT_TIMEOUT = 30.0
#: Seconds between two looks.
_PAUSE = 0.5
#: Restarts of the main process after which it is given up.
_RESTARTS = 4
#: Lines of the container's own output that an error shows.
_TAIL = 20


def tail(remote: Remote, prefix: tuple[str, ...], container: str) -> str:
    """The end of a container's own output, as a piece of a message; "" when there is none."""
    done = remote.run(docker.logs(prefix, container, _TAIL), check=False)
    text = "\n".join(part for part in (done.text.strip(), done.error_text.strip()) if part)
    return f"\nits last lines:\n{text}" if text else ""


def _said(done: Completed) -> str:
    lines = done.error_text.strip().splitlines() or done.text.strip().splitlines()
    return lines[0] if lines else f"status {done.rc}"


@dataclass(frozen=True)
class Create(Step):
    """Make the container, start it and wait for its agent. If that fails, nothing of it stays."""

    docker: tuple[str, ...]
    spec: ContainerSpec
    settings: Settings

    def change(self) -> Change:
        """The container, and the whole command that makes it as the diff."""
        argv = docker.create(self.docker, self.spec)
        *cards, control = self.spec.devices
        nodes = f"{len(cards)} card{'s' if len(cards) != 1 else ''} and {posixpath.basename(control[0])}"
        what = f"make container {self.spec.name} of {self.spec.image} with {nodes}"
        return Change(what, "", _lines(argv))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Create, start, wait; what was just made is removed by its own id when it is of no use.

        It holds nobody's work yet, and left behind it would stand in the way of the next try.
        """
        made = ctx.remote.run(docker.create(self.docker, self.spec), check=False, timeout=_ENGINE_TIMEOUT)
        if made.rc != 0:
            raise TaskFailed(
                f"container {self.spec.name} could not be made: {_said(made)}",
                code="container-create",
                hint="nothing was made",
            )
        identity = made.text.strip().splitlines()[-1].strip()
        started = ctx.remote.run(docker.start(self.docker, identity), check=False, timeout=_ENGINE_TIMEOUT)
        if started.rc != 0:
            raise TaskFailed(
                f"container {self.spec.name} was made but did not start: {_said(started)}",
                code="container-create",
                hint=self._take_back(ctx, identity),
            )
        try:
            about = WaitAgent(self.settings).carry_out(ctx)
        except AgentError as error:
            ctx.remote.run(docker.stop(self.docker, identity, 1), check=False, timeout=_ENGINE_TIMEOUT)
            hint = f"{error.hint} ({self._take_back(ctx, identity)})"
            raise AgentError(error.message, hint=hint, code=error.code) from error
        return {"id": identity, **about}

    def _take_back(self, ctx: Context, identity: str) -> str:
        """Remove what was just made; says whether it is gone."""
        removed = ctx.remote.run(docker.remove(self.docker, identity), check=False, timeout=_ENGINE_TIMEOUT)
        if removed.rc == 0:
            return "the container was removed again"
        return f"the container is left behind: docker rm {identity[:12]}"


def _lines(argv: tuple[str, ...]) -> str:
    """A long command as lines of one option each, for a diff."""
    text = ""
    for word in argv:
        text += ("\n  " if word.startswith("--") else " " if text else "") + word
    return text + "\n"


@dataclass(frozen=True)
class Start(Step):
    """Start a container that is there."""

    docker: tuple[str, ...]
    name: str
    id: str
    state: str

    def change(self) -> Change:
        """The container and the state it is in."""
        return Change(f"start container {self.name} ({self.state})")

    def carry_out(self, ctx: Context) -> None:
        """Start it by its id. It is kept when it doesn't: its writable layer may hold somebody's work."""
        done = ctx.remote.run(docker.start(self.docker, self.id), check=False, timeout=_ENGINE_TIMEOUT)
        if done.rc != 0:
            raise TaskFailed(
                f"container {self.name} does not start: {_said(done)}",
                code="container-start",
                hint=f"klops up {ctx.view.host} --check tells whether a card node it needs is gone",
            )


def _hopeless(host: hostview.HostView) -> bool:
    """Whether the main process has ended again and again: waiting longer shows nothing new."""
    container = host.container
    if container is None or container.state != "restarting":
        return False
    return int(container.raw.get("RestartCount") or 0) >= _RESTARTS


@dataclass(frozen=True)
class WaitAgent(Step):
    """Wait until the agent's supervisor answers; ask which interpreter runs it."""

    changes: ClassVar[bool] = False

    settings: Settings

    def change(self) -> Change:
        """What is waited for."""
        return Change("wait until the agent in the container answers")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Look every half second. Raises AgentError with the container's last lines."""
        settings = self.settings
        reads = hostreads.host(settings)
        deadline = time.monotonic() + AGENT_TIMEOUT
        while True:
            host = hostview.look(ctx.remote.read(reads), settings)
            if host.supervised:
                break
            if time.monotonic() > deadline or _hopeless(host):
                raise self._silent(ctx, host)
            ctx.progress(Progress(f"waiting for the agent: {host.agent_error or 'no supervisor yet'}"))
            time.sleep(_PAUSE)
        return self._about(ctx)

    def _silent(self, ctx: Context, host: hostview.HostView) -> AgentError:
        state = host.container.state if host.container is not None else "gone"
        prefix, wanted = hostreads.docker_prefix(self.settings), self.settings.container
        why = (
            "its main process keeps ending" if _hopeless(host) else host.agent_error or "it has no supervisor"
        )
        return AgentError(
            f"the agent does not answer, the container is {state}: {why}"
            f"{tail(ctx.remote, prefix, wanted.name)}",
            hint=f"is klops.container.python ({wanted.python}) a Python 3.8 or newer in the image?",
        )

    def _about(self, ctx: Context) -> Mapping[str, Any]:
        settings = self.settings
        about = ctx.remote.read((hostreads.agent(settings, "about", "about"),))["about"]
        known = about.json()
        if not about.ok or not isinstance(known, dict):
            said = about.error_text.strip() or about.text.strip() or f"status {about.rc}"
            raise AgentError(f"the agent does not tell about itself: {said}")
        return {"python": known.get("python"), "agent": known.get("agent")}


@dataclass(frozen=True)
class Remove(Step):
    """Stop and remove a container that klops made."""

    docker: tuple[str, ...]
    name: str
    id: str
    running: bool
    stop_timeout: int

    def change(self) -> Change:
        """The container."""
        return Change(f"{'stop and ' if self.running else ''}remove container {self.name} ({self.id[:12]})")

    def carry_out(self, ctx: Context) -> None:
        """Stop with its grace time, then remove; both by id, neither by force."""
        limit = self.stop_timeout + _ENGINE_TIMEOUT
        if self.running:
            ctx.remote.run(docker.stop(self.docker, self.id, self.stop_timeout), timeout=limit)
        ctx.remote.run(docker.remove(self.docker, self.id), timeout=_ENGINE_TIMEOUT)
