"""A container as ``docker inspect`` shows it, in the one spelling in which it can be compared. Pure.

Engines and their clients have written the same thing differently over the years: null, [] or nothing at all
for what isn't set, ``seccomp:unconfined``, capabilities as they were typed, with and without prefix. Devices
and volumes are in :mod:`klops.commands.inspectedpaths`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from klops.commands.containerspec import size_as_text, size_in_bytes

#: Registry and namespace that docker assumes where a name has none.
_DEFAULT_REGISTRY = ("docker.io/", "index.docker.io/")
_DEFAULT_NAMESPACE = "library/"
#: What a container has when nobody asked for a runtime, in the words of two generations of engines.
PLAIN_RUNTIMES = ("", "runc", "io.containerd.runc.v2")
_SHM = "/dev/shm"  # noqa: S108 - the folder itself is meant


def host_config(inspected: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the container is run."""
    return inspected.get("HostConfig") or {}


def config(inspected: Mapping[str, Any]) -> Mapping[str, Any]:
    """What runs in it."""
    return inspected.get("Config") or {}


def strings(value: Any) -> list[str]:
    """A list that may be missing, null, or one bare string."""
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value or ()]


def environment(inspected: Mapping[str, Any]) -> dict[str, str | None]:
    """Environment by name. None where ``-e NAME`` without a value took away what the image sets."""
    given = config(inspected).get("Env") or ()
    if isinstance(given, Mapping):
        return {str(name): None if value is None else str(value) for name, value in given.items()}
    found: dict[str, str | None] = {}
    for item in map(str, given):
        name, equals, value = item.partition("=")
        found[name] = value if equals else None
    return found


def shm(inspected: Mapping[str, Any]) -> str:
    """Size of /dev/shm, ``32g``, or whose it is."""
    mode = str(host_config(inspected).get("IpcMode") or "")
    if mode == "host" or mode.startswith("container:"):
        return f"that of {'the host' if mode == 'host' else mode}"
    size = shm_bytes(inspected)
    return "a tmpfs without a size" if size is None else size_as_text(size)


def shm_bytes(inspected: Mapping[str, Any]) -> int | None:
    """Size of the container's own /dev/shm in bytes; None when it has none, or no size was said."""
    host = host_config(inspected)
    mode = str(host.get("IpcMode") or "")
    if mode == "host" or mode.startswith("container:"):
        return None
    sizes: dict[str, Any] = {_SHM: host.get("ShmSize") or 0}
    for path, options in (host.get("Tmpfs") or {}).items():
        named = dict(option.partition("=")[::2] for option in str(options).split(","))
        sizes[posixpath.normpath(path)] = named.get("size")
    for mount in host.get("Mounts") or ():
        if mount.get("Type") == "tmpfs":
            path = posixpath.normpath(str(mount.get("Target")))
            sizes[path] = (mount.get("TmpfsOptions") or {}).get("SizeBytes")
    try:
        return size_in_bytes(str(sizes[_SHM]))
    except ValueError:
        return None


def capability(text: str) -> str:
    """``cap_sys_ptrace`` as ``SYS_PTRACE``."""
    return text.upper().removeprefix("CAP_")


def capabilities(inspected: Mapping[str, Any]) -> set[str]:
    """Added capabilities, and dropped ones with a minus."""
    host = host_config(inspected)
    dropped = {f"-{capability(text)}" for text in strings(host.get("CapDrop"))}
    return dropped | set(map(capability, strings(host.get("CapAdd"))))


def security_option(text: str) -> str:
    """``seccomp:unconfined`` as ``seccomp=unconfined``; "" for what is so anyway."""
    if text.startswith(("seccomp={", "seccomp:{")):
        return "seccomp=(a profile of its own)"  # the client sends the whole file
    if "=" not in text:
        text = text.replace(":", "=", 1)
    if text == "no-new-privileges=true":
        return "no-new-privileges"
    return "" if text == "no-new-privileges=false" else text


def security(inspected: Mapping[str, Any]) -> set[str]:
    """Security options, and ``privileged``."""
    host = host_config(inspected)
    found = set(map(security_option, strings(host.get("SecurityOpt")))) - {""}
    privileged = bool(host.get("Privileged"))
    if privileged or "host" in (host.get("IpcMode"), host.get("PidMode")):
        found.discard("label=disable")  # the engine's own addition to these
    return found | ({"privileged"} if privileged else set())


def ulimit(value: str) -> str:
    """``SOFT`` and ``SOFT:HARD`` as ``SOFT:HARD``."""
    soft, _, hard = value.replace("unlimited", "-1").partition(":")
    return f"{soft}:{hard or soft}"


def ulimits(inspected: Mapping[str, Any]) -> dict[str, str]:
    """``SOFT:HARD`` by name."""
    given: Sequence[Mapping[str, Any]] = host_config(inspected).get("Ulimits") or ()
    return {str(item.get("Name")): f"{item.get('Soft')}:{item.get('Hard')}" for item in given}


def image_name(name: str) -> str:
    """An image's name without what docker assumes anyway.

    >>> image_name("docker.io/library/vllm:latest")
    'vllm'
    """
    for registry in _DEFAULT_REGISTRY:
        name = name.removeprefix(registry)
    return name.removeprefix(_DEFAULT_NAMESPACE).removesuffix(":latest")
