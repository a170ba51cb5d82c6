"""Which pinned packages have other versions in the container. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klops.agent.packages import names

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Name, version installed ("none"), version pinned.
Drift = tuple[tuple[str, str, str], ...]


def drift(settings: Settings, installed: Mapping[str, Any]) -> Drift:
    """Those that differ, by what the agent's ``packages`` says is installed."""
    return tuple(
        (name, version(installed.get(name)) or "none", package.version)
        for name, package in settings.stack.packages.items()
        if not names.same(version(installed.get(name)), package.version)
    )


def version(one: Mapping[str, Any] | None) -> str:
    """The version of an installed package; "" for one that isn't."""
    return "" if one is None else str(one["version"])
