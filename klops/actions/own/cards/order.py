"""What a diagnosis is asked for. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from klops.cards.choice.selection import Wanted


@dataclass(frozen=True)
class Order:
    """What is to be tested, and what follows from it."""

    purpose: Literal["usable", "diagnosed", "learned", "restored"]
    cards: tuple[int, ...]
    wanted: tuple[Wanted, ...] = ()
    first: tuple[tuple[int, ...], ...] = ()
    #: cards that are left out from the start, and why
    leave: Mapping[int, str] = field(default_factory=dict)
    #: units that are about to begin: what they left behind is no stranger's
    begin: frozenset[str] = frozenset()
    #: those of them that were ready, and were stopped for the test
    ready: tuple[str, ...] = ()
    #: tensor parallelism of this run, whatever the settings say
    tp: Literal["auto"] | int | None = None
    full: bool = False
    serial: bool = False
    scan: bool = False
    budget: float | None = None
    force: bool = False
    #: of a diagnosis of some cards: only these are to be fit
    asked: tuple[int, ...] = ()
    #: whether there is a service of which it says which cards it is to get
    advise: bool = True
    #: cards whose notes are lifted if they pass
    restore: tuple[int, ...] = ()
