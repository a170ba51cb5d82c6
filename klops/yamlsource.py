"""YAML with places: every node knows its file, line and column.

Text is read as YAML 1.1, the way Ansible reads it (``0644`` is 420, ``no`` is false, ``22:22`` is 1342); what
was typed stays beside the reading, so that a typed setting can take the one or refuse the other. In one thing
this is stricter than Ansible: a key that is given twice is a mistake, not a silent override.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.errors import Location, Mistake, SourceErrors
from klops.yaml11 import read_plain

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_TAG = "tag:yaml.org,2002:"
_INSTEAD_OF_VAULT = "a secret setting can be {env: NAME}, {file: PATH} or {command: [...]}"


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of a YAML file and its place."""

    location: Location


@dataclass(frozen=True, slots=True)
class ScalarNode(Node):
    """A single value: ``text`` as written (without quotes), ``value`` as YAML 1.1 reads it.

    ``plain`` is false for text in quotes and block text (``|``, ``>``): their ``value`` is their ``text``.
    """

    text: str
    plain: bool
    value: Any


@dataclass(frozen=True, slots=True)
class SequenceNode(Node):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingNode(Node):
    """A dictionary; merge keys (``<<``) are already carried out. Keys are scalars and differ as text."""

    entries: tuple[tuple[ScalarNode, Node], ...]

    def get(self, key: str) -> Node | None:
        """The value whose key was written ``key``."""
        for name, value in self.entries:
            if name.text == key:
                return value
        return None

    def key(self, key: str) -> ScalarNode | None:
        """The key itself, for its place."""
        for name, _ in self.entries:
            if name.text == key:
                return name
        return None


def load_file(path: str | Path) -> Node | None:
    """Read and :func:`parse` a UTF-8 file; raises :class:`SourceErrors` for one that can't be read, too."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SourceErrors([Mistake(Location(str(path)), f"cannot be read: {error.strerror}")]) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        where = Location(str(path), line, column)
        raise SourceErrors([Mistake(where, "this is not UTF-8 text", "save the file as UTF-8")]) from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Node | None:
    """The one document in ``text``, or None when it is empty; ``file`` is the name used in locations.

    Raises :class:`SourceErrors` with every duplicate key, unknown tag and wrong alias found, and the first
    error of syntax.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = text.removeprefix(BOM)
    if BOM in text:
        where = _place(text, text.index(BOM), file)
        raise SourceErrors([Mistake(where, "a byte order mark in mid-file", "delete it")])
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    composer = _Composer(file, _as_events(reader, text))
    try:
        node = composer.document()
    except YAMLError as error:
        raise SourceErrors([*composer.mistakes, _syntax(error, text, file)]) from error
    if composer.mistakes:
        raise SourceErrors(composer.mistakes)
    return node


def to_python(node: Node | None) -> Any:
    """Plain Python value in the YAML 1.1 reading; None for an empty document."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [to_python(item) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.value: to_python(value) for key, value in node.entries}
    return None


def mistakes_of(read: Callable[[], object]) -> tuple[Mistake, ...]:
    """The mistakes that ``read`` raises, so that those of several can be told together."""
    try:
        read()
    except SourceErrors as error:
        return error.mistakes
    return ()


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The candidate most like ``word``, or "" when none is near."""
    found = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return found[0] if found else ""


# -- from events to nodes ------------------------------------------------------------------------------------


def _as_events(reader: Any, text: str) -> Iterator[Any]:
    yield from reader.parse(text)


