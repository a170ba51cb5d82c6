"""Completion of host and service names. Cheap, and silent whatever goes wrong: it runs at each TAB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from klops.inventory import Inventory


def _inventory(ctx: typer.Context) -> Inventory:
    from klops.inventory import default_sources, load

    return load(default_sources(ctx.params.get("inventory") or ()))


def complete_hosts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of hosts and groups that start as typed; the part after the last ``:`` or ``,`` counts."""
    cut = max(incomplete.rfind(":"), incomplete.rfind(","))
    head, tail = incomplete[: cut + 1], incomplete[cut + 1 :]
    mark = tail[:1] if tail[:1] in ("!", "&") else ""
    try:
        inventory = _inventory(ctx)
        names = sorted({*inventory.hosts, *inventory.groups, "all"})
    except Exception:
        # an inventory with a mistake is reported by the command itself; the shell's line must stay clean
        return []
    return [head + mark + name for name in names if name.startswith(tail[len(mark) :])]


def complete_services(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of services of the hosts named so far on the line, or of all hosts."""
    try:
        inventory = _inventory(ctx)
        typed = ctx.params.get("hosts") or ctx.params.get("host") or "all"
        hosts = inventory.select([typed] if isinstance(typed, str) else list(typed))
        names = {name for host in hosts for name in inventory.settings(host).services}
    except Exception:
        # as above
        return []
    return sorted(name for name in names if name.startswith(incomplete))
