"""Preflight: engine, image, ports and space. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from klops.actions.own import hostreads
from klops.actions.own.findings import Finding
from klops.actions.own.hostview import HostView, reply
from klops.actions.own.image import arrival
from klops.commands import docker, listing, pidmap, sockets
from klops.commands.mounts import ancestors, parse_df
from klops.remote.base import Replies
from klops.remote.reads import CommandRead, FileRead, ListRead, Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

_OPEN_STATES = ("starting", "ready", "unhealthy", "backoff")


def docker_findings(settings: Settings, replies: Replies) -> list[Finding]:
    """Whether the engine has the runtime that is asked for."""
    text = reply(replies, "docker.info").text
    try:
        info: dict[str, Any] = json.loads(text[max(text.find("{"), 0) :])
    except ValueError:
        return []
    wanted, runtimes = settings.container.runtime, info.get("Runtimes")
    if wanted and isinstance(runtimes, dict) and wanted not in runtimes:
        return [
            Finding(
                "runtime-missing",
                f"the docker engine has no runtime {wanted}; it has {', '.join(sorted(runtimes))}",
                "install the container toolkit on the host, or leave klops.container.runtime out",
            )
        ]
    return []


def image_reads(settings: Settings) -> list[Read]:
    """The engine's account of itself, and whether it has the image or can get it."""
    prefix = hostreads.docker_prefix(settings)
    return [CommandRead("docker.info", docker.info(prefix)), *arrival.reads(settings)]


def image_findings(settings: Settings, host: HostView, replies: Replies) -> list[Finding]:
    """An image is needed while there is no container, and when the one that is there goes."""
    there = host.container is not None
    recreate = arrival.may_replace(settings, host, None)
    coming = arrival.coming(settings, replies, there=there, recreate=recreate)
    if coming.why is None:
        return []
    if not there:
        return [Finding(coming.why.code, coming.why.message, coming.why.hint)]
    if settings.container.image is None:
        return []
    text = f"{coming.why.message}, so the container could not be made again if it were removed"
    return [Finding(coming.why.code, text, coming.why.hint, warning=True)]


def secret_findings(settings: Settings) -> list[Finding]:
    """Secrets of services that can't be had on this machine, or can't be keys."""
    missing = settings.missing_secrets(settings.services)
    return [Finding(error.code, error.message, error.hint) for error in missing]


def port_reads() -> list[Read]:
    """Listening sockets: ss names processes, /proc/net is there on every Linux."""
    return [
        CommandRead("ss", ("ss", "-H", "-ltnp")),
        FileRead("tcp", "/proc/net/tcp"),
        FileRead("tcp6", "/proc/net/tcp6"),
    ]


def port_findings(settings: Settings, host: HostView, replies: Replies) -> list[Finding]:
    """Ports that a stranger listens on. Ours are those of a process in the container that klops made.

    When the container or its agent can't be asked, whose a listener is may not be known: such a port is only
    worth a warning, and nobody is told to stop what may be the service itself.
    """
    shown = reply(replies, "ss")
    listeners = sockets.parse_ss(shown.text) if shown.ok else []
    if not shown.ok:
        listeners = sockets.parse_proc(reply(replies, "tcp").text) + sockets.parse_proc(
            reply(replies, "tcp6").text
        )
    inside = set(pidmap.parse(reply(replies, hostreads.PIDS).text).values())
    found: list[Finding] = []
    for name, service in settings.services.items():
        strangers = [
            listener
            for listener in listeners
            if listener.port == service.port and not _ours(listener, host, inside)
        ]
        listed = "; ".join(dict.fromkeys(map(str, strangers)))
        if strangers and not any(_surely_foreign(listener, host, inside) for listener in strangers):
            found.append(
                Finding(
                    "port-taken",
                    f"on port {service.port} of {name} listens {listed}; whether that is this very service "
                    "can't be told, because its container or the agent in it can't be asked",
                    warning=True,
                )
            )
        elif strangers:
            found.append(
                Finding(
                    "port-taken",
                    f"port {service.port} of {name} is taken by {listed}",
                    f"stop what listens there, or set another klops.services.{name}.port",
                )
            )
    return found


def _surely_foreign(listener: sockets.Listener, host: HostView, inside: set[int]) -> bool:
    """Of a listener that isn't known to be ours: whether it is known to be somebody else's."""
    if host.trouble() is not None:
        return False
    if listener.pid is not None and inside:
        return listener.pid not in inside
    if host.at_rest:
        return True
    if host.agent is None:
        return False
    # a unit with damaged files may live on while nobody knows its port any more
    lost = [unit for unit in host.units.values() if unit.get("lineage") and unit.get("port") is None]
    return not lost


def _ours(listener: sockets.Listener, host: HostView, inside: set[int]) -> bool:
    if host.ours and listener.pid in inside:
        # also when the agent can't tell: what is wrong with it or with its files, the next tasks put right
        return True
    units = [unit for unit in host.units.values() if unit.get("port") == listener.port]
    if any(unit.get("state") == "ready" for unit in units):
        return True  # its agent asked for the expected model with the key, and got it
    if not any(unit.get("state") in _OPEN_STATES for unit in units):
        return False
    # a unit that is starting may wait for a port that a stranger holds: the pid tells, where it can be seen
    return listener.pid is None or not inside or listener.pid in inside


def space_reads(settings: Settings) -> list[Read]:
    """Free space and the right to write where klops' files go, which may not exist yet: so all above it."""
    paths = ancestors(settings.root)
    return [
        CommandRead("df.root", ("df", "-Pk", "--", *paths)),
        ListRead("root.above", paths, follow=True),
        *(CommandRead(f"writable:{path}", ("test", "-w", path)) for path in paths),
    ]


def space_findings(
    settings: Settings, host: HostView, replies: Replies, *, root: float, docker: float
) -> list[Finding]:
    """Too little space (limits in GiB), or no right to write below ``klops.root``."""
    found: list[Finding] = []
    entries = listing.parse(reply(replies, "root.above").text)
    nearest = next((path for path in ancestors(settings.root) if path in entries), None)
    if nearest is not None and entries[nearest].type != "directory":
        found.append(
            Finding(
                "root-not-writable",
                f"{nearest} is a {entries[nearest].type}, so {settings.root} can't be made",
                "set klops.root to a folder",
            )
        )
    elif nearest is not None and not reply(replies, f"writable:{nearest}").ok:
        found.append(
            Finding(
                "root-not-writable",
                f"{nearest} may not be written by this user, so klops can't use {settings.root}",
                "set klops.root to a folder of this user on a large disk, or ansible_become: true",
            )
        )
    space = parse_df(reply(replies, "df.root").text)
    if space is not None and space.gib < root:
        found.append(
            Finding(
                "disk-full",
                f"{space.gib:.1f} GiB are free on {space.mount}, where {settings.root} is; "
                f"{root:g} GiB are needed",
                "make room there, or set klops.root to another disk",
            )
        )
    space = parse_df(reply(replies, arrival.DISK).text)
    if space is not None and space.gib < docker:
        found.append(
            Finding(
                "disk-full",
                f"{space.gib:.1f} GiB are free on {space.mount}, where docker keeps its data; "
                f"{docker:g} GiB are needed",
                "docker system df shows what can go",
                # a container that is there needs no more room to go on
                warning=host.container is not None,
            )
        )
    return found
