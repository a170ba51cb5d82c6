"""Hosts and groups as they stand in the files, and what follows from their relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from klops.errors import Location
from klops.yamlsource import Node

#: Variables of one place in the files, as nodes by name.
Layer = Mapping[str, Node]


@dataclass
class Host:
    """A host: where it is first named, the groups that list it, and its variables, the stronger ones last."""

    name: str
    location: Location
    groups: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    #: the inventory file in which it is first named; "" for a host that no file names
    file: str = ""


@dataclass
class Group:
    """A group: its own hosts and child groups in the order of the files; variables, the strongest last."""

    name: str
    location: Location
    hosts: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    #: ansible_group_priority: at equal depth the higher one wins
    priority: int = 1
    layers: list[Layer] = field(default_factory=list)


class Graph:
    """All hosts and groups. ``all`` and ``ungrouped`` are always there.

    It is built by the ``add_`` methods; what follows from relations is asked for after :meth:`finish`, and
    worked out once.
    """

    def __init__(self) -> None:
        nowhere = Location("")
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, Group] = {name: Group(name, nowhere) for name in ("all", "ungrouped")}
        self._finished = False
        self._depths: dict[str, int] = {}
        self._members: dict[str, list[str]] = {}
        self._chains: dict[tuple[str, ...], list[str]] = {}
        self.add_child("all", "ungrouped")

    def add_group(self, name: str, location: Location) -> Group:
        """The group of that name, made when it is new."""
        return self.groups.setdefault(name, Group(name, location))

    def add_host(self, name: str, group: str, location: Location, file: str = "") -> Host:
        """The host of that name, made when it is new, as a member of ``group``."""
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host(name, location, file=file)
        if group not in host.groups:
            host.groups.append(group)
            self.groups[group].hosts.append(name)
        return host

    def add_child(self, parent: str, child: str) -> None:
        """Put a group under another. Raises ``ValueError`` when that would be a circle."""
        if child == "all":
            raise ValueError("the group all stands above all others")
        if child == parent or child in self.ancestors(parent):
            raise ValueError(f"the group {child} cannot stand under itself")
        if child not in self.groups[parent].children:
            self.groups[parent].children.append(child)
            self.groups[child].parents.append(parent)

    def finish(self) -> None:
        """Put every group under ``all``, and hosts without a group into ``ungrouped``."""
        for group in self.groups.values():
            if group.name != "all" and not group.parents:
                self.add_child("all", group.name)
        ungrouped = self.groups["ungrouped"]
        leaving: set[str] = set()
        for host in self.hosts.values():
            if set(host.groups) - {"all", "ungrouped"}:
                if "ungrouped" in host.groups:
                    host.groups.remove("ungrouped")
                    leaving.add(host.name)
            elif "ungrouped" not in host.groups:
                host.groups.append("ungrouped")
                ungrouped.hosts.append(host.name)
        ungrouped.hosts = [name for name in ungrouped.hosts if name not in leaving]
        self._finished = True

    def ancestors(self, name: str) -> set[str]:
        """All groups above a group."""
        found: set[str] = set()
        waiting = list(self.groups[name].parents)
        while waiting:
            group = waiting.pop()
            if group not in found:
                found.add(group)
                waiting.extend(self.groups[group].parents)
        return found

    def depth(self, name: str) -> int:
        """The longest way down to a group; 0 for ``all``."""
        if not self._depths:
            self._depths = self._all_depths()
        return self._depths[name]

    def _all_depths(self) -> dict[str, int]:
        """Depths of all groups, each looked at when all groups above it are done."""
        depths = {"all": 0}
        open_parents = {name: len(group.parents) for name, group in self.groups.items()}
        waiting = ["all"]
        while waiting:
            name = waiting.pop()
            for child in self.groups[name].children:
                depths[child] = max(depths.get(child, 0), depths[name] + 1)
                open_parents[child] -= 1
                if not open_parents[child]:
                    waiting.append(child)
        return depths

    def members(self, name: str) -> list[str]:
        """All hosts of a group and of the groups below it, each once, in the order of the files."""
        found = self._members.get(name)
        if found is None:
            found = self._walk(name)
            if self._finished:
                self._members[name] = found
        return list(found)

    def _walk(self, name: str) -> list[str]:
        found: dict[str, None] = {}
        seen: set[str] = set()
        level = [name]
        while level:
            below: list[str] = []
            for group in level:
                if group not in seen:
                    seen.add(group)
                    found.update(dict.fromkeys(self.groups[group].hosts))
                    below.extend(self.groups[group].children)
            level = below
        return list(found)

    def groups_of(self, host: str) -> list[str]:
        """All groups of a host with ``all``, the weakest first: by depth, then priority, then name.

        A host that isn't in the inventory (the implicit localhost) has ``all`` alone.
        """
        own = tuple(self.hosts[host].groups) if host in self.hosts else ()
        if own not in self._chains:
            names = {"all"}
            for group in own:
                names |= {group} | self.ancestors(group)
            self._chains[own] = sorted(
                names, key=lambda name: (self.depth(name), self.groups[name].priority, name)
            )
        return self._chains[own]
