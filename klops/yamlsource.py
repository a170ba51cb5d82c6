"""YAML with places: every node knows its file, line and column.

Text is read as YAML 1.1, the way Ansible reads it (``0644`` is 420, ``no`` is false, ``22:22`` is 1342); what
was typed stays beside the reading, so that a typed setting can take the one or refuse the other. In one thing
this is stricter than Ansible: a key that is given twice is a mistake, not a silent override.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from klops.errors import Location, Mistake, SourceErrors
from klops.yaml11 import read_plain
from klops.yamlfaults import place, quoted, syntax_mistake

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_TAG = "tag:yaml.org,2002:"
#: Lists and mappings within one another, those that aliases bring in counted: nobody writes as many.
DEEPEST = 100
#: Values that aliases may bring in, all together: nine lines of them can stand for a thousand million.
MOST_BY_ALIASES = 1_000_000
#: what to write in place of a text that ansible-vault encrypted
INSTEAD_OF_VAULT = (
    "under klops: a secret setting can be {env: NAME}, {file: PATH} or {command: [...]}; "
    "elsewhere write \"{{ lookup('env', 'NAME') }}\", or give the variable with -e @FILE"
)


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


def load_file(path: str | Path, noted: list[Mistake] | None = None) -> Node | None:
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
    return parse(text, str(path), noted)


def parse(text: str, file: str, noted: list[Mistake] | None = None) -> Node | None:
    """The one document in ``text``, or None when it is empty; ``file`` is the name used in locations.

    With ``noted`` mistakes that leave a document to look at are put there, so that what else is wrong in it
    can be told beside them: of a key that is given twice the last one counts, an unknown tag is left out.

    Raises :class:`SourceErrors` with every duplicate key, unknown tag and wrong alias found, and the first
    error of syntax or the first place that is too deep.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = text.removeprefix(BOM)
    if BOM in text:
        where = place(text, text.index(BOM), file)
        raise SourceErrors([Mistake(where, "a byte order mark in mid-file", "delete it")])
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    composer = _Composer(file, text, _as_events(reader, text))
    try:
        node = composer.document()
    except YAMLError as error:
        raise SourceErrors([*composer.mistakes, syntax_mistake(error, text, file)]) from error
    if composer.mistakes and (noted is None or composer.lost):
        raise SourceErrors(composer.mistakes)
    if noted is not None:
        noted.extend(composer.mistakes)
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

    def __init__(self, file: str, text: str, events: Iterator[Any]) -> None:
        self._file = file
        self._text = text
        self._events = events
        #: an anchor whose node is still being built is None
        self._anchors: dict[str, Node | None] = {}
        #: levels within the node of an anchor
        self._levels: dict[str, int] = {}
        #: how deep the current node is, and the deepest since it was last asked
        self._depth = 0
        self._deepest = 0
        #: values within the node of an anchor, those that aliases bring in counted; the same of all so far
        self._sizes: dict[str, int] = {}
        self._values = 0
        self._by_aliases = 0
        self.mistakes: list[Mistake] = []
        #: whether a mistake left a hole in the document
        self.lost = False

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
                    self.lost = True
                    self._mistake(event, "a second document", "one file holds one document: delete this ---")
            elif kind not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                node = self._node(event)
                root = node if seen == 1 else root
        return None if isinstance(root, ScalarNode) and root.plain and not root.text else root

    def _node(self, event: Any) -> Node:
        self._depth += 1
        self._values += 1
        try:
            node = self._measured(event) if event.anchor else self._of_kind(event)
        finally:
            self._depth -= 1
        return node

    def _measured(self, event: Any) -> Node:
        """A node with an anchor, or an alias, which is as deep as what it names."""
        if type(event).__name__ == "AliasEvent":
            self._reach(event, self._levels.get(event.anchor, 0))
            self._bring_in(event)
            return self._alias(event)
        around, self._deepest = self._deepest, self._depth
        before = self._values
        self._anchors[event.anchor] = None
        node = self._anchors[event.anchor] = self._of_kind(event)
        self._levels[event.anchor] = self._deepest - self._depth
        self._sizes[event.anchor] = self._values - before
        self._deepest = max(around, self._deepest)
        return node

    def _reach(self, event: Any, levels: int = 0) -> None:
        self._deepest = max(self._deepest, self._depth + levels)
        if self._depth + levels > DEEPEST:
            text = f"more than {DEEPEST} lists and mappings within one another"
            raise SourceErrors([*self.mistakes, Mistake(self._where(event), text)])

    def _bring_in(self, event: Any) -> None:
        size = self._sizes.get(event.anchor, 0)
        self._values += size
        self._by_aliases += size
        if self._by_aliases > MOST_BY_ALIASES:
            text = f"more than {MOST_BY_ALIASES} values by aliases"
            raise SourceErrors([*self.mistakes, Mistake(self._where(event), text)])

    def _of_kind(self, event: Any) -> Node:
        kind = type(event).__name__
        self._reach(event)
        node: Node
        if kind == "ScalarEvent":
            node = self._scalar(event)
        elif kind == "SequenceStartEvent":
            self._check_tag(event, "seq")
            node = SequenceNode(self._where(event), tuple(self._items("SequenceEndEvent")))
        else:
            self._check_tag(event, "map")
            node = self._mapping(event)
        return node

    def _items(self, end: str) -> Iterator[Node]:
        for event in self._events:
            if type(event).__name__ == end:
                return
            yield self._node(event)

    def _mapping(self, start: Any) -> Node:
        known = len(self.mistakes)
        own: dict[str, tuple[ScalarNode, Node]] = {}
        readings: dict[tuple[type, Any], ScalarNode] = {}
        merged: dict[str, tuple[ScalarNode, Node]] = {}
        complex_keys: list[Mistake] = []
        end = start
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                end = event
                break
            key = self._node(event)
            value = self._node(next(self._events))
            if isinstance(value, ScalarNode) and value.plain and not value.text:
                # what is left out has no place of its own: the parser names that of what follows
                value = replace(value, location=key.location)
            if not isinstance(key, ScalarNode):
                complex_keys.append(Mistake(key.location, "a key must be a single value"))
                continue
            if key.plain and key.text == "<<":
                merged.update(self._merge(key, value))
                continue
            first = own[key.text][0] if key.text in own else readings.get((type(key.value), key.value))
            if first is not None:
                lines = f"line {first.location.line} and line {key.location.line}"
                text = f"the key {key.text!r} is given twice: {lines}"
                self.mistakes.append(Mistake(key.location, text, "keep one of them"))
                own.pop(first.text, None)
            own[key.text] = (key, value)
            readings[type(key.value), key.value] = key
        if complex_keys:
            written = self._text[start.start_mark.index : end.end_mark.index]
            if written.startswith("{{") and "\n" not in written:
                # read on as if it were quoted
                del self.mistakes[known:]
                self._mistake(start, f"{written} without quotes is a mapping", quoted(written))
                return ScalarNode(self._where(start), written, False, written)
            self.lost = True
            self.mistakes += complex_keys
        return MappingNode(self._where(start), tuple({**merged, **own}.values()))

    def _merge(self, key: ScalarNode, value: Node) -> dict[str, tuple[ScalarNode, Node]]:
        """Entries that ``<<: value`` brings in; of several mappings in a list the first wins."""
        found: dict[str, tuple[ScalarNode, Node]] = {}
        for source in reversed(value.items if isinstance(value, SequenceNode) else (value,)):
            if isinstance(source, MappingNode):
                found.update({name.text: (name, node) for name, node in source.entries})
            else:
                self.lost = True
                self.mistakes.append(Mistake(key.location, "<< merges a mapping or a list of mappings"))
        return found

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is not None:
            return node
        self.lost = True
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
            hint = INSTEAD_OF_VAULT if shown == "!vault" else ""
            self._mistake(event, f"the tag {shown} is not supported", hint)
        return name

    def _where(self, event: Any) -> Location:
        mark = event.start_mark
        return Location(self._file, mark.line + 1, mark.column + 1)

    def _mistake(self, event: Any, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(self._where(event), message, hint))
