"""What klops wants a container to be, and the digest of that."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

#: Says that klops made the container.
MANAGED_LABEL = "io.klops.managed"
#: Holds the digest of the specification it was made from.
SPEC_LABEL = "io.klops.spec"
#: Holds a digest of each of its lists.
LISTS_LABEL = "io.klops.lists"
#: Names the run that made it. It is no part of what is wanted of a container.
RUN_LABEL = "io.klops.run"

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
        return _digest(content, 16)

    @property
    def lists(self) -> dict[str, str]:
        """A digest of what was asked for, by key of what an engine adds to; of names, where values have such.

        Where it is still the same, whatever a container has more than that was never asked for by klops.
        """
        asked = {
            "devices": self.devices,
            "volumes": self.volumes,
            "env": [name for name, _ in self.env],
            "caps": self.caps,
            "security": self.security,
            "ulimits": [name for name, _ in self.ulimits],
            "runtime": [self.runtime or ""],
        }
        return {key: _digest(sorted(value), 8) for key, value in sorted(asked.items())}

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Labels by which klops knows its own."""
        lists = ",".join(map(":".join, self.lists.items()))
        return ((MANAGED_LABEL, "1"), (SPEC_LABEL, self.digest), (LISTS_LABEL, lists))


def _digest(content: Any, digits: int) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
