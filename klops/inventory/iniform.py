"""Inventories in Ansible's INI form.

Lines are hosts of the last ``[group]``, variables of ``[group:vars]`` or groups of ``[group:children]``. The
two places where variables stand are read by different rules, Ansible's own: a host's line is split into words
as a shell does it, so ``a="1"`` is the number 1 there and ``#`` begins a comment; in ``:vars`` everything
behind the ``=`` is one value, so ``a="1"`` is text, and a ``#`` belongs to it unless the value is a literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from klops.errors import Location
from klops.inventory.builder import Builder
from klops.inventory.literals import Places, read_literal
from klops.inventory.words import Word, split_words
from klops.yamlsource import Node, nearest

_SECTION = re.compile(r"\[(?P<name>[^:\]\s]+)(?::(?P<kind>\w+))?\]\s*(?:#.*)?")
#: a head whose bracket isn't closed; a host's name has no bracket at its beginning
_OPEN = re.compile(r"\[[^\]\s=]+\s*(?:#.*)?")
_CHILD = re.compile(r"(?P<name>[^:\]\s]+)\s*(?:#.*)?")
_KINDS = ("hosts", "vars", "children")
_COMMENTS = ("#", ";")


def is_section(line: str) -> bool:
    """Whether a line is the head of a section."""
    return _SECTION.fullmatch(line.strip()) is not None


@dataclass
class _Section:
    """The section that lines belong to."""

    name: str
    kind: str
    location: Location
    variables: dict[str, Node] = field(default_factory=dict)


class IniReader:
    """Tells a builder what stands in one INI file."""

    def __init__(self, builder: Builder, file: str) -> None:
        self._builder = builder
        self._file = file
        #: group -> the place that names it, and who wants it as a child
        self._wanted: dict[str, list[tuple[str, Location]]] = {}
        #: groups with variables whose own section isn't there yet
        self._undeclared: dict[str, Location] = {}
        #: (group, host as written, variable) -> its place in this file; no host: of the group itself
        self._seen: dict[tuple[str, str, str], Location] = {}

    def read(self, lines: Sequence[str]) -> None:
        """Read all lines of a file, without their ends."""
        section = _Section("ungrouped", "hosts", Location(self._file))
        for number, raw in enumerate(lines, 1):
            line = raw.strip()
            if not line or line.startswith(_COMMENTS):
                continue
            where = partial(self._where, number, len(raw) - len(raw.lstrip()))
            if found := _SECTION.fullmatch(line):
                section = self._section(found["name"], found["kind"] or "hosts", where(0), section)
            elif _OPEN.fullmatch(line):
                name = line.partition("#")[0].strip()
                self._builder.mistake(where(0), f"{name} has no closing bracket", f"write {name}]")
                # what follows belongs to it: hosts of another group would be told one by one
                self._leave(section)
                section = _Section(name, "unknown", where(0))
            elif line.startswith("[") and line.endswith("]"):
                hint = "write [GROUP], [GROUP:vars] or [GROUP:children], without blanks"
                self._builder.mistake(where(0), f"{line} is no section", hint)
            else:
                self._line(section, line, where)
        self._leave(section)
        for child, wanted in self._wanted.items():
            parent, location = wanted[-1]
            self._missing(
                child, location, f"[{parent}:children] names the group {child}, which has no section"
            )
        for name, location in self._undeclared.items():
            self._missing(name, location, f"[{name}:vars] is there, and the group {name} is not")

    def _where(self, number: int, indent: int, index: int) -> Location:
        return Location(self._file, number, indent + index + 1)

    def _section(self, name: str, kind: str, where: Location, last: _Section) -> _Section:
        self._leave(last)
        if kind not in _KINDS:
            near = nearest(kind, _KINDS)
            hint = f"did you mean [{name}:{near}]?" if near else "expected hosts, vars or children"
            self._builder.mistake(where, f"[{name}:{kind}] is a section of an unknown kind", hint)
            return _Section(name, "unknown", where)
        if kind == "vars":
            if name not in self._builder.graph.groups:
                self._undeclared.setdefault(name, where)
                self._builder.graph.add_group(name, where)
        else:
            self._undeclared.pop(name, None)
            self._builder.graph.add_group(name, where)
            for parent, location in self._wanted.pop(name, ()):
                self._builder.child(parent, name, location)
        return _Section(name, kind, where)

    def _leave(self, section: _Section) -> None:
        """Hand over the variables of a section that ends."""
        if section.variables:
            self._builder.group_variables(section.name, section.variables)

    def _missing(self, name: str, location: Location, message: str) -> None:
        known = [group for group in self._builder.graph.groups if group not in self._undeclared]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"add a section [{name}]"
        self._builder.mistake(location, message, hint)

    def _line(self, section: _Section, line: str, where: Places) -> None:
        if section.kind == "hosts":
            self._host(section.name, line, where)
        elif section.kind == "vars":
            self._variable(section, line, where)
        elif section.kind == "children":
            found = _CHILD.fullmatch(line)
            if found is None:
                self._builder.mistake(where(0), f"expected the name of a group, found {line!r}")
            elif found["name"] in self._builder.graph.groups and found["name"] not in self._wanted:
                self._builder.child(section.name, found["name"], where(0))
            else:
                self._wanted.setdefault(found["name"], []).append((section.name, where(0)))

    def _variable(self, section: _Section, line: str, where: Places) -> None:
        name, equals, value = line.partition("=")
        if not equals:
            hint = "hosts stand under [GROUP], groups under [GROUP:children]"
            hint = "INI files write NAME=VALUE" if ":" in line else hint
            self._builder.mistake(where(0), f"expected NAME=VALUE, found {_short(line)}", hint)
            return
        start = len(line) - len(value.lstrip())
        node = self._literal(value.strip(), lambda index: where(start + index))
        if node is not None and self._is_new(section.name, "", name.strip(), where(0)):
            section.variables[name.strip()] = node

    def _is_new(self, group: str, host: str, name: str, where: Location) -> bool:
        """Whether a name can be a variable's and wasn't given before; mistakes when not.

        A host may be overridden after a range that holds it; given twice as it is written it is a slip.
        """
        first = self._seen.setdefault((group, host, name), where)
        if first is not where:
            whose = f"the host {host}" if host else f"the group {group}"
            lines = f"line {first.line} and line {where.line}"
            text = f"the variable {name!r} of {whose} is given twice: {lines}"
            self._builder.mistake(where, text, "keep one of them")
        return self._builder.variable_name(name, where) and first is where

    def _host(self, group: str, line: str, where: Places) -> None:
        try:
            words = split_words(line)
        except ValueError as error:
            text = f"the line cannot be split into words: {error}"
            self._builder.mistake(where(0), text, "write \\ before a quote that is part of a value")
            return
        layer: dict[str, Node] = {}
        for word in words[1:]:
            name, equals, value = word.text.partition("=")
            if not equals:
                hint = "quote a value with blanks: NAME='A B'"
                text = f"expected NAME=VALUE, found {_short(word.text)}"
                self._builder.mistake(where(word.start), text, hint)
            elif self._is_new(group, words[0].text, name, where(word.start)):
                node = self._value(word, len(name) + 1, value, where)
                if node is not None:
                    layer[name] = node
        self._builder.hosts(group, words[0].text, layer, where(words[0].start))

    def _value(self, word: Word, skip: int, value: str, where: Places) -> Node | None:
        return self._literal(value, lambda index: where(word.place(skip + index)))

    def _literal(self, text: str, places: Places) -> Node | None:
        return self._builder.collect(partial(read_literal, text, places))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
