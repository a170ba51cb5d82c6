"""Which cards a service gets, and so its tensor parallel size.

A group is a set of cards that share full-speed links (``cards.groups``). What is handed out is a whole
group, or cards of the smallest groups that are larger; never an ad-hoc set across two of them. An automatic
size is a power of two: others don't divide the heads of the models at hand, and card allocators for these
cards know 1, 2, 4 and 8 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Choice = dict[str, tuple[int, ...]]


class NoChoiceError(ValueError):
    """What was asked for can't be had; the message says why."""


@dataclass(frozen=True)
class Wanted:
    """What one service asks for: ``tp`` None means automatic, ``cards`` None means any."""

    name: str
    tp: int | None = None
    cards: tuple[int, ...] | None = None


def power_of_two(number: int) -> int:
    """The largest power of two that is at most ``number``; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number > 0 else 0


def legal_set(size: int, free: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The first legal set of ``size`` cards among those that are ``free``, or None.

    >>> legal_set(4, [0, 1, 3, 4, 5, 6, 7], [[0, 1, 2, 3], [4, 5, 6, 7]])
    (4, 5, 6, 7)
    """
    if size == 1:
        return (free[0],) if free else None
    exact = [group for group in groups if len(group) == size]
    for group in exact:
        if set(group) <= set(free):
            return tuple(group)
    larger = [len(group) for group in groups if len(group) > size]
    if exact or not larger:
        return None
    for group in groups:
        if len(group) == min(larger):
            inside = [card for card in group if card in free]
            if len(inside) >= size:
                return tuple(inside[:size])
    return None


def _listed(cards: Sequence[int]) -> str:
    return ", ".join(str(card) for card in cards) or "none"


def _named(want: Wanted, usable: Sequence[int]) -> tuple[int, ...]:
    cards = want.cards or ()
    outside = [card for card in cards if card not in usable]
    if outside:
        raise NoChoiceError(
            f"{want.name}: card {_listed(outside)} is not in use here (cards.use: {_listed(usable)})"
        )
    if len(set(cards)) != len(cards) or not cards:
        raise NoChoiceError(
            f"{want.name}: cards are to be named once each, at least one (got {_listed(cards)})"
        )
    if want.tp is not None and want.tp != len(cards):
        raise NoChoiceError(
            f"{want.name}: tp {want.tp} needs {want.tp} cards, but {len(cards)} are named ({_listed(cards)})"
        )
    if want.tp is None and power_of_two(len(cards)) != len(cards):
        raise NoChoiceError(
            f"{want.name}: {len(cards)} cards make no tensor parallel group (1, 2, 4, 8); say tp to insist"
        )
    return tuple(cards)


def _automatic(
    wants: Sequence[Wanted], free: Sequence[int], groups: Sequence[Sequence[int]], min_tp: int
) -> Choice | None:
    size = power_of_two(len(free) // len(wants))
    while size >= max(min_tp, 1):
        left, chosen = list(free), {}
        for want in wants:
            cards = legal_set(size, left, groups)
            if cards is None:
                break
            chosen[want.name] = cards
            left = [card for card in left if card not in cards]
        else:
            return chosen
        size //= 2
    return None


def choose(
    wants: Sequence[Wanted], usable: Sequence[int], groups: Sequence[Sequence[int]], min_tp: int = 1
) -> Choice:
    """Cards of each service by its name, disjoint. Raises :class:`NoChoiceError`.

    Named cards first, then given sizes, then the automatic ones, which share what is left in equal parts: one
    automatic service alone gets the largest legal set there is.
    """
    chosen: Choice = {}
    free = list(usable)

    def take(want: Wanted, cards: tuple[int, ...]) -> None:
        for name, others in chosen.items():
            both = sorted(set(cards) & set(others))
            if both:
                raise NoChoiceError(f"{want.name} and {name} both ask for card {_listed(both)}")
        chosen[want.name] = cards
        free[:] = [card for card in free if card not in cards]

    for want in wants:
        if want.cards is not None:
            take(want, _named(want, usable))
    for want in wants:
        if want.cards is None and want.tp is not None:
            cards = legal_set(want.tp, free, groups)
            if cards is None:
                raise NoChoiceError(
                    f"{want.name}: no group of {want.tp} cards is free (free: {_listed(free)}; groups: "
                    f"{'; '.join(_listed(group) for group in groups)})"
                )
            take(want, cards)
    automatic = [want for want in wants if want.cards is None and want.tp is None]
    if automatic:
        found = _automatic(automatic, free, groups, min_tp)
        if found is None:
            names = ", ".join(want.name for want in automatic)
            raise NoChoiceError(
                f"{names}: the free cards ({_listed(free)}) make no {len(automatic)} group(s) of at least "
                f"{max(min_tp, 1)} card(s) each"
            )
        chosen.update(found)
    return {want.name: chosen[want.name] for want in wants}
