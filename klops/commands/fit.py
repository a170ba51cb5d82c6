"""Whether a container that klops didn't make can hold its services, and what is weaker there. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from klops.commands import inspected as have
from klops.commands import inspectedpaths as paths
from klops.commands.containerspec import size_as_text
from klops.commands.mounts import Mount, host_path

#: States in which nothing can be run in a container, nor is one start away from it; and the way out.
_HOPELESS = {
    "paused": "is paused (docker unpause leads out of it)",
    "restarting": "keeps restarting (docker logs tells why)",
    "dead": "is dead",
    "removing": "is being removed",
}
_ROOT_USERS = ("", "0", "root")
#: Folder of the nodes, on the host and in a container.
_DEV = "/dev"


def unfit(
    inspected: Mapping[str, Any], nodes: Sequence[str], links: Mapping[str, str], root: str
) -> list[str]:
    """Why klops can't run services in a container, each the end of a sentence after "it"; [] when it can.

    ``nodes``: every card node and the control node that the settings want, as paths on the host; ``links``:
    real path of paths on the host; ``root``: ``klops.root``.

    Only the host's network will do: with published ports it is docker's own proxy that listens on the host,
    and whose service that is can't be told.
    """
    host = have.host_config(inspected)
    state = str((inspected.get("State") or {}).get("Status") or "")
    reasons = [_HOPELESS[state]] if state in _HOPELESS else []
    reasons += _without_cards(inspected, nodes, links)
    network = str(host.get("NetworkMode") or "default")
    if network != "host":
        reasons.append(f"is not on the host's network (--network {network})")
    pids = str(host.get("PidMode") or "")
    if pids not in ("", "private"):
        reasons.append(f"shares its process numbers (--pid {pids}), so whose a process is can't be told")
    user = str(have.config(inspected).get("User") or "")
    if user.partition(":")[0] not in _ROOT_USERS:
        reasons.append(f"runs as user {user}, not as root")
    return reasons + _without_root(inspected, root)


def _without_cards(inspected: Mapping[str, Any], nodes: Sequence[str], links: Mapping[str, str]) -> list[str]:
    usable = inside_nodes(inspected, nodes, links)
    reasons: dict[str, list[str]] = {}
    for node in nodes:
        if node in usable:
            continue
        real = paths.real(node, links)
        if any(device.of(real) for device in paths.devices(inspected, links)):
            reasons.setdefault("may not read and write (see its --device)", []).append(node)
        elif any(_mounted(real, volume) for volume in paths.volumes(inspected)):
            reasons.setdefault("sees only by a mount, which lets nobody open", []).append(node)
        else:
            reasons.setdefault("has no", []).append(node)
    return [f"{reason} {', '.join(found)}" for reason, found in reasons.items()]


def _without_root(inspected: Mapping[str, Any], root: str) -> list[str]:
    """Why nothing of klops' can be kept in it below ``root``."""
    covering = {
        posixpath.normpath(str(mount.get("Destination"))): mount
        for mount in inspected.get("Mounts") or ()
        if paths.below(root, posixpath.normpath(str(mount.get("Destination")))) is not None
    }
    memory = [path for path in have.host_config(inspected).get("Tmpfs") or {} if paths.below(root, path)]
    deepest = max([*covering, *memory], key=len, default="")
    if deepest in memory or covering.get(deepest, {}).get("Type") == "tmpfs":
        return [f"has {root} in a tmpfs, where nothing lasts"]
    if deepest and not covering[deepest].get("RW", True):
        return [f"has {root} mounted read-only"]
    if not deepest and have.host_config(inspected).get("ReadonlyRootfs"):
        return [f"has a read-only root file system, and nothing writable is mounted at {root}"]
    return []


