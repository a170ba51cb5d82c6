"""Small readings of located nodes, each of which notes a mistake instead of raising."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from klops.errors import Location, Mistake
from klops.playbook.template.templar import is_template, literal, syntax_error, with_hint
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, to_python


class Mistakes:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(self, where: Location, message: str, hint: str = "") -> None:
        """Note one mistake, once."""
        mistake = Mistake(where, message, hint)
        # a file that several tasks include is read for each of them
        if mistake not in self.found:
            self.found.append(mistake)

    def add_all(self, mistakes: Iterable[Mistake]) -> None:
        """Note several, each once."""
        for mistake in mistakes:
            self.add(mistake.location, mistake.message, mistake.hint)


def is_empty(node: Node | None) -> bool:
    """Whether nothing is given: no key, or a key without a value."""
    return node is None or (isinstance(node, ScalarNode) and node.value is None)


class Placed(str):
    """A text that knows where it stands, for what can only be told once all is read."""

    __slots__ = ("location",)

    def __new__(cls, text: str, location: Location) -> Placed:
        """``text``, which stands at ``location``."""
        made = super().__new__(cls, text)
        made.location = location
        return made

    location: Location


def as_text(node: Node, key: str, mistakes: Mistakes) -> str:
    """A single value as written."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    if is_empty(node):
        mistakes.add(node.location, f"{key} is empty", "give it a value, or leave it out")
    else:
        mistakes.add(node.location, f"{key} is a text")
    return ""


def as_template(node: Node, key: str, mistakes: Mistakes) -> str:
    """A single value as written, which may hold templates."""
    check_templates(node, mistakes)
    return as_text(node, key, mistakes)


#: operators of other languages (regular expressions) -> what Jinja2 has
_OPERATORS = (
    (r"&&", "write and"),
    (r"\|\|", "write or"),
    (r"!(?!=)", "write not, and != for other than"),
    (r"(?<![=!<>])=(?!=)", "two values are compared by =="),
)
#: texts that Ansible takes for booleans where a keyword wants one, quoted ones too
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}


def as_bool(node: Node, key: str, mistakes: Mistakes) -> bool:
    """true or false, in any of the spellings of YAML 1.1 or Ansible."""
    if isinstance(node, ScalarNode) and node.text.lower() in _WORDS:
        return _WORDS[node.text.lower()]
    if is_empty(node):
        mistakes.add(node.location, f"{key} is empty", "give it a value, or leave it out")
        return False
    templated = isinstance(node, ScalarNode) and is_template(node.text)
    hint = "a template is not supported here: write it, or make it two tasks with a when each"
    mistakes.add(node.location, f"{key} is true or false", hint if templated else "write true or false")
    return False


def as_bool_or_template(node: Node, key: str, mistakes: Mistakes) -> Any:
    """true, false, or a template that gives one of them (raw)."""
    if isinstance(node, ScalarNode) and is_template(node.text):
        return as_template(node, key, mistakes)
    return as_bool(node, key, mistakes)


def as_number(node: Node, key: str, mistakes: Mistakes, *, whole: bool, template: bool = True) -> Any:
    """A number, 0 or more, or a template that gives one (raw)."""
    if isinstance(node, ScalarNode):
        if template and is_template(node.text):
            return as_template(node, key, mistakes)
        # as typed: 010 would be eight to YAML and ten to people
        match = re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?|(\.[0-9]+)", node.text)
        if match and not (whole and (match[2] or match[3])):
            return int(node.text) if whole else float(node.text)
    kind = "whole number" if whole else "number"
    mistakes.add(node.location, f"{key} is a {kind}, 0 or more")
    return 0


def as_texts(node: Node | None, key: str, mistakes: Mistakes) -> tuple[str, ...]:
    """A text or a list of them."""
    if node is None:
        return ()
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return tuple(text for item in items if (text := as_text(item, key, mistakes)))


def as_tags(node: Node | None, mistakes: Mistakes) -> tuple[str, ...]:
    """Tags: a list, or a text with commas. They are taken as typed: ``1e3`` and ``no`` are tags."""
    texts = () if is_empty(node) else as_texts(node, "tags", mistakes)
    if node is not None and any(is_template(text) for text in texts):
        mistakes.add(node.location, "tags take no templates", "write them as they are; use when to choose")
    return tuple(tag.strip() for text in texts for tag in text.split(",") if tag.strip())