class _Composer:
    """Builds nodes from a parser's events and collects mistakes on the way."""

    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self._file = file
        self._events = events
        #: an anchor whose node is still being built is None
        self._anchors: dict[str, Node | None] = {}
        self.mistakes: list[Mistake] = []

    def document(self) -> Node | None:
        """The only document of the stream."""
        root: Node | None = None
        seen = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                seen += 1
                self._anchors.clear()
                if seen == 2:
                    self._mistake(event, "a second document", "one file holds one document: delete this ---")
            elif kind not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                node = self._node(event)
                root = node if seen == 1 else root
        return None if isinstance(root, ScalarNode) and root.plain and not root.text else root

    def _node(self, event: Any) -> Node:
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event)
        if event.anchor:
            self._anchors[event.anchor] = None
        node: Node
        if kind == "ScalarEvent":
            node = self._scalar(event)
        elif kind == "SequenceStartEvent":
            self._check_tag(event, "seq")
            node = SequenceNode(self._where(event), tuple(self._items("SequenceEndEvent")))
        else:
            self._check_tag(event, "map")
            node = self._mapping(event)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _items(self, end: str) -> Iterator[Node]:
        for event in self._events:
            if type(event).__name__ == end:
                return
            yield self._node(event)

    def _mapping(self, start: Any) -> Node:
        own: dict[str, tuple[ScalarNode, Node]] = {}
        readings: dict[tuple[type, Any], ScalarNode] = {}
        merged: dict[str, tuple[ScalarNode, Node]] = {}
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self._node(event)
            value = self._node(next(self._events))
            if not isinstance(key, ScalarNode):
                self.mistakes.append(Mistake(key.location, "a key must be a single value"))
                continue
            if key.plain and key.text == "<<":
                merged.update(self._merge(key, value))
                continue
            first = own[key.text][0] if key.text in own else readings.get((type(key.value), key.value))
            if first is not None:
                lines = f"line {first.location.line} and line {key.location.line}"
                text = f"the key {key.text!r} is given twice: {lines}"
                self.mistakes.append(Mistake(key.location, text, "keep one of them"))
                continue
            own[key.text] = (key, value)
            readings[type(key.value), key.value] = key
        return MappingNode(self._where(start), tuple({**merged, **own}.values()))

    def _merge(self, key: ScalarNode, value: Node) -> dict[str, tuple[ScalarNode, Node]]:
        """Entries that ``<<: value`` brings in; of several mappings in a list the first wins."""
        found: dict[str, tuple[ScalarNode, Node]] = {}
        for source in reversed(value.items if isinstance(value, SequenceNode) else (value,)):
            if isinstance(source, MappingNode):
                found.update({name.text: (name, node) for name, node in source.entries})
            else:
                self.mistakes.append(Mistake(key.location, "<< merges a mapping or a list of mappings"))
        return found

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is not None:
            return node
        if event.anchor in self._anchors:
            self._mistake(event, f"the alias *{event.anchor} stands inside what it names")
        else:
            near = nearest(event.anchor, self._anchors)
            hint = f"did you mean *{near}?" if near else ""
            self._mistake(event, f"no anchor &{event.anchor} before this", hint)
        return ScalarNode(self._where(event), "", True, None)

    def _scalar(self, event: Any) -> ScalarNode:
        where = self._where(event)
        text = str(event.value)
        plain = not event.style
        tag = self._check_tag(event, "str")
        if tag or not plain:
            return ScalarNode(where, text, False, text)
        try:
            value = read_plain(text)
        except ValueError as error:
            self.mistakes.append(Mistake(where, f"{text} cannot be read: {error}", "quote it if it is text"))
            value = text
        return ScalarNode(where, text, True, value)

    def _check_tag(self, event: Any, known: str) -> str:
        """The event's tag without its prefix; "" when it has none. Any other than ``known`` is a mistake."""
        tag = str(event.tag or "")
        if not tag:
            return ""
        if tag == "!":
            return known
        name = tag.removeprefix(_TAG)
        if name != known:
            shown = f"!!{name}" if tag.startswith(_TAG) else tag
            hint = _INSTEAD_OF_VAULT if shown == "!vault" else ""
            self._mistake(event, f"the tag {shown} is not supported", hint)
        return name

    def _where(self, event: Any) -> Location:
        mark = event.start_mark
        return Location(self._file, mark.line + 1, mark.column + 1)

    def _mistake(self, event: Any, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(self._where(event), message, hint))


def _place(text: str, index: int, file: str) -> Location:
    return Location(file, text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1)


def _syntax(error: Exception, text: str, file: str) -> Mistake:
    """One mistake from a parser's error. A tab is named first: it is what people trip over."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        # the reader's own error: a character that YAML forbids, at an index of the text
        where = _place(text, getattr(error, "position", 0), file)
        hint = "delete it, or write it as an escape in double quotes"
        return Mistake(where, "a character that YAML forbids", hint)
    lines = text.split("\n")
    for number in range(min(mark.line + 1, len(lines)), max(mark.line - 1, 0), -1):
        tab = re.match(r" *\t", lines[number - 1])
        if tab:
            return Mistake(Location(file, number, tab.end()), f"tab at line {number}", "indent with spaces")
    where = Location(file, mark.line + 1, mark.column + 1)
    message = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    if "'\\t'" in message:
        return Mistake(where, f"tab at line {where.line}", "write a space")
    return Mistake(where, f"not valid YAML: {message}")
