"""What can be told of a template without rendering it: its mistakes, its literals, the variables it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from jinja2 import TemplateSyntaxError, meta, nodes

from klops.playbook.template.filters import unknown
from klops.playbook.template.jinja import (
    compiled,
    compiled_expression,
    environment,
    expression_tree,
    file_environment,
)
from klops.playbook.template.lookups import LOOKUPS, unknown_lookup

#: filters that take the name of a filter, or of a test, as an argument: -> which one
_NAMES_FILTER = {"map": 0}
_NAMES_TEST = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}
_LOOKUPS = ("lookup", "query", "q")


def is_template(text: str) -> bool:
    """Whether ``text`` holds anything for Jinja2 to do."""
    return "{{" in text or "{%" in text or "{#" in text


def syntax_error(text: str, *, expression: bool = False) -> str:
    """What is wrong with a template (or with an expression without braces) as it stands; "" for nothing.

    That is its syntax, and filters, tests and lookups that aren't there.
    """
    if not expression and not is_template(text):
        return ""
    try:
        tree = expression_tree(text) if expression else environment().parse(text)
        _, problem = next(_unknown_names(tree), (0, ""))
        if not problem:
            _ = compiled_expression(text) if expression else compiled(text)
    except TemplateSyntaxError as error:
        return error.message or "syntax error"
    return problem


def file_syntax_error(source: str, settings: Sequence[tuple[str, Any]]) -> tuple[int, str]:
    """The line and what is wrong there in the text of a template file; (0, "") for nothing."""
    try:
        own = file_environment((), "", tuple(settings))
        found = next(_unknown_names(own.parse(source)), (0, ""))
        if not found[1]:
            _ = own.compile(source, raw=True)
    except TemplateSyntaxError as error:
        return error.lineno, error.message or "syntax error"
    return found


def with_hint(problem: str) -> tuple[str, str]:
    """What is wrong with a template, and the nearest name as a hint."""
    said, near, name = problem.partition(": did you mean ")
    return said, f"did you mean {name}" if near else ""


def literal(expression: str) -> str:
    """The type of an expression that is a literal, such as ``str`` or ``bool``; "" for any other."""
    (output,) = expression_tree(expression).body
    assert isinstance(output, nodes.Output)  # noqa: S101 - made so by expression_tree
    (found,) = output.nodes
    if isinstance(found, nodes.Const):
        return type(found.value).__name__
    return type(found).__name__.lower() if isinstance(found, nodes.Literal) else ""


def names(value: Any, *, expression: bool = False) -> Set[str]:
    """Names of variables that the templates in ``value`` mention, in depth. Wrong syntax mentions none.

    Those looked up by a literal name (``lookup('vars', 'x')``) are among them.
    """
    if isinstance(value, str):
        if not expression and not is_template(value):
            return set()
        try:
            tree = expression_tree(value) if expression else environment().parse(value)
        except TemplateSyntaxError:
            return set()
        return meta.find_undeclared_variables(tree) - {*_LOOKUPS} | set(_looked_up(tree))
    parts: Sequence[Any] = ()
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = value
    return {name for part in parts for name in names(part, expression=expression)}


def _unknown_names(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Lines, and what is wrong there with names of filters, tests and lookups.

    Jinja2 leaves those in ``if`` for later.
    """
    filters, tests = environment().filters, environment().tests
    for node in tree.find_all((nodes.Filter, nodes.Test, nodes.Call)):
        if isinstance(node, nodes.Call):
            name = _lookup_name(node)
            if name is not None and name not in LOOKUPS:
                yield node.lineno, unknown_lookup(name)
            continue
        assert isinstance(node, (nodes.Filter, nodes.Test))  # noqa: S101 - the only others asked for
        kind, known = ("filter", filters) if isinstance(node, nodes.Filter) else ("test", tests)
        if node.name not in known:
            yield node.lineno, unknown(kind, node.name, known)
        for places, kind, known in ((_NAMES_FILTER, "filter", filters), (_NAMES_TEST, "test", tests)):
            place = places.get(node.name) if isinstance(node, nodes.Filter) else None
            if place is not None and len(node.args) > place:
                named = node.args[place]
                if isinstance(named, nodes.Const) and named.value not in known:
                    yield named.lineno, unknown(kind, str(named.value), known)


def _lookup_name(call: nodes.Call) -> str | None:
    """The literal name of the lookup that a call is of; None for other calls."""
    is_lookup = isinstance(call.node, nodes.Name) and call.node.name in _LOOKUPS
    first = call.args[0] if is_lookup and call.args else None
    return str(first.value) if isinstance(first, nodes.Const) else None


def _looked_up(tree: nodes.Template) -> Iterator[str]:
    for call in tree.find_all(nodes.Call):
        name = _lookup_name(call)
        if name is not None and name.rpartition(".")[2] == "vars":
            yield from (str(term.value) for term in call.args[1:] if isinstance(term, nodes.Const))
