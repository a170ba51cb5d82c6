"""Templates in connection variables and settings, rendered by whoever can.

The inventory stands below the playbook and knows no template language: the caller hands in what renders one
text. What comes out is a value, and is never rendered again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from klops.errors import Mistake, SourceErrors, UsageError
from klops.inventory.variables import from_python
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode

#: The value of a text with ``{{`` or ``{%`` in it; raises :class:`UsageError` when it can't be had.
Renderer = Callable[[str], Any]


def is_template(node: Node) -> bool:
    """Whether a node is text with a template in it."""
    return isinstance(node, ScalarNode) and isinstance(node.value, str) and _has_mark(node.text)


def _has_mark(text: str) -> bool:
    return "{{" in text or "{%" in text


def rendered(node: Node, render: Renderer) -> Node:
    """The same node with the values of all templates in it, each at the place where it is written.

    Raises :class:`SourceErrors` with the mistakes of all templates.
    """
    mistakes: list[Mistake] = []
    found = _rendered(node, render, mistakes)
    if mistakes:
        raise SourceErrors(mistakes)
    return found


def _rendered(node: Node, render: Renderer, mistakes: list[Mistake]) -> Node:
    if isinstance(node, MappingNode):
        entries = [(key, _rendered(value, render, mistakes)) for key, value in node.entries]
        return MappingNode(node.location, tuple(entries))
    if isinstance(node, SequenceNode):
        return SequenceNode(node.location, tuple(_rendered(item, render, mistakes) for item in node.items))
    if isinstance(node, ScalarNode) and is_template(node):
        try:
            return from_python(render(node.text), node.location)
        except SourceErrors as error:
            mistakes.extend(error.mistakes)
        except UsageError as error:
            mistakes.append(Mistake(node.location, error.message, error.hint))
    return node
