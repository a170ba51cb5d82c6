"""The inventory for people and programs: what ``ansible-inventory`` prints for the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klops.errors import UsageError
from klops.inventory.fleet import NONE, Inventory
from klops.inventory.masking import masked
from klops.yamlsource import nearest

#: ansible-core since 2.19 names its JSON dialect; programs that read the list may look for it
PROFILE = "inventory_legacy"


def as_list(inventory: Inventory, *, extra: Mapping[str, Any] = NONE) -> dict[str, Any]:
    """The document of ``ansible-inventory --list``: groups, and ``_meta.hostvars`` with secrets masked."""
    document: dict[str, Any] = {}
    for name, group in inventory.groups.items():
        entry: dict[str, Any] = {}
        if group.hosts and name != "all":
            entry["hosts"] = list(group.hosts)
        if group.children:
            entry["children"] = list(group.children)
        if entry:
            document[name] = entry
    hostvars = {
        host: masked(values)
        for host in inventory.members("all")
        if (values := inventory.plain_variables(host, extra=extra))
    }
    document["_meta"] = {"hostvars": hostvars, "profile": PROFILE}
    return document


def as_lines(inventory: Inventory) -> Iterator[str]:
    """One line a host: its name and its groups."""
    width = max(map(len, inventory.hosts), default=0)
    for host in inventory.members("all"):
        yield f"{host:<{width}}  {', '.join(inventory.group_names(host))}"


def as_graph(inventory: Inventory, group: str = "all") -> Iterator[str]:
    """The lines of ``ansible-inventory --graph``. Raises :class:`UsageError` for a group that isn't there."""
    if group not in inventory.groups:
        near = nearest(group, inventory.groups)
        raise UsageError(f"no group is called {group}", hint=f"did you mean {near}?" if near else "")
    yield from _branch(inventory, group, 0)


def _branch(inventory: Inventory, name: str, depth: int) -> Iterator[str]:
    group = inventory.groups[name]
    yield _line(f"@{name}:", depth)
    for child in group.children:
        yield from _branch(inventory, child, depth + 1)
    if name != "all":
        yield from (_line(host, depth + 1) for host in group.hosts)


def _line(text: str, depth: int) -> str:
    return "  |" * depth + "--" * bool(depth) + text
