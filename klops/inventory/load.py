"""From files and directories to hosts and groups, in Ansible's YAML form."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from klops.errors import Location, Mistake, SourceErrors, UsageError
from klops.inventory.fleet import Inventory
from klops.inventory.model import Graph
from klops.inventory.ranges import expand
from klops.inventory.varfiles import VariableFiles
from klops.yamlsource import MappingNode, Node, ScalarNode, load_file, nearest

T = TypeVar("T")

VARIABLE = "KLOPS_INVENTORY"
DEFAULT = "inventory"
_SECTIONS = ("hosts", "vars", "children")
#: what Ansible, too, passes over in a directory
_IGNORED = (".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry")
_YAML = ("", ".yml", ".yaml", ".json")
_PORT = re.compile(r"(?P<name>[^:\[\]]*(?:\[[^\]]*\][^:\[\]]*)*):(?P<port>[0-9]+)")


def default_sources(cli: Sequence[str]) -> list[str]:
    """Where the inventory is: ``-i``, else ``$KLOPS_INVENTORY`` (a comma list), else ``./inventory``."""
    if cli:
        return list(cli)
    if listed := [source for source in os.environ.get(VARIABLE, "").split(",") if source]:
        return listed
    if not Path(DEFAULT).exists():
        raise UsageError(
            "there is no inventory",
            hint=f"give -i FILE, set {VARIABLE}, or make a file or directory ./{DEFAULT}",
        )
    return [DEFAULT]


def load(sources: Sequence[str]) -> Inventory:
    """Read inventory files and directories, the later ones stronger.

    Raises :class:`SourceErrors` with the mistakes of all files; settings are checked by
    :meth:`Inventory.check`.
    """
    builder = _Builder()
    for source in sources:
        for path in builder.collect(partial(_files, Path(source))) or ():
            builder.file(path)
    builder.graph.finish()
    variables = VariableFiles([Path(source) for source in sources])
    # group_vars and host_vars are read now, so that their mistakes are told together with the others
    for name in builder.graph.groups:
        builder.collect(partial(variables.of_group, name))
    for name in builder.graph.hosts:
        builder.collect(partial(variables.of_host, name))
    if builder.mistakes:
        raise SourceErrors(builder.mistakes)
    return Inventory(builder.graph, variables)


def _files(source: Path) -> list[Path]:
    """The inventory files of a source: of a directory in alphabetical order, without its variables."""
    if not source.exists():
        raise SourceErrors([Mistake(Location(str(source)), "there is no such inventory", "check the path")])
    if not source.is_dir():
        return [source]
    found: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda path: path.name):
        hidden = entry.name.startswith(".") or entry.name.endswith(_IGNORED)
        if not hidden and entry.name not in ("group_vars", "host_vars"):
            found.extend(_files(entry))
    return found


class _Builder:
    """Builds the graph file by file and collects mistakes."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.mistakes: list[Mistake] = []

    def collect(self, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; its mistakes are kept for the end."""
        try:
            return read()
        except SourceErrors as error:
            self.mistakes.extend(error.mistakes)
            return None

    def file(self, path: Path) -> None:
        """Read one inventory file."""
        if path.suffix not in _YAML:
            self._mistake(
                Location(str(path)), "not a YAML file", "inventories are read as .yml, .yaml or .json"
            )
            return
        node = self.collect(partial(load_file, path))
        if isinstance(node, MappingNode):
            for name, data in node.entries:
                if name.text == "plugin":
                    self._mistake(name.location, "inventory plugins are not supported", "list the hosts")
                else:
                    self._group(name, data)
        elif node is not None:
            self._mistake(
                node.location, "an inventory is a mapping of groups", "begin with all:, then hosts:"
            )

    def _group(self, name: ScalarNode, data: Node) -> None:
        group = self.graph.add_group(name.text, name.location)
        for key, section in self._mapping(data, f"the group {name.text}"):
            if key.text == "vars":
                self._vars(group.name, section)
            elif key.text == "children":
                for child, below in self._mapping(section, "children"):
                    self._child(group.name, child, below)
            elif key.text == "hosts":
                for pattern, values in self._mapping(section, "hosts"):
                    self._hosts(group.name, pattern, values)
            else:
                near = nearest(key.text, _SECTIONS)
                hint = f"did you mean {near}?" if near else "expected hosts, vars or children"
                self._mistake(key.location, f"unknown key {key.text} in the group {name.text}", hint)

    def _child(self, parent: str, child: ScalarNode, below: Node) -> None:
        self.graph.add_group(child.text, child.location)
        try:
            self.graph.add_child(parent, child.text)
        except ValueError as error:
            self._mistake(child.location, str(error), "delete it here")
        else:
            self._group(child, below)

    def _vars(self, name: str, section: Node) -> None:
        layer = dict(self._variables(section, "vars"))
        priority = layer.pop("ansible_group_priority", None)
        if isinstance(priority, ScalarNode) and re.fullmatch("-?[0-9]+", priority.text):
            self.graph.groups[name].priority = int(priority.text)
        elif priority is not None:
            self._mistake(priority.location, "ansible_group_priority is a whole number")
        self.graph.groups[name].layers.append(layer)

    def _hosts(self, group: str, pattern: ScalarNode, values: Node) -> None:
        layer = dict(self._variables(values, f"the host {pattern.text}"))
        text = pattern.text
        if found := _PORT.fullmatch(text):
            text = found["name"]
            layer = {
                "ansible_port": ScalarNode(pattern.location, found["port"], True, int(found["port"])),
                **layer,
            }
        try:
            names = expand(text)
        except ValueError as error:
            self._mistake(pattern.location, str(error))
            return
        if "" in names or any(character in text for character in " \t,;!&*?~"):
            self._mistake(pattern.location, f"{pattern.text!r} is no host's name")
            return
        for name in names:
            self.graph.add_host(name, group, pattern.location).layers.append(layer)

    def _variables(self, section: Node, what: str) -> Iterator[tuple[str, Node]]:
        for key, value in self._mapping(section, what):
            if not re.fullmatch(r"[A-Za-z_]\w*", key.text):
                self._mistake(
                    key.location, f"{key.text!r} is no variable's name", "use letters, digits and _"
                )
            yield key.text, value

    def _mapping(self, node: Node, what: str) -> Sequence[tuple[ScalarNode, Node]]:
        """Entries of a mapping; none of null; a single name stands for itself, as in Ansible."""
        if isinstance(node, MappingNode):
            return node.entries
        if isinstance(node, ScalarNode) and node.plain and node.value is None:
            return ()
        if isinstance(node, ScalarNode) and what in ("hosts", "children"):
            return ((node, ScalarNode(node.location, "", True, None)),)
        hint = "write each name as a key: NAME:" if what in ("hosts", "children") else ""
        self._mistake(node.location, f"expected a mapping for {what}", hint)
        return ()

    def _mistake(self, location: Location, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(location, message, hint))
