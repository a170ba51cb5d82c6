"""Templates that an inventory holds: what they may name before a run has begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from klops.errors import TaskFailed, UsageError
from klops.playbook.tasks.magic import HostVars
from klops.playbook.template.scope import Layer, Scope
from klops.playbook.template.templar import Templar, scope

if TYPE_CHECKING:
    from klops.inventory import Inventory


def others(inventory: Inventory, extra: Mapping[str, Any]) -> Layer:
    """``hostvars`` and ``groups``, as far as an inventory and ``-e`` know them."""
    found: dict[str, Any] = {"groups": {name: list(inventory.members(name)) for name in inventory.groups}}

    def of(name: str) -> Scope:
        own = Layer(inventory.variables(name, extra=extra), templates=True)
        return scope(own, Layer(found, templates=False))

    found["hostvars"] = HostVars(tuple(inventory.hosts), of)
    return Layer(found, templates=False)


def renderer(variables: Mapping[str, Any], around: Layer) -> Callable[[str], Any]:
    """Renders texts with a host's variables; ``around`` is what :func:`others` gives.

    What it returns raises :class:`UsageError`.
    """
    templar = Templar(scope(Layer(variables, templates=True), around))

    def render(text: str) -> Any:
        try:
            return templar.render(text)
        except TaskFailed as error:
            raise UsageError(error.message, hint=error.hint) from error

    return render
