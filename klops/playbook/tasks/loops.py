"""The turns of a loop: what each is about, and the variables that tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.errors import TaskFailed
from klops.playbook.model import LoopControl


@dataclass(frozen=True)
class Turn:
    """One turn of a loop. A task without a loop has one turn, which has no variables."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    item: Any = None

    @property
    def key(self) -> str:
        """Tells turns of one task apart, as far as they differ."""
        return repr(self.item) if self.variables else ""


#: of a task without a loop
ONLY = Turn()


def turns(found: Any, control: LoopControl) -> list[Turn]:
    """A turn for each item. Raises :class:`TaskFailed` when ``found``, what the loop gave, is no list."""
    if not isinstance(found, list):
        hint = "loop over its entries: | dict2items" if isinstance(found, Mapping) else ""
        raise TaskFailed(f"loop gave {type(found).__name__}, not a list", hint=hint, code="loop")
    return [Turn(_variables(found, place, control), item) for place, item in enumerate(found)]


def _variables(items: Sequence[Any], place: int, control: LoopControl) -> dict[str, Any]:
    found: dict[str, Any] = {control.loop_var: items[place], "ansible_loop_var": control.loop_var}
    if control.index_var:
        found |= {control.index_var: place, "ansible_index_var": control.index_var}
    if control.extended:
        found["ansible_loop"] = _extended(items, place)
    return found


def _extended(items: Sequence[Any], place: int) -> dict[str, Any]:
    """``ansible_loop``; as in Ansible the first turn has no ``previtem`` and the last no ``nextitem``."""
    count = len(items)
    found: dict[str, Any] = {
        "allitems": list(items),
        "index": place + 1,
        "index0": place,
        "first": place == 0,
        "last": place == count - 1,
        "length": count,
        "revindex": count - place,
        "revindex0": count - place - 1,
    }
    if place:
        found["previtem"] = items[place - 1]
    if place < count - 1:
        found["nextitem"] = items[place + 1]
    return found
