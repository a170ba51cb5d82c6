"""The variables that a template sees: layers, of which some hold templates and others only data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2.runtime import Undefined

from klops.errors import TaskFailed
from klops.playbook.template.jinja import environment
from klops.yamlsource import nearest

#: variables that hold others
_ENDLESS = ("hostvars", "vars")


@dataclass(frozen=True)
class Layer:
    """Variables of one origin.

    ``templates``: strings were written by the author of the playbook or inventory and are rendered when used.
    Otherwise they are data, such as what a host answered, and are never looked at as templates.
    """

    values: Mapping[str, Any]
    templates: bool
    #: False for values that have to be asked for on a host
    listed: bool = True


@dataclass
class Scope(Mapping[str, Any]):
    """Layers of variables, the strongest first; a value is rendered when it is asked for.

    One scope serves one thread.
    """

    layers: Sequence[Layer]
    render: Callable[[Any, Scope], Any]
    _asked: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        for layer in self.layers:
            if name in layer.values:
                value = layer.values[name]
                return self._rendered(name, value) if layer.templates else value
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in layer.values for layer in self.layers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self.layers for name in layer.values))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def template_of(self, name: str) -> Any:
        """The value of ``name`` before rendering, or None when it is data or isn't there."""
        for layer in self.layers:
            if layer.listed and name in layer.values:
                return layer.values[name] if layer.templates else None
        return None

    def _rendered(self, name: str, value: Any) -> Any:
        if name in self._asked:
            circle = " -> ".join([*self._asked[self._asked.index(name) :], name])
            raise TaskFailed(f"variables that need each other: {circle}", code="template")
        self._asked.append(name)
        try:
            return self.render(value, self)
        finally:
            self._asked.pop()


class Live(Mapping[str, Any]):
    """Variables to which another thread may add meanwhile: to go through them is safe all the same."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)


class Variables(Mapping[str, Any]):
    """A scope where it is itself a value in a template, such as ``hostvars.h1`` or ``vars``.

    Any variable can be asked for; one that isn't there is undefined, and says that of ``whose``. What it
    lists leaves out what would be no end, or work: the scopes within it, and layers that aren't ``listed``.
    """

    __slots__ = ("_scope", "_whose")

    def __init__(self, own: Scope, whose: str) -> None:
        self._scope = own
        self._whose = whose

    def __getitem__(self, name: str) -> Any:
        if name in self._scope:
            return self._scope[name]
        return missing(f"{self._whose} has no variable {name!r}", name, self._scope)

    def get(self, name: str, default: Any = None) -> Any:
        """A variable, or ``default``."""
        return self._scope.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._scope

    def __iter__(self) -> Iterator[str]:
        # the last layer holds Jinja2's own functions
        layers = [layer for layer in self._scope.layers[:-1] if layer.listed]
        return iter(dict.fromkeys(name for layer in layers for name in layer.values if name not in _ENDLESS))

    def __len__(self) -> int:
        return len(list(iter(self)))


def missing(message: str, name: str, known: Iterable[str]) -> Undefined:
    """What a template gets for something that isn't there: ``is defined`` and ``default`` work on it."""
    near = nearest(name, known)
    hint = f": did you mean {near}?" if near else ""
    return environment().undefined(message + hint, name=name)
