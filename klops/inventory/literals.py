"""Values of INI inventories: what Python reads as a literal has its type, anything else is text.

So ``8`` is a number and ``0644`` is text, ``True`` is true and ``yes`` is text, ``[1, 2]`` and ``1,2`` are
lists. What was typed stays beside the reading, as in YAML files.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from typing import Any

from klops.errors import Location, Mistake, SourceErrors
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode

#: Most values of an inventory: they are text to Python's parser, too, which would take its time to say so.
_TEXT = re.compile(r"(?!(?:True|False|None)\Z)[A-Za-z_/][\w./@-]*|[0-9]+(?:\.[0-9]+){2,}", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)

#: The place of the character at an index of the text.
Places = Callable[[int], Location]


def read_literal(text: str, places: Places) -> Node:
    """``text`` as a node. Raises :class:`SourceErrors` for a dictionary that cannot be a variable."""
    if _TEXT.fullmatch(text):
        return ScalarNode(places(0), text, True, text)
    if _NUMBER.fullmatch(text):
        return ScalarNode(places(0), text, True, int(text))
    try:
        with warnings.catch_warnings():
            # an odd escape in somebody's password is not worth a warning of Python's parser
            warnings.simplefilter("ignore")
            # literal_eval, too, passes over blanks before the value
            tree = ast.parse(text.lstrip(" \t"), mode="eval").body
            value = ast.literal_eval(tree)
    except TypeError:
        raise SourceErrors(
            [Mistake(places(0), "a list or dictionary is no key of a dictionary", "quote it if it is text")]
        ) from None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ScalarNode(places(0), text, True, text)
    skipped = len(text) - len(text.lstrip(" \t"))
    source = text[skipped:]
    if isinstance(tree, ast.Constant | ast.UnaryOp | ast.BinOp):
        return _scalar(value, text.strip(), places(skipped))
    return _Reader(source, lambda index: places(skipped + index)).node(tree)


class _Reader:
    """Turns the syntax tree of lists and dictionaries into nodes."""

    def __init__(self, source: str, places: Places) -> None:
        self._source = source
        # offsets of the tree count bytes of the one line there is, places count characters
        self._bytes = source.encode("utf-8")
        self._places = places

    def node(self, tree: ast.expr) -> Node:
        """One part as a node with its own place."""
        where = self._where(tree)
        if isinstance(tree, ast.List | ast.Tuple):
            return SequenceNode(where, tuple(self.node(item) for item in tree.elts))
        if isinstance(tree, ast.Set):
            # a set becomes a list, as in Ansible; there its order is left to chance
            by_value = {ast.literal_eval(item): item for item in reversed(tree.elts)}
            kept = [item for item in tree.elts if item in by_value.values()]
            return SequenceNode(where, tuple(self.node(item) for item in kept))
        if isinstance(tree, ast.Call):
            # literal_eval knows one call, that of an empty set
            return SequenceNode(where, ())
        if isinstance(tree, ast.Dict):
            return MappingNode(where, tuple(self._entries(tree)))
        written = ast.get_source_segment(self._source, tree) or ""
        return _scalar(ast.literal_eval(tree), written, where)

    def _entries(self, tree: ast.Dict) -> list[tuple[ScalarNode, Node]]:
        found: dict[Any, tuple[ScalarNode, Node]] = {}
        for key, value in zip(tree.keys, tree.values, strict=True):
            assert key is not None  # noqa: S101 - literal_eval refuses ** in a dictionary
            name = self.node(key)
            if not isinstance(name, ScalarNode):
                raise SourceErrors([Mistake(name.location, "a key must be a single value")])
            if name.text in found:
                text = f"the key {name.text!r} is given twice: {found[name.text][0].location}"
                raise SourceErrors([Mistake(name.location, text, "keep one of them")])
            found[name.text] = (name, self.node(value))
        return list(found.values())

    def _where(self, tree: ast.expr) -> Location:
        return self._places(len(self._bytes[: tree.col_offset].decode("utf-8")))


def _scalar(value: Any, written: str, where: Location) -> ScalarNode:
    """A single value; text is kept without its quotes, bytes and what JSON has no form for as text."""
    if value is ...:
        value = "..."
    elif isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    elif isinstance(value, complex):
        value = str(value)
    if isinstance(value, str):
        return ScalarNode(where, value, False, value)
    return ScalarNode(where, written, True, value)
