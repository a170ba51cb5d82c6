"""The pass by a timer of systemd: only where it is asked for by name, as a daemon-reload can take devices."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Step
from klops.actions.own import hostreads, hostview
from klops.actions.own.cron.look import Look, timer_path
from klops.actions.own.hostview import reply
from klops.actions.steps import Remove, WriteFile
from klops.actions.system.systemd import ReadAgain, Systemctl
from klops.commands import daemonreload, docker, inspectedpaths, listing, schedule
from klops.commands.systemd import unit
from klops.errors import TaskFailed
from klops.remote.reads import CommandRead, FileRead, Read
from klops.remote.systemreads import UnitRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Replies

_SERVICE, _TIMER, _STATE, _INFO, _LINKS = (
    "timer.service",
    "timer.timer",
    "timer.state",
    "timer.info",
    "timer.dev",
)
#: Seconds until the nodes must have been opened: the agent takes an open for stuck after 10. And between two
#: questions.
_PATIENCE, _PAUSE = 15.0, 0.5
#: Status of a read where there is no systemctl.
_NO_PROGRAM = 127


def _service(root: str) -> str:
    return posixpath.join(schedule.UNITS, schedule.unit_name(root) + ".service")


def status_reads(settings: Settings) -> tuple[Read, ...]:
    """What :func:`shown` needs beside a look."""
    path = timer_path(settings.root)
    return FileRead(_TIMER, path), UnitRead(_STATE, posixpath.basename(path))


def shown(look: Look, settings: Settings, replies: Replies) -> dict[str, Any]:
    """The object of ``klops cron status``. Raises :class:`KlopsError` where it can't be told."""
    document = look.as_json()
    if document["installed"] is None and look.crontab_error is not None:
        raise look.crontab_error
    if document["scheduler"] != "systemd":
        return document
    # of a timer that klops didn't write so nobody reads when it runs
    wanted = schedule.timer_unit(look.root, settings.cleanup.schedule).encode()
    when = settings.cleanup.schedule if reply(replies, _TIMER).stdout == wanted else ""
    running = unit(reply(replies, _STATE).text).running
    return {**look.as_json(when=when), "schedule": when or None, "daemon": running}


def reads(settings: Settings) -> tuple[Read, ...]:
    """The files, what systemd says of the timer, and what a reload depends on."""
    return (
        FileRead(_SERVICE, _service(settings.root)),
        *status_reads(settings),
        hostreads.engine(settings),
        hostreads.container(settings),
        CommandRead(_INFO, docker.info(hostreads.docker_prefix(settings))),
        hostreads.nodes(settings),
        CommandRead(_LINKS, ("ls", "-1", "/dev/char")),
    )


def steps(look: Look, settings: Settings, replies: Replies) -> tuple[Step, ...]:
    """Write both files and have the timer started; nothing where they are as wanted.

    Raises :class:`TaskFailed` where systemd isn't there, or its reload may take card nodes from containers.
    """
    root = settings.root
    state = reply(replies, _STATE)
    if state.rc == _NO_PROGRAM or not state.ok:
        said = state.error_text.strip() or "there is no systemctl"
        hint = "set klops.cleanup.scheduler: cron"
        raise TaskFailed(f"the host isn't run by systemd: {said}", hint=hint, code="no-systemd")
    wanted = {
        _service(root): schedule.service_unit(root, settings.container.name),
        timer_path(root): schedule.timer_unit(root, settings.cleanup.schedule),
    }
    have = {_service(root): reply(replies, _SERVICE), timer_path(root): reply(replies, _TIMER)}
    files = [
        WriteFile(file, text.encode(), schedule.MODE, have[file].text, text, (0, 0), report=False)
        for file, text in wanted.items()
        if not have[file].ok or have[file].stdout != text.encode()
    ]
    there, name = unit(state.text), posixpath.basename(timer_path(root))
    if not files and there.enabled and there.running:
        return ()
    risk = daemonreload.risk(
        reply(replies, hostreads.VERSION).text,
        reply(replies, _INFO).text,
        listing.parse(reply(replies, hostreads.NODES).text),
        reply(replies, _LINKS).text.split(),
        none_expected=_no_devices(replies, settings.container.name),
    )
    if risk:
        raise TaskFailed(
            f"a timer needs systemctl daemon-reload, which here may take the cards from containers: {risk}",
            hint="set klops.cleanup.scheduler: cron; or update runc to 1.1.7 or newer",
            code="reload-risk",
        )
    reload = ReadAgain(("daemon-reload",))
    # enable would have systemd read its files a second time
    begin = (Systemctl(("enable", name), options=("--no-reload",)), Systemctl(("restart", name)))
    return (*files, reload, *begin, ReopenCards(settings))


def _no_devices(replies: Replies, name: str) -> bool:
    """Whether the container surely has no device."""
    asked = reply(replies, hostreads.CONTAINER)
    if not asked.ok:
        return docker.no_such_container(asked.error_text)
    found = docker.parse_inspect(asked.text, name)
    return found is None or not (
        inspectedpaths.devices(found.raw, {}) or inspectedpaths.other_devices(found.raw)
    )


def removal(units: Sequence[str]) -> tuple[Step, ...]:
    """Stop the timers and remove the files, without a reload: what is stopped needs none."""
    timers = [posixpath.basename(one) for one in units if one.endswith(".timer")]
    stops = [Systemctl(("disable", name), options=("--no-reload", "--now")) for name in timers]
    return (*stops, *(Remove(one, "file") for one in units))


@dataclass(frozen=True)
class ReopenCards(Step):
    """Have every card node in the container opened again, as a reload may have taken them.

    Not those of cards that are kept out of service.
    """

    changes: ClassVar[bool] = False

    settings: Settings

    def change(self) -> Change:
        """The container."""
        return Change(f"see that container {self.settings.container.name} still has its cards")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Ask the agent. Raises :class:`TaskFailed`, also where it can't be told."""
        name = self.settings.container.name
        began = time.monotonic()
        while True:
            # what was tested before the reload counts for nothing
            host = self._look(ctx, time.monotonic() - began)
            if host.container is None or host.at_rest or not host.ours:
                return None
            if host.agent is None:
                raise host.silent_agent()
            if host.agent.get("access") is not None:
                break
            if time.monotonic() - began > _PATIENCE:
                raise TaskFailed(
                    f"whether container {name} still has its cards after systemctl daemon-reload"
                    " can't be told: its supervisor has not opened them",
                    hint=f"open a node in the container, or docker restart {name} and klops status",
                    code="device-access-unknown",
                )
            time.sleep(_PAUSE)
        lost = (*host.lost_access, *host.lost_spares)
        if lost:
            listed = "; ".join(f"{node}: {error}" for node, error in lost)
            raise TaskFailed(
                f"after systemctl daemon-reload container {name} can't open: {listed}",
                hint=f"docker restart {name} gives them back; klops.cleanup.scheduler: cron",
                code="device-access-lost",
            )
        return None

    def _look(self, ctx: Context, age: float) -> hostview.HostView:
        """The host, with the nodes opened within the last ``age`` seconds."""
        settings = self.settings
        status = hostreads.status(settings, "--access-age", f"{age:.3f}")
        others = (read for read in hostreads.host(settings) if read.key != hostreads.STATUS)
        wanted = (*others, status, hostreads.device_links(settings), *hostreads.cards(settings))
        return hostview.look(ctx.remote.read(wanted), settings)
