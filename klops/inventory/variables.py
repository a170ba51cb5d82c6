"""Five levels of variables become one: shipped defaults < group < host < playbook < extra (``-e``).

A variable of a stronger level replaces a weaker one whole, dictionaries too, as in Ansible. Only ``klops`` is
merged key by key; in it lists, and values with several written forms, replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from klops.errors import Location
from klops.inventory.model import Layer
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode

Level = Literal["default", "group", "host", "playbook", "extra"]
#: the variable under which all of klops' settings live
SETTINGS = "klops"


@dataclass(frozen=True)
class Source:
    """Variables of one level and one place."""

    level: Level
    values: Layer


def as_layer(values: Mapping[str, Any], place: str) -> Layer:
    """A mapping of nodes or plain values as nodes; plain values get ``place`` as their location."""
    return {str(name): from_python(value, Location(place)) for name, value in values.items()}


def from_python(value: Any, location: Location) -> Node:
    """A plain Python value as a node; a node stays what it is."""
    if isinstance(value, Node):
        return value
    if isinstance(value, Mapping):
        entries = ((ScalarNode(location, str(key), False, key), item) for key, item in value.items())
        return MappingNode(location, tuple((key, from_python(item, location)) for key, item in entries))
    if isinstance(value, list | tuple):
        return SequenceNode(location, tuple(from_python(item, location) for item in value))
    if value is None:
        return ScalarNode(location, "", True, None)
    if isinstance(value, bool):
        return ScalarNode(location, "true" if value else "false", True, value)
    return ScalarNode(location, str(value), not isinstance(value, str), value)


def merged(sources: Sequence[Source]) -> dict[str, Node]:
    """Variables of all sources, the weakest first, as one."""
    found: dict[str, Node] = {}
    for source in sources:
        for name, node in source.values.items():
            if name == SETTINGS and name in found:
                found[name] = merge_settings(found[name], node)
            else:
                found[name] = node
    return found


def merge_settings(low: Node, high: Node, path: tuple[str, ...] = ()) -> Node:
    """``high`` over ``low``, key by key. A section that is written but empty leaves what is below it."""
    if not isinstance(low, MappingNode) or _replaces(path):
        return high
    if isinstance(high, ScalarNode) and high.plain and high.value is None:
        return low
    if not isinstance(high, MappingNode):
        return high
    entries = {key.text: (key, value) for key, value in low.entries}
    for key, value in high.entries:
        if key.text in entries:
            value = merge_settings(entries[key.text][1], value, (*path, key.text))
        entries[key.text] = (key, value)
    return MappingNode(high.location, tuple(entries.values()))


def history(sources: Sequence[Source], path: Sequence[str]) -> Iterator[tuple[Level, Node]]:
    """Every value that was given for a key, the winner first; what a stronger level hides is left out."""
    for source in reversed(sources):
        node: Node | None = source.values.get(path[0])
        if node is None:
            continue
        hides = path[0] != SETTINGS
        for depth, key in enumerate(path[1:], 1):
            if not isinstance(node, MappingNode):
                # null is an empty section; anything else stands instead of the mapping that was asked for
                hides = hides or not (isinstance(node, ScalarNode) and node.value is None)
                node = None
                break
            hides = hides or _replaces(tuple(path[1:depth]))
            node = node.get(key)
            if node is None:
                break
        if node is not None:
            yield source.level, node
        elif hides:
            return


def _replaces(path: tuple[str, ...]) -> bool:
    """Whether a mapping at this path of the settings replaces: a secret is one value in one of its forms."""
    if path == ("stack", "index_url"):
        return True
    return len(path) == 3 and path[0] == "services" and path[2] == "api_key"
