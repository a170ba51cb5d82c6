"""Whether a unit runs on the code that is in place now: the current release, and the packages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from klops.actions.own.source.looking import TREE
from klops.actions.own.source.recipe import image_of, wanted_name

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings
    from klops.source.tree import Tree

#: States in which nothing of a unit lives, so that a start takes what is there by then.
_AT_REST = ("stopped", "failed", "backoff")


def current_release(host: HostView) -> str | None:
    """The release that a start takes now; None when there is none, and when nobody can tell."""
    release = (host.agent or {}).get("release")
    name = release.get("current") if isinstance(release, Mapping) else None
    return str(name) if name else None


def to_be(settings: Settings, host: HostView, local: Mapping[str, object]) -> str | None:
    """The release that ``klops.source`` would have made the current one; None where it wasn't looked at."""
    if TREE not in local:
        return None
    return wanted_name(settings, cast("Tree", local[TREE]).release.name, image_of(host))


def other_code(
    host: HostView, unit: Mapping[str, Any], spec: Mapping[str, Any], foreseen: str | None = None
) -> str:
    """In a few words how what a unit runs on differs from what it would be started on; "" when it doesn't.

    ``foreseen``: the release that would be the current one by then.
    """
    if unit.get("state") in _AT_REST or host.agent is None:
        return ""
    current, had = foreseen or current_release(host), unit.get("release")
    if spec.get("source") is not None and current is not None and had != current:
        return f"release {had or 'none'} -> {current}"
    if unit.get("packages", "") != host.agent.get("packages", ""):
        return "packages changed"
    return ""
