"""The inventory for people and programs: what ``ansible-inventory`` prints for the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klops.errors import UsageError
from klops.inventory.fleet import NONE, Inventory
from klops.inventory.masking import masked
from klops.yamlsource import nearest

#: Names that Ansible keeps for itself: what an inventory gives under them is not listed.
_KEPT = frozenset(
    (
        *("inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short"),
        *("group_names", "groups", "hostvars", "play_hosts", "playbook_dir"),
        *("role_name", "role_names", "role_path", "role_uuid"),
        *(
            f"ansible_{name}"
            for name in (
                *("async_path", "collection_name", "config_file", "dependent_role_names", "diff_mode"),
                *("facts", "forks", "inventory_sources", "limit", "play_batch", "play_hosts"),
                *("play_hosts_all", "play_role_names", "playbook_python", "role_name", "role_names"),
                *("run_tags", "skip_tags", "verbosity", "version"),
            )
        ),
    )
)
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
        host: values
        for host in inventory.members("all")
        if (values := host_variables(inventory, host, extra=extra))
    }
    document["_meta"] = {"hostvars": hostvars, "profile": PROFILE}
    return document


def host_variables(inventory: Inventory, host: str, *, extra: Mapping[str, Any] = NONE) -> dict[str, Any]:
    """Variables of a host as ``ansible-inventory --host`` prints them, with secrets masked."""
    return _shown(inventory.plain_variables(host, extra=extra))


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked(value, (str(name),)) for name, value in values.items() if name not in _KEPT}


def as_lines(inventory: Inventory) -> Iterator[str]:
    """One line a host: its name and its groups."""
    from rich.cells import cell_len

    width = max(map(cell_len, inventory.hosts), default=0)
    for host in inventory.members("all"):
        yield f"{host}{' ' * (width - cell_len(host))}  {', '.join(inventory.group_names(host))}"


def as_graph(inventory: Inventory, group: str = "all", *, variables: bool = False) -> Iterator[str]:
    """The lines of ``ansible-inventory --graph``, with ``variables`` those of ``--graph --vars``.

    Raises :class:`UsageError` for a group that isn't there.
    """
    if group not in inventory.groups:
        near = nearest(group, inventory.groups)
        raise UsageError(f"no group is called {group}", hint=f"did you mean {near}?" if near else "")
    yield from _branch(inventory, group, 0, variables)


def _branch(inventory: Inventory, name: str, depth: int, variables: bool) -> Iterator[str]:
    group = inventory.groups[name]
    yield _line(f"@{name}:", depth)
    for child in group.children:
        yield from _branch(inventory, child, depth + 1, variables)
    for host in group.hosts if name != "all" else ():
        yield _line(host, depth + 1)
        if variables:
            yield from _assignments(host_variables(inventory, host), depth + 2)
    if variables:
        yield from _assignments(_shown(inventory.group_variables(name)), depth + 1)


def _assignments(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, value in sorted(values.items()):
        yield _line(f"{{{name} = {value}}}", depth)


def _line(text: str, depth: int) -> str:
    return "  |" * depth + "--" * bool(depth) + text
