"""Devices and volumes of a container as ``docker inspect`` shows it, in one spelling. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from klops.commands.inspected import host_config, strings

#: Options of a bind that say what is set anyway, or only how files on the host are labelled.
_PLAIN = frozenset(("rw", "z", "Z", "rprivate", "private", "nocopy", "cached", "delegated", "consistent"))


def real(path: str, links: Mapping[str, str]) -> str:
    """Where a path of the host leads to, as far as ``links`` knows; no doubled or trailing slashes."""
    plain = posixpath.normpath(path)
    return links.get(plain, plain)


def below(path: str, folder: str) -> str | None:
    """``path`` as seen from ``folder``: "." for the folder itself, None when it isn't in it."""
    if path == folder:
        return "."
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


@dataclass(frozen=True)
class Device:
    """A device that a container was given. ``node``: real path on the host, a node or a folder of such.

    ``access``: r and w as the engine lets it be opened; making nodes (m) is of no use to anybody here.
    """

    node: str
    inside: str
    access: str = "rw"

    def __str__(self) -> str:
        return f"{self.node}:{self.inside}" + ("" if self.access == "rw" else f":{self.access}")

    def of(self, node: str) -> Device | None:
        """The device that ``node`` becomes by this one: itself, or one out of a folder."""
        rest = below(node, self.node)
        if rest is None:
            return None
        return Device(node, posixpath.normpath(posixpath.join(self.inside, rest)), self.access)


def devices(inspected: Mapping[str, Any], links: Mapping[str, str]) -> list[Device]:
    """Devices given by path."""
    found = []
    for item in host_config(inspected).get("Devices") or ():
        node = str(item.get("PathOnHost") or "")
        inside = posixpath.normpath(str(item.get("PathInContainer") or node))
        access = str(item.get("CgroupPermissions") or "rwm")
        found.append(Device(real(node, links), inside, "".join(c for c in "rw" if c in access)))
    return found


def other_devices(inspected: Mapping[str, Any]) -> list[str]:
    """Devices given in any other way, as text: rules of the device cgroup, requests to a driver."""
    host = host_config(inspected)
    found = [f"rule {rule}" for rule in strings(host.get("DeviceCgroupRules"))]
    for request in host.get("DeviceRequests") or ():
        names = ",".join(strings(request.get("DeviceIDs"))) or f"count {request.get('Count')}"
        found.append(f"request {request.get('Driver') or 'any driver'}: {names}")
    return found


@dataclass(frozen=True)
class Volume:
    """A folder or file of the host, or a named volume, under a path of the container."""

    source: str
    inside: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.source, self.inside, *([",".join(self.options)] if self.options else [])])

    @property
    def writable(self) -> bool:
        """Whether the container may write there."""
        return "ro" not in self.options


def volume(source: str, inside: str, options: Iterable[str] = (), kind: str = "bind") -> Volume:
    """A volume without doubled slashes and without options that say nothing."""
    source = posixpath.normpath(source) if source.startswith("/") else source
    kept = tuple(sorted({option for option in options if option and option not in _PLAIN}))
    return Volume(
        source if kind in ("bind", "volume") else f"{kind} {source}", posixpath.normpath(inside), kept
    )


def parse_volume(text: str) -> Volume:
    """``HOST:CONTAINER[:OPTIONS]``."""
    source, _, rest = text.partition(":")
    inside, _, options = rest.partition(":")
    return volume(source, inside, options.split(","))


def volumes(inspected: Mapping[str, Any]) -> list[Volume]:
    """What was mounted by --volume, by --mount and from other containers; not what the image itself wants."""
    host = host_config(inspected)
    found = {item.inside: item for item in map(parse_volume, strings(host.get("Binds")))}
    for mount in host.get("Mounts") or ():
        kind = str(mount.get("Type") or "bind")
        options = ["ro"] if mount.get("ReadOnly") else []
        options.append(str((mount.get("BindOptions") or {}).get("Propagation") or ""))
        if kind != "tmpfs" and (mount.get("Source") or kind != "volume"):
            item = volume(str(mount.get("Source") or ""), str(mount.get("Target")), options, kind)
            found.setdefault(item.inside, item)
    for mount in inspected.get("Mounts") or ():
        if mount.get("Type") == "bind":
            options = [str(mount.get("Propagation") or ""), "rw" if mount.get("RW", True) else "ro"]
            item = volume(str(mount.get("Source") or ""), str(mount.get("Destination")), options)
            found.setdefault(item.inside, item)
    return list(found.values())
