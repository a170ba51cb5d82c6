"""Inventories in Ansible's YAML form: groups with ``hosts``, ``vars`` and ``children``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klops.inventory.builder import Builder
from klops.yamlsource import MappingNode, Node, ScalarNode, nearest

_SECTIONS = ("hosts", "vars", "children")


class YamlReader:
    """Tells a builder what stands in one YAML document."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def read(self, node: Node | None) -> None:
        """Read one document."""
        if isinstance(node, MappingNode):
            for name, data in node.entries:
                if name.text == "plugin":
                    hint = "list the hosts, or write a program that prints them"
                    self._builder.mistake(name.location, "inventory plugins are not supported", hint)
                    return
                self._group(name, data)
        elif node is not None:
            self._builder.mistake(
                node.location, "an inventory is a mapping of groups", "begin with all:, then hosts:"
            )

    def _group(self, name: ScalarNode, data: Node) -> None:
        if not name.text:
            self._builder.mistake(name.location, "a group needs a name")
            return
        group = self._builder.graph.add_group(name.text, name.location)
        for key, section in self._mapping(data, f"the group {name.text}"):
            if key.text == "vars":
                self._builder.group_variables(group.name, dict(self._variables(section, "vars")))
            elif key.text == "children":
                for child, below in self._mapping(section, "children"):
                    self._child(group.name, child, below)
            elif key.text == "hosts":
                for pattern, values in self._mapping(section, "hosts"):
                    layer = dict(self._variables(values, f"the host {pattern.text}"))
                    self._builder.hosts(group.name, pattern.text, layer, pattern.location)
            else:
                near = nearest(key.text, _SECTIONS)
                hint = f"did you mean {near}?" if near else "expected hosts, vars or children"
                text = f"unknown key {key.text} in the group {name.text}"
                self._builder.mistake(key.location, text, hint)

    def _child(self, parent: str, child: ScalarNode, below: Node) -> None:
        self._builder.graph.add_group(child.text, child.location)
        if self._builder.child(parent, child.text, child.location):
            self._group(child, below)

    def _variables(self, section: Node, what: str) -> Iterator[tuple[str, Node]]:
        for key, value in self._mapping(section, what):
            self._builder.variable_name(key.text, key.location)
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
        self._builder.mistake(node.location, f"expected a mapping for {what}", hint)
        return ()
