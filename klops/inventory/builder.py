"""What the readers of all inventory forms share: they tell it what they found, and it builds the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.addresses import parse_host
from klops.inventory.model import Graph, Layer
from klops.yamlsource import Node, ScalarNode

T = TypeVar("T")

_PRIORITY = "ansible_group_priority"


class Builder:
    """Builds the graph source by source and collects mistakes."""

    def __init__(self) -> None:
        self.graph = Graph()
        #: the inventory file that is read just now; "" for a list of hosts
        self.file = ""
        self.mistakes: list[Mistake] = []

    def collect(self, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; its mistakes are kept for the end."""
        try:
            return read()
        except SourceErrors as error:
            self.mistakes.extend(error.mistakes)
            return None

    def finish(self) -> None:
        """Complete the graph when all sources are read."""
        for host in self.graph.hosts.values():
            if host.name in self.graph.groups and host.layers:
                text = f"a host and a group are called {host.name}: the group would get the host's variables"
                hint = f"rename one of them, or move the variables to host_vars/{host.name}.yml"
                self.mistake(host.location, text, hint)
        self.graph.finish()

    def mistake(self, location: Location, message: str, hint: str = "") -> None:
        """Take one mistake down."""
        self.mistakes.append(Mistake(location, message, hint))

    def child(self, parent: str, child: str, location: Location) -> bool:
        """Put one group under another, unless that would be a circle."""
        try:
            self.graph.add_child(parent, child)
        except ValueError as error:
            self.mistake(location, str(error), "delete it here")
            return False
        return True

    def group_variables(self, name: str, layer: dict[str, Node]) -> None:
        """Variables of a group from one place in the files."""
        group = self.graph.groups[name]
        priority = layer.pop(_PRIORITY, None)
        if isinstance(priority, ScalarNode) and re.fullmatch("-?[0-9]+", priority.text):
            group.priority = int(priority.text)
        elif priority is not None:
            self.mistake(priority.location, f"{_PRIORITY} is a whole number")
        group.layers.append(layer)

    def hosts(self, group: str, pattern: str, layer: Layer, location: Location) -> None:
        """The hosts that a pattern stands for, as members of a group, with their variables."""
        try:
            names, port = parse_host(pattern)
        except ValueError as error:
            hint = "is this YAML? a file of that form is called NAME.yml" if pattern.endswith(":") else ""
            self.mistake(location, str(error), hint)
            return
        given: Layer = {} if port is None else {"ansible_port": ScalarNode(location, str(port), True, port)}
        for name in names:
            is_new = name not in self.graph.hosts
            host = self.graph.add_host(name, group, location, self.file)
            if port and is_new:
                host.layers.append(given)
            elif port and not self._has_port(host.layers, port):
                # Ansible drops it without a word
                text = f"the port of {name} counts only where the host is first named: {host.location}"
                self.mistake(location, text, f"write ansible_port={port}")
            if layer:
                host.layers.append(layer)

    @staticmethod
    def _has_port(layers: Sequence[Layer], port: int) -> bool:
        given = [layer["ansible_port"] for layer in layers if "ansible_port" in layer]
        return any(isinstance(node, ScalarNode) and node.text == str(port) for node in given)

    def variable_name(self, name: str, location: Location) -> bool:
        """Whether a variable can have that name; a mistake when not."""
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            return True
        self.mistake(location, f"{name!r} is no variable's name", "use letters, digits and _")
        return False
