"""The variables that a template sees: layers, of which some hold templates and others only data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.errors import TaskFailed
from klops.playbook.pending import Pending


@dataclass(frozen=True)
class Layer:
    """Variables of one origin.

    ``templates``: strings were written by the author of the playbook or inventory and are rendered when used.
    Otherwise they are data, such as what a host answered, and are never looked at as templates.
    """

    values: Mapping[str, Any]
    templates: bool


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
                if isinstance(value, Pending) and value.nothing_known:
                    value.fail()
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
            if name in layer.values:
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
