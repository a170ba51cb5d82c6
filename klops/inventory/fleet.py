"""The inventory as the rest of klops sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klops.errors import Location, Mistake, SourceErrors, UsageError
from klops.inventory import implicit, patterns
from klops.inventory.connection import NONE_ASKED, Connection
from klops.inventory.model import Graph, Group, Host
from klops.inventory.rendering import Renderer, rendered
from klops.inventory.varfiles import VariableFiles
from klops.inventory.variables import SETTINGS, Level, Source, as_layer, history, merged
from klops.yamlsource import mistakes_of, nearest, to_python

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.inventory.validate import Checks
    from klops.secret import Secret

#: Where values come from that the caller gives without places of their own.
PLAY = "playbook"
EXTRA = "-e"
NONE: Mapping[str, Any] = {}


class Inventory:
    """Hosts, groups and their variables.

    ``play`` and ``extra`` are variables of the playbook and of ``-e``: by name nodes (their mistakes are then
    located) or plain values. ``asked`` are passwords that somebody was asked for, by the name of the variable
    of the environment that they stand for.
    """

    def __init__(
        self,
        graph: Graph,
        files: VariableFiles,
        play_files: VariableFiles | None = None,
        asked: Mapping[str, Secret] = NONE_ASKED,
    ) -> None:
        self._graph = graph
        self._files = files
        self._play_files = play_files or VariableFiles(())
        self._asked = asked
        self._by_group: dict[str, list[str]] = {}

    def beside(self, folder: Path) -> Inventory:
        """The same inventory with group_vars and host_vars of a playbook's folder.

        As in Ansible they are stronger than those beside the inventory, kind by kind: group_vars/all, then
        other group_vars, then host_vars. Raises :class:`SourceErrors` with all mistakes in them.
        """
        files = VariableFiles([folder])
        if mistakes := files.mistakes(self.groups, (*self.hosts, *implicit.NAMES)):
            raise SourceErrors(mistakes)
        return Inventory(self._graph, self._files, files, self._asked)

    def knowing(self, asked: Mapping[str, Secret]) -> Inventory:
        """The same inventory with passwords that somebody was asked for."""
        return Inventory(self._graph, self._files, self._play_files, asked)

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
        """All groups of a host but ``all``, by name; none of a localhost that isn't in the inventory."""
        return sorted(set(self._graph.groups_of(host)) - {"all"})

    def select(self, wanted: Sequence[str], limit: str | None = None) -> list[str]:
        """Hosts that Ansible patterns stand for (:mod:`klops.inventory.patterns`).

        Raises :class:`UsageError` for a name nobody has, an empty pattern and an empty outcome.
        """
        return patterns.select(self._graph, wanted, limit)

    def limited(self, limit: str) -> list[str]:
        """Hosts that a ``--limit`` stands for: patterns, and ``@FILE`` with a pattern in each line.

        Raises :class:`UsageError` as :meth:`select`.
        """
        return patterns.limited(self._graph, limit)

    def plain_variables(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> dict[str, Any]:
        """Merged variables of a host, without the magic ones."""
        nodes = merged(self._sources(host, play, extra))
        return {name: to_python(node) for name, node in nodes.items()}

    def variables(
        self, host: str, *, play: Mapping[str, Any] = NONE, extra: Mapping[str, Any] = NONE
    ) -> dict[str, Any]:
        """Merged variables of a host, with the magic ones that an inventory knows.

        These are ``inventory_hostname``, ``inventory_hostname_short``, ``inventory_file``, ``inventory_dir``,
        ``groups`` (one object for all hosts) and ``group_names``.
        """
        found = self.plain_variables(host, play=play, extra=extra)
        if not self._by_group:
            self._by_group = {name: self._graph.members(name) for name in self._graph.groups}
        file = self.hosts[host].file if host in self.hosts else ""
        found["inventory_hostname"] = host
        found["inventory_hostname_short"] = host if _is_address(host) else host.split(".")[0]
        found["inventory_file"] = str(Path(file).absolute()) if file else None
        found["inventory_dir"] = str(Path(file).absolute().parent) if file else None
        found["groups"] = self._by_group
        found["group_names"] = self.group_names(host)
        return found

    def group_variables(self, name: str) -> dict[str, Any]:
        """Variables that a group gives by itself: in inventory files and in group_vars beside them."""
        layers = [
            *self.groups[name].layers,
            *(layer for found in self._files.of_group(name) for layer in found),
        ]
        nodes = merged([Source("group", layer) for layer in layers])
        found = {key: to_python(node) for key, node in nodes.items()}
        if (priority := self.groups[name].priority) != 1:
            found["ansible_group_priority"] = priority
        return found

    def settings(
        self,
        host: str,
        *,
        play: Mapping[str, Any] = NONE,
        extra: Mapping[str, Any] = NONE,
        render: Renderer | None = None,
    ) -> Settings:
        """Typed settings of a host. Raises :class:`SourceErrors` with all mistakes in them.

        Templates in them are rendered by ``render``; without one they are mistakes.
        """
        return self._checked(host, play=play, extra=extra, render=render)

    def _checked(
        self,
        host: str,
        *,
        play: Mapping[str, Any],
        extra: Mapping[str, Any],
        render: Renderer | None,
        more: Checks | None = None,
    ) -> Settings:
        from klops.inventory.validate import build_settings

        tree = merged(self._sources(host, play, extra)).get(SETTINGS)
        return build_settings(rendered(tree, render) if tree and render else tree, more)

    def connection(
        self,
        host: str,
        *,
        play: Mapping[str, Any] = NONE,
        extra: Mapping[str, Any] = NONE,
        render: Renderer | None = None,
    ) -> Connection:
        """How to reach a host. Raises :class:`SourceErrors` with all mistakes in its connection variables.

        Templates in them are rendered by ``render``; without one they are mistakes.
        """
        from klops.inventory.connection import build_connection

        return build_connection(host, merged(self._sources(host, play, extra)), render, self._asked)

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
        render: Callable[[str], Renderer] | None = None,
        more: Checks | None = None,
    ) -> None:
        """Check settings and connection variables of ``hosts`` (None: of all); ``render`` by host's name.

        ``more`` finds problems that settings alone don't show. Raises one :class:`SourceErrors` with every
        mistake of every host, each place once.
        """
        mistakes: dict[Mistake, None] = {}
        for host in self.hosts if hosts is None else hosts:
            own = render(host) if render else None
            for build in (partial(self._checked, more=more), self.connection):
                look = partial(build, host, play=play, extra=extra, render=own)
                mistakes.update(dict.fromkeys(mistakes_of(look)))
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

        As in Ansible: variables of groups in inventory files; group_vars/all beside the inventory, then
        beside the playbook; the other group_vars in the same order; the host's own in inventory files, then
        host_vars in the same order.
        """
        if host not in self.hosts and host not in implicit.NAMES:
            near = nearest(host, self.hosts)
            raise UsageError(f"no host is called {host}", hint=f"did you mean {near}?" if near else "")
        groups = self._graph.groups_of(host)
        found = [Source("group", layer) for name in groups for layer in self.groups[name].layers]
        for names in (["all"], groups[1:]):
            for files in (self._files, self._play_files):
                # by folder first, then by group: a stronger inventory wins over a nearer group
                by_group = [files.of_group(name) for name in names]
                for of_folder in zip(*by_group, strict=True):
                    found.extend(Source("group", layer) for layers in of_folder for layer in layers)
        own = self.hosts[host].layers if host in self.hosts else [implicit.LAYER]
        found.extend(Source("host", layer) for layer in own)
        for files in (self._files, self._play_files):
            found.extend(Source("host", layer) for layers in files.of_host(host) for layer in layers)
        if play:
            found.append(Source("playbook", as_layer(play, PLAY)))
        if extra:
            found.append(Source("extra", as_layer(extra, EXTRA)))
        return found


def _is_address(name: str) -> bool:
    """Whether a name is an IPv4 or IPv6 address; its parts are no domain."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
