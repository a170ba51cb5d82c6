"""Steps of ``klops.container``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, hostview
from klops.actions.own.container.engine import LIMIT, Engine, not_started, said
from klops.commands import docker
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote

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
        done = Engine(ctx, self.docker).ask(docker.start(self.docker, self.id), self.id)
        if done.rc != 0:
            raise not_started(f"container {self.name} does not start", said(done), code="container-start")


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
        engine = Engine(ctx, self.docker)
        what = f"container {self.name} could not be"
        if self.running:
            stop = docker.stop(self.docker, self.id, self.stop_timeout)
            engine.must(stop, self.id, f"{what} stopped", self.stop_timeout + LIMIT)
        engine.must(docker.remove(self.docker, self.id), self.id, f"{what} removed")
