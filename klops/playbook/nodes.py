"""Small readings of located nodes, each of which notes a mistake instead of raising."""

from __future__ import annotations

from klops.errors import Location, Mistake
from klops.playbook.template import syntax_error
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode


class Mistakes:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(self, where: Location, message: str, hint: str = "") -> None:
        """Note one mistake."""
        self.found.append(Mistake(where, message, hint))


def as_text(node: Node, key: str, mistakes: Mistakes) -> str:
    """A single value as written."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    mistakes.add(node.location, f"{key} is a text")
    return ""


def as_bool(node: Node, key: str, mistakes: Mistakes) -> bool:
    """true or false (yes and no will do)."""
    if isinstance(node, ScalarNode) and isinstance(node.value, bool):
        return node.value
    mistakes.add(node.location, f"{key} is true or false")
    return False


def as_texts(node: Node | None, key: str, mistakes: Mistakes) -> tuple[str, ...]:
    """A text or a list of them."""
    if node is None:
        return ()
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return tuple(text for item in items if (text := as_text(item, key, mistakes)))


def as_tags(node: Node | None, mistakes: Mistakes) -> tuple[str, ...]:
    """Tags: a list, or a text with commas."""
    texts = as_texts(node, "tags", mistakes)
    return tuple(tag.strip() for text in texts for tag in text.split(",") if tag.strip())


def as_vars(node: Node | None, mistakes: Mistakes) -> dict[str, Node]:
    """Variables: names and any values, with their places."""
    if node is None or (isinstance(node, ScalarNode) and node.value is None):
        return {}
    if not isinstance(node, MappingNode):
        mistakes.add(node.location, "vars is a mapping of names to values")
        return {}
    for key, value in node.entries:
        check_name(key, mistakes)
        check_templates(value, mistakes)
    return {key.text: value for key, value in node.entries}


def check_name(node: ScalarNode, mistakes: Mistakes) -> None:
    """A variable's name: letters, digits and underscores."""
    if not node.text.isidentifier():
        mistakes.add(node.location, f"{node.text!r} is no name for a variable", "letters, digits and _ only")


def check_templates(node: Node, mistakes: Mistakes, *, expression: bool = False) -> None:
    """Wrong Jinja2 syntax anywhere below ``node``; ``expression``: of texts that are expressions."""
    if isinstance(node, ScalarNode):
        problem = syntax_error(node.text, expression=expression) if isinstance(node.text, str) else ""
        if problem:
            mistakes.add(node.location, f"Jinja2: {problem}")
    elif isinstance(node, SequenceNode):
        for item in node.items:
            check_templates(item, mistakes, expression=expression)
    elif isinstance(node, MappingNode):
        for key, value in node.entries:
            if syntax_error(key.text) or "{{" in key.text:
                mistakes.add(key.location, "templates in keys are not supported", "write the key as it is")
            check_templates(value, mistakes, expression=expression)