def as_vars(node: Node | None, mistakes: Mistakes, what: str = "vars") -> dict[str, Node]:
    """Variables: names and any values, with their places."""
    if node is None or is_empty(node):
        return {}
    if not isinstance(node, MappingNode):
        mistakes.add(node.location, f"{what} is a mapping of names to values")
        return {}
    for key, value in node.entries:
        check_name(key, mistakes)
        check_templates(value, mistakes)
    return {key.text: value for key, value in node.entries}


def as_environment(node: Node, mistakes: Mistakes) -> tuple[Any, ...]:
    """Environments: a mapping, a template that gives one, or a list of these.

    Values are taken as typed: ``FLAG: no`` sets FLAG to ``no``.
    """
    found: list[Any] = []
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if is_empty(item):
            continue
        check_templates(item, mistakes)
        if isinstance(item, MappingNode):
            found.append({key.text: _variable(key, value, mistakes) for key, value in item.entries})
        elif isinstance(item, ScalarNode) and is_template(item.text):
            found.append(item.text)
        else:
            hint = "NAME: value, one line each, or a template that gives a mapping"
            mistakes.add(item.location, "environment is a mapping of names to texts", hint)
    return tuple(found)


def _variable(key: ScalarNode, value: Node, mistakes: Mistakes) -> str:
    if "=" in key.text or not key.text:
        mistakes.add(key.location, f"{key.text!r} is no name for a variable of the environment")
    if isinstance(value, ScalarNode):
        return value.text
    mistakes.add(value.location, f"environment: {key.text} is a text")
    return ""


def as_conditions(node: Node | None, key: str, mistakes: Mistakes) -> tuple[str, ...]:
    """Conditions, each an expression without braces; plain ``yes`` and ``no`` are true and false."""
    if node is None:
        return ()
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return tuple(as_expression(item, key, mistakes, condition=True) for item in items)


def as_expression(node: Node, key: str, mistakes: Mistakes, *, condition: bool) -> str:
    """An expression without braces; of a ``condition`` a literal must be true or false."""
    if isinstance(node, ScalarNode) and isinstance(node.value, bool):
        return str(node.value).lower()
    text = as_text(node, key, mistakes)
    add = mistakes.add
    if is_template(text):
        hint = "it is an expression already: leave the braces out"
        add(node.location, f"{key} takes no {{{{ }}}}", hint)
    elif is_empty(node) or not isinstance(node, ScalarNode):
        return text  # said already: it is no text at all
    elif not text.strip():
        add(node.location, f"{key} is empty", "write an expression, or leave it out")
    elif problem := syntax_error(text, expression=True):
        said, hint = with_hint(problem)
        add(node.location, f"{key}: {said}", hint or _other_language(text))
    elif condition and (kind := literal(text)) not in ("", "bool"):
        hint = "compare something, or write true or false"
        add(node.location, f"{key}: {text} is {kind}, not true or false", hint)
    return text


def as_list_or_template(node: Node, key: str, mistakes: Mistakes) -> Any:
    """A list, or a template that gives one (raw)."""
    check_templates(node, mistakes)
    if isinstance(node, SequenceNode) or (isinstance(node, ScalarNode) and is_template(node.text)):
        return to_python(node)
    hint = 'write [A, B], or "{{ range(3) | list }}" for so many times'
    mistakes.add(node.location, f"{key} is a list, or a template that gives one", hint)
    return None


def _other_language(expression: str) -> str:
    """What Jinja2 has in place of an operator of other languages; "" when none is there."""
    for other, own in _OPERATORS:
        if re.search(other, expression):
            return own
    return ""


def check_name(node: ScalarNode, mistakes: Mistakes) -> None:
    """A variable's name: letters, digits and underscores."""
    if not node.text.isidentifier():
        mistakes.add(node.location, f"{node.text!r} is no name for a variable", "letters, digits and _ only")


def check_templates(node: Node, mistakes: Mistakes, *, expression: bool = False) -> None:
    """Wrong Jinja2 syntax anywhere below ``node``; ``expression``: of texts that are expressions."""
    if isinstance(node, ScalarNode):
        problem = syntax_error(node.text, expression=expression) if isinstance(node.text, str) else ""
        if problem:
            said, hint = with_hint(problem)
            mistakes.add(node.location, f"Jinja2: {said}", hint)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            check_templates(item, mistakes, expression=expression)
    elif isinstance(node, MappingNode):
        for key, value in node.entries:
            if syntax_error(key.text) or "{{" in key.text:
                mistakes.add(key.location, "templates in keys are not supported", "write the key as it is")
            check_templates(value, mistakes, expression=expression)
