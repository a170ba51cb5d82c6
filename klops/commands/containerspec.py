"""What klops wants a container to be, its digest, and how a container differs from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: Says that klops made the container.
MANAGED_LABEL = "io.klops.managed"
#: Holds the digest of the specification it was made from.
SPEC_LABEL = "io.klops.spec"

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def size_in_bytes(text: str) -> int:
    """A size as docker reads it, in bytes: ``32g`` are 32 * 1024**3. Raises ValueError."""
    match = _SIZE.match(text.strip())
    if not match:
        raise ValueError(f"not a size: {text!r}")
    return int(float(match.group(1)) * _FACTORS[match.group(2).lower()])


def size_as_text(size: int) -> str:
    """Bytes as docker's shortest whole size: 32 * 1024**3 are ``32g``."""
    for unit in "tgmk":
        if size and size % _FACTORS[unit] == 0:
            return f"{size // _FACTORS[unit]}{unit}"
    return str(size)


@dataclass(frozen=True)
class ContainerSpec:
    """A container to be made. Always with host network, an init, and restarted whatever ended it."""

    name: str
    image: str
    #: entrypoint and arguments
    command: tuple[str, ...]
    #: (node on the host, node in the container)
    devices: tuple[tuple[str, str], ...] = ()
    #: HOST:CONTAINER[:ro]
    volumes: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    #: bytes of /dev/shm
    shm: int = 64 * 1024**2
    caps: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    #: (name, SOFT[:HARD])
    ulimits: tuple[tuple[str, str], ...] = ()
    runtime: str | None = None
    #: seconds between TERM and KILL
    stop_timeout: int = 120

    @property
    def digest(self) -> str:
        """Sixteen hex digits over everything but the name; the order of the settings doesn't matter."""
        content = asdict(self)
        del content["name"]
        for key in ("devices", "volumes", "env", "caps", "security", "ulimits"):
            content[key] = sorted(content[key])
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Labels by which klops knows its own."""
        return ((MANAGED_LABEL, "1"), (SPEC_LABEL, self.digest))


@dataclass(frozen=True)
class Drift:
    """One thing in which a container differs from what is wanted; None where a side has nothing."""

    key: str
    want: Any
    have: Any

    def as_json(self) -> dict[str, Any]:
        """The shape of the contract."""
        return {"key": self.key, "want": self.want, "have": self.have}

    def __str__(self) -> str:
        return f"{self.key}: have {_short(self.have)}, want {_short(self.want)}"


def _short(value: Any) -> str:
    if value is None or value == "":
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _bind(text: str) -> str:
    """A bind in one spelling: no trailing slash, ``rw`` left out, labels of SELinux and propagation kept."""
    host, _, rest = text.partition(":")
    container, _, options = rest.partition(":")
    kept = ",".join(sorted(option for option in options.split(",") if option and option != "rw"))
    return ":".join([host.rstrip("/") or "/", container.rstrip("/") or "/", *([kept] if kept else [])])


def _cap(text: str) -> str:
    return text.upper().removeprefix("CAP_")


def _ulimit(value: str) -> str:
    soft, _, hard = value.partition(":")
    return f"{soft}:{hard or soft}"


def _security(text: str) -> str:
    return text.replace(":", "=", 1) if "=" not in text else text


def drift(spec: ContainerSpec, inspected: Mapping[str, Any]) -> list[Drift]:
    """In what a container, as ``docker inspect`` shows it, differs from ``spec``.

    Environment of the image that the specification doesn't name is no difference, nor is the order of a list.
    """
    host = inspected.get("HostConfig") or {}
    config = inspected.get("Config") or {}
    found: list[Drift] = []

    def compare(key: str, want: Any, have: Any) -> None:
        if want != have:
            found.append(Drift(key, want, have))

    def strings(values: Sequence[Any] | None) -> list[str]:
        return [str(value) for value in values or ()]

    compare("image", spec.image, config.get("Image"))
    compare("command", list(spec.command), strings(config.get("Entrypoint")) + strings(config.get("Cmd")))
    compare(
        "devices",
        sorted(f"{node}:{inside}" for node, inside in spec.devices),
        sorted(f"{d.get('PathOnHost')}:{d.get('PathInContainer')}" for d in host.get("Devices") or ()),
    )
    compare("volumes", sorted(map(_bind, spec.volumes)), sorted(map(_bind, strings(host.get("Binds")))))
    have_env = dict(item.partition("=")[::2] for item in strings(config.get("Env")))
    for name, value in spec.env:
        compare(f"env.{name}", value, have_env.get(name))
    compare("shm", size_as_text(spec.shm), size_as_text(int(host.get("ShmSize") or 0)))
    compare("caps", sorted(map(_cap, spec.caps)), sorted(map(_cap, strings(host.get("CapAdd")))))
    compare(
        "security",
        sorted(map(_security, spec.security)),
        sorted(map(_security, strings(host.get("SecurityOpt")))),
    )
    compare(
        "ulimits",
        {name: _ulimit(value) for name, value in spec.ulimits},
        {str(u.get("Name")): f"{u.get('Soft')}:{u.get('Hard')}" for u in host.get("Ulimits") or ()},
    )
    if spec.runtime:
        compare("runtime", spec.runtime, host.get("Runtime"))
    compare("network", "host", host.get("NetworkMode"))
    compare("restart", "always", (host.get("RestartPolicy") or {}).get("Name"))
    compare("init", True, bool(host.get("Init")))
    compare("stop_timeout", spec.stop_timeout, config.get("StopTimeout"))
    return found
