"""In what a container differs from what is wanted. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.commands.containerspec import ContainerSpec, size_as_text


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
