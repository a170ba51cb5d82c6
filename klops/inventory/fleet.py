"""The inventory as the rest of klops sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from klops.errors import Location, Mistake, SourceErrors, UsageError
from klops.inventory import patterns
from klops.inventory.connection import Connection
from klops.inventory.model import Graph, Group, Host
from klops.inventory.varfiles import VariableFiles
from klops.inventory.variables import SETTINGS, Level, Source, as_layer, history, merged
from klops.yamlsource import mistakes_of, nearest, to_python

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Where values come from that the caller gives without places of their own.
PLAY = "playbook"
EXTRA = "-e"
NONE: Mapping[str, Any] = {}


class Inventory:
    """Hosts, groups and their variables.

    ``play`` and ``extra`` are variables of the playbook and of ``-e``: by name nodes (their mistakes are then
    located) or plain values.
    """

    def __init__(self, graph: Graph, files: VariableFiles) -> None:
        self._graph = graph
        self._files = files

    @property
    def hosts(self) -> dict[str, Host]:
        """Hosts by name, in the order of the files."""
        return self._graph.hosts

    @property
    def groups(self) -> dict[str, Group]:
        """Groups by name; ``all`` and ``ungrouped`` are always there."""
        return self._graph.groups

    def members(self, group: str) -> list[str]:
        """All hosts of a group and of the groups below it."""
        return self._graph.members(group)

    def group_names(self, host: str) -> list[str]:
        """All groups of a host but ``all``, by name."""
        return sorted(set(self._graph.groups_of(host)) - {"all"})

    def select(self, wanted: Sequence[str], limit: str | None = None) -> list[str]:
        """Hosts that Ansible patterns stand for (:mod:`klops.inventory.patterns`).

        Raises :class:`UsageError` for a name nobody has, an empty pattern and an empty outcome.
        """
        return patterns.select(self._graph, wanted, limit)

    def plain_variables(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> dict[str, Any]:
        """Merged variables of a host, without the magic ones."""
        nodes = merged(self._sources(host, play, extra))
        return {name: to_python(node) for name, node in nodes.items()}

    def variables(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> dict[str, Any]:
        """Merged variables of a host, with ``inventory_hostname``, ``groups`` and ``group_names``."""
        found = self.plain_variables(host, play=play, extra=extra)
        found["inventory_hostname"] = host
        found["inventory_hostname_short"] = host.split(".")[0]
        found["groups"] = {name: self._graph.members(name) for name in self._graph.groups}
        found["group_names"] = self.group_names(host)
        return found

    def settings(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> Settings:
        """Typed settings of a host. Raises :class:`SourceErrors` with all mistakes in them."""
        from klops.inventory.validate import build_settings

        return build_settings(merged(self._sources(host, play, extra)).get(SETTINGS))

    def connection(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> Connection:
        """How to reach a host. Raises :class:`SourceErrors` with all mistakes in its connection variables."""
        from klops.inventory.connection import build_connection

        return build_connection(host, merged(self._sources(host, play, extra)))

    def explain(
        self, host: str, key: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> list[tuple[Level, Location, Any]]:
        """Every value given for a variable or a dotted key (``klops.container.image``), the winner first.

        Empty when nobody gives one. A host that isn't there raises :class:`UsageError`.
        """
        path = key.split(".")
        found: list[tuple[Level, Location, Any]] = [
            (level, node.location, to_python(node))
            for level, node in history(self._sources(host, play, extra), path)
        ]
        if path[0] == SETTINGS:
            from klops.inventory.validate import default_of

            found.extend(("default", Location("shipped defaults"), value) for value in default_of(path[1:]))
        return found

    def nearest_key(self, host: str, key: str) -> str:
        """The variable or dotted setting most like ``key`` that :meth:`explain` knows, or ""."""
        first, *rest = key.split(".")
        if first == SETTINGS and rest:
            from klops.inventory.validate import known_below

            near = nearest(rest[-1], known_below(rest[:-1]))
            return ".".join([first, *rest[:-1], near]) if near else ""
        return nearest(first, [SETTINGS, *merged(self._sources(host, NONE, NONE))])

    def check(
        self,
        hosts: Sequence[str] | None = None,
        *,
        play: Mapping[str, Any] = NONE,
        extra: Mapping[str, Any] = NONE,
    ) -> None:
        """Check settings and connection variables of ``hosts`` (None: of all).

        Raises one :class:`SourceErrors` with every mistake of every host, each place once.
        """
        mistakes: dict[Mistake, None] = {}
        for host in self.hosts if hosts is None else hosts:
            for build in (self.settings, self.connection):
                mistakes.update(dict.fromkeys(mistakes_of(partial(build, host, play=play, extra=extra))))
        if mistakes:
            raise SourceErrors(list(mistakes))

    def near_misses(self, *, extra: Mapping[str, Any] = NONE) -> list[Mistake]:
        """What is accepted and may still be meant otherwise, of all hosts, each place once."""
        from klops.inventory.nearmisses import near_misses

        found: dict[Mistake, None] = {}
        for host in self.hosts:
            found.update(dict.fromkeys(near_misses(merged(self._sources(host, NONE, extra)))))
        return list(found)

    def _sources(self, host: str, play: Mapping[str, Any], extra: Mapping[str, Any]) -> list[Source]:
        """Where variables of a host come from, the weakest first.

        As in Ansible: variables of groups in inventory files, then group_vars/all, then the other group_vars,
        then the host's own in inventory files, then host_vars.
        """
        if host not in self.hosts:
            near = nearest(host, self.hosts)
            raise UsageError(f"no host is called {host}", hint=f"did you mean {near}?" if near else "")
        groups = self._graph.groups_of(host)
        found = [Source("group", layer) for name in groups for layer in self.groups[name].layers]
        for names in (["all"], groups[1:]):
            # by directory first, then by group: a stronger inventory wins over a nearer group
            by_group = [self._files.of_group(name) for name in names]
            for of_directory in zip(*by_group, strict=True):
                found.extend(Source("group", layer) for layers in of_directory for layer in layers)
        found.extend(Source("host", layer) for layer in self.hosts[host].layers)
        found.extend(Source("host", layer) for layers in self._files.of_host(host) for layer in layers)
        found.append(Source("playbook", as_layer(play, PLAY)))
        found.append(Source("extra", as_layer(extra, EXTRA)))
        return found
