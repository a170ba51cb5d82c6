"""Executable inventories: a program that prints groups and hosts as JSON.

``PROGRAM --list`` prints ``{GROUP: {"hosts": [...], "vars": {...}, "children": [...]}}``, where a group may
be the list of its hosts alone. ``_meta.hostvars`` holds the variables of hosts; when there is no ``_meta``,
``PROGRAM --host NAME`` is asked for each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.builder import Builder
from klops.inventory.programs import TIMEOUT, run_program
from klops.inventory.variables import from_python
from klops.yamlsource import MappingNode, Node, ScalarNode

_SECTIONS = ("hosts", "vars", "children")
_META = "_meta"
#: Ansible's own marks in JSON for text that is no template, and for text that is encrypted.
_UNSAFE = "__ansible_unsafe"
_VAULT = "__ansible_vault"


class ProgramReader:
    """Tells a builder what an inventory program says."""

    def __init__(self, builder: Builder, path: Path, timeout: float = TIMEOUT) -> None:
        self._builder = builder
        self._path = path
        self._timeout = timeout
        self._hosts: dict[str, None] = {}

    def read(self) -> None:
        """Run the program and read what it prints. Raises :class:`SourceErrors` when it fails."""
        document = self._run("--list")
        variables: Mapping[str, Any] | None = None
        for name, data in document.items():
            if name != _META:
                self._group(name, data)
                continue
            found = data.get("hostvars") if isinstance(data, dict) else data
            if found is not None or not isinstance(data, dict):
                variables = self._mapping(found, "_meta.hostvars")
        for host in self._hosts:
            values = self._run("--host", host) if variables is None else variables.get(host, {})
            layer = self._layer(self._mapping(values, f"the variables of {host}"), host)
            if layer:
                self._builder.graph.hosts[host].layers.append(layer)

    def _run(self, *arguments: str) -> dict[str, Any]:
        text = run_program(self._path, arguments, timeout=self._timeout)
        if not text.strip() and arguments[0] == "--host":
            return {}
        where = self._place(*arguments)
        try:
            found = json.loads(
                text,
                object_pairs_hook=partial(_object, where),
                parse_float=lambda written: ScalarNode(where, written, True, float(written)),
                parse_int=lambda written: ScalarNode(where, written, True, int(written)),
            )
        except (ValueError, RecursionError) as error:
            raise SourceErrors([Mistake(where, f"printed no JSON: {error}", _snippet(text))]) from None
        if not isinstance(found, dict):
            raise SourceErrors([Mistake(where, "must print an object: {GROUP: ...}", _snippet(text))])
        return found

    def _place(self, *arguments: str) -> Location:
        return Location(" ".join([str(self._path), *arguments]))

    def _group(self, name: str, data: Any) -> None:
        where = self._place("--list")
        self._builder.graph.add_group(name, where)
        if not isinstance(data, dict):
            data = {"hosts": data}
        elif not any(section in data for section in _SECTIONS):
            # Ansible's oldest form: a name with variables is a host in a group of its own name
            data = {"hosts": [name], "vars": data}
        for host in self._names(data.get("hosts", []), f"{name}.hosts"):
            self._hosts[host] = None
            self._builder.graph.add_host(host, name, where, self._builder.file)
        variables = self._mapping(data.get("vars", {}), f"{name}.vars")
        if layer := self._layer(variables, name):
            self._builder.group_variables(name, layer)
        for child in self._names(data.get("children", []), f"{name}.children"):
            self._builder.graph.add_group(child, where)
            self._builder.child(name, child, where)

    def _names(self, value: Any, what: str) -> Sequence[str]:
        where = self._place("--list")
        if not isinstance(value, list):
            self._builder.mistake(where, f"{what} is not a list")
            return ()
        wrong = [name for name in value if not isinstance(name, str) or not name]
        for name in wrong:
            shown = name.text if isinstance(name, ScalarNode) else name
            self._builder.mistake(where, f"{what}: {shown!r} is no name", "names are text")
        return [name for name in value if isinstance(name, str) and name]

    def _mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self._builder.mistake(self._place("--list"), f"{what} is not an object")
        return {}

    def _layer(self, values: Mapping[str, Any], owner: str) -> dict[str, Node]:
        where = self._place("--list")
        found = {}
        for name, value in values.items():
            if self._builder.variable_name(name, where):
                found[name] = self._builder.collect(partial(_node, value, where, f"{owner}: {name}"))
        return {name: node for name, node in found.items() if node is not None}


def _object(where: Location, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise SourceErrors([Mistake(where, f"the key {key!r} is printed twice", "print it once")])
        found[key] = value
    return found


def _node(value: Any, where: Location, what: str) -> Node:
    """A variable as a node."""
    if isinstance(value, dict):
        if set(value) == {_UNSAFE}:
            value = value[_UNSAFE]
        elif set(value) == {_VAULT}:
            raise SourceErrors(
                [Mistake(where, f"{what} is encrypted with ansible-vault", "print it in clear")]
            )
        else:
            keys = [
                (ScalarNode(where, key, False, key), _node(item, where, what)) for key, item in value.items()
            ]
            return MappingNode(where, tuple(keys))
    if isinstance(value, list):
        return from_python([_node(item, where, what) for item in value], where)
    return from_python(value, where)


def _snippet(text: str) -> str:
    """The beginning of what was printed instead."""
    shown = text.strip()
    if not shown:
        return "it printed nothing"
    return "it begins with " + repr(shown if len(shown) <= 80 else shown[:77] + "...")
