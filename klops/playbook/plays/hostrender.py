"""Renders the templates in settings and connection variables, which are rare: made when there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.inventory import Inventory
    from klops.playbook.template.scope import Layer


class HostRenderers:
    """By host, what renders its texts with its variables in the inventory and those of ``-e``.

    What it gives raises :class:`klops.errors.UsageError`.
    """

    def __init__(self, inventory: Inventory, extra: Mapping[str, Any]) -> None:
        self._inventory = inventory
        self._extra = extra

    def __call__(self, host: str) -> Callable[[str], Any]:
        """Renders texts of one host."""

        @cache
        def made() -> Callable[[str], Any]:
            # only now: a command without templates does without Jinja2
            from klops.playbook.plays.inventorytemplates import renderer

            return renderer(self._inventory.variables(host, extra=self._extra), self._others)

        return lambda text: made()(text)

    @cached_property
    def _others(self) -> Layer:
        """What all hosts share: it takes a look at each."""
        from klops.playbook.plays.inventorytemplates import others

        return others(self._inventory, self._extra)
