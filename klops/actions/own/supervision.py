"""The agent's supervisor in the container: started beside its main process, waited for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, hostview
from klops.commands import docker
from klops.commands.agent import hold
from klops.commands.hostpass.passscript import LONGEST
from klops.errors import AgentError, KlopsError, TaskFailed
from klops.remote.container import ContainerRemote

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote

#: Seconds until the agent's supervisor must answer after a start.
AGENT_TIMEOUT = 30.0
#: Seconds between two looks.
_PAUSE = 0.5
#: Restarts of the main process after which it is given up.
_RESTARTS = 4
#: Lines of a log that an error shows.
_TAIL = 20


def _said(remote: Remote, prefix: tuple[str, ...], container: str) -> str:
    """The end of a container's own output, as a piece of a message; "" when there is none."""
    done = remote.run(docker.logs(prefix, container, _TAIL), check=False)
    text = "\n".join(part for part in (done.text.strip(), done.error_text.strip()) if part)
    return f"\nits last lines:\n{text}" if text else ""


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
        """Look every half second. Raises AgentError with the container's last lines, and at once
        :class:`TaskFailed` when the container isn't there any more.
        """
        settings = self.settings
        reads = hostreads.host(settings)
        deadline = time.monotonic() + AGENT_TIMEOUT
        while True:
            host = hostview.look(ctx.remote.read(reads), settings)
            if host.supervised:
                break
            gone = self._gone(host)
            if gone is not None:
                raise gone
            if time.monotonic() > deadline or _hopeless(host):
                raise self._silent(ctx, host)
            ctx.progress(Progress(f"waiting for the agent: {host.agent_error or 'no supervisor yet'}"))
            time.sleep(_PAUSE)
        return self._about(ctx)

    def _gone(self, host: hostview.HostView) -> KlopsError | None:
        """Why waiting is of no use: somebody has removed or renamed it. An engine may come back."""
        if host.container is not None or host.unseen() is not None:
            return None
        return host.renamed_error() or TaskFailed(
            f"there is no container {self.settings.container.name} any more: somebody has removed or renamed "
            "it while its agent was waited for",
            code="container-absent",
            hint="docker ps -a shows what is there",
        )

    def _silent(self, ctx: Context, host: hostview.HostView) -> AgentError:
        state = host.container.state if host.container is not None else "gone"
        prefix, wanted = hostreads.docker_prefix(self.settings), self.settings.container
        # what the main process of a container that klops didn't make has written is nobody's business
        lines = _said(ctx.remote, prefix, wanted.name) if host.made else ""
        why = (
            "its main process keeps ending" if _hopeless(host) else host.agent_error or "it has no supervisor"
        )
        return AgentError(
            f"the agent does not answer, the container is {state}: {why}{lines}",
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


def launcher_log(root: str) -> str:
    """What the launcher and the supervisor of an adopted container say."""
    return f"{root}/log/launcher.log"


def supervise(ctx: Context, settings: Settings) -> Mapping[str, Any]:
    """Start the supervisor beside the main process, and wait until it answers. Returns what it is.

    One that is at work already stays: of two the second leaves. Raises AgentError with what it said, and
    CommandFailed when it can't be started at all.
    """
    prefix, wanted = hostreads.docker_prefix(settings), settings.container
    inside = ContainerRemote(ctx.remote, prefix, wanted.name)
    log = launcher_log(settings.root)
    inside.launch(hold(wanted.python, settings.root, beside=True), log=log, longest=LONGEST)
    try:
        return WaitAgent(settings).carry_out(ctx)
    except AgentError as error:
        raise AgentError(error.message + _tail(inside, log), hint=error.hint, code=error.code) from error


def _tail(inside: Remote, log: str) -> str:
    """The end of a log of the container as a piece of a message; "" when there is none."""
    said = inside.run(["tail", "-n", str(_TAIL), log], check=False).text.strip()
    return f"\nlast lines of {log}:\n{said}" if said else ""


@dataclass(frozen=True)
class Supervise(Step):
    """Start the agent's supervisor beside the container's main process."""

    settings: Settings

    def change(self) -> Change:
        """What is started where."""
        return Change(f"start the agent's supervisor in container {self.settings.container.name}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Start it and wait for it."""
        return supervise(ctx, self.settings)