def weaker(inspected: Mapping[str, Any], root: str, shm: int = 0) -> list[str]:
    """What is weaker in a container that klops didn't make. ``shm``: bytes of /dev/shm that are wanted."""
    host, security = have.host_config(inspected), have.security(inspected)
    found = []
    if host.get("AutoRemove"):
        found.append("docker removes it, with all that was written in it, as soon as it stops (--rm)")
    elif policy := _restarts(str((host.get("RestartPolicy") or {}).get("Name") or "no")):
        found.append(policy)
    found.append(
        "docker stop and docker restart end its services without TERM, for their supervisor is not its main "
        f"process: klops up, or sh {root}/pass from cron, starts it again"
    )
    if not host.get("Init"):
        found.append("it has no init: processes that nobody waits for may stay as zombies")
    if not shares_root(inspected, root):
        found.append(f"units, logs and the agent lie in the container itself, at {root}, and go with it")
    privileged = "privileged" in security
    if privileged:
        found.append("it is privileged: cards that the settings leave out are in it, too")
    if not privileged and "seccomp=unconfined" not in security:
        found.append("without seccomp=unconfined, system calls of debuggers and of the card runtime may fail")
    if not privileged and not {"SYS_PTRACE", "ALL"} & have.capabilities(inspected):
        found.append("without SYS_PTRACE, debuggers and the card runtime's peer mappings may fail")
    size = have.shm_bytes(inspected)
    if size is not None and size < shm:
        found.append(f"its /dev/shm has {size_as_text(size)}, not {size_as_text(shm)}")
    return found


def _restarts(policy: str) -> str:
    """What a restart policy lacks."""
    if policy == "always":
        return ""
    if policy == "unless-stopped":
        return "it stays stopped when the docker engine has crashed (restart policy unless-stopped)"
    if policy == "on-failure":
        return "docker starts it again only when its main process failed (restart policy on-failure)"
    return f"docker doesn't start it again after a reboot (restart policy {policy})"


def inside_nodes(
    inspected: Mapping[str, Any], nodes: Sequence[str], links: Mapping[str, str]
) -> dict[str, str]:
    """Path inside the container of each of ``nodes`` that may be opened there; the others are left out.

    A container may name a node otherwise than the host does. Where it has one under several names, the one in
    /dev counts. A mount of a node, or of all of /dev, shows it; that it can be opened takes --privileged or a
    rule for its number as well.
    """
    host = have.host_config(inspected)
    privileged = bool(host.get("Privileged"))
    devices = paths.devices(inspected, links)
    mounts = paths.volumes(inspected) if privileged or host.get("DeviceCgroupRules") else []
    found = {}
    for node in nodes:
        real = paths.real(node, links)
        places = [
            device.inside
            for item in devices
            if (device := item.of(real)) and (device.access == "rw" or privileged)
        ]
        places += [path for volume in mounts if (path := _mounted(real, volume))]
        if privileged and paths.below(real, _DEV):
            places.append(real)
        if places:
            found[node] = min(places, key=lambda path: (posixpath.dirname(path) != _DEV, path))
    return found


def _mounted(node: str, volume: paths.Volume) -> str | None:
    """Where a volume shows a node of the host; None where it doesn't."""
    rest = paths.below(node, volume.source)
    return None if rest is None else posixpath.normpath(posixpath.join(volume.inside, rest))


def shares_root(inspected: Mapping[str, Any], root: str) -> bool:
    """Whether the container sees the host's folder ``root`` under that very path."""
    mounts = {volume.inside: Mount(volume.source, volume.inside) for volume in paths.volumes(inspected)}
    for mount in inspected.get("Mounts") or ():
        inside = posixpath.normpath(str(mount.get("Destination")))
        mounts.setdefault(inside, Mount(str(mount.get("Source") or ""), inside))
    for inside in have.host_config(inspected).get("Tmpfs") or {}:
        mounts.setdefault(posixpath.normpath(inside), Mount("", posixpath.normpath(inside)))
    return host_path(root, list(mounts.values())) == posixpath.normpath(root)
