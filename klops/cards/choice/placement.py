"""Which services get which sets of cards at the same time: the search. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.cards.choice.groups import ANY, NO, SOUND, listed, power_of_two
from klops.cards.choice.models import misfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from klops.cards.choice.groups import Parts, Stock
    from klops.cards.choice.selection import Choice, Wanted

    #: a service, the size it gets, and of which groups that may be a part
    Place = tuple[str, int, Parts]


def _placed(places: Sequence[Place], host: Stock, dead: set[tuple[int, tuple[int, ...]]]) -> Iterator[Choice]:
    """Disjoint sets for all places, the first place's best ones first. ``dead``: what was tried in vain."""
    if not places:
        yield {}
        return
    state = (len(places), host.free)
    if state in dead:
        return
    fruitless = True
    name, size, parts = places[0]
    for cards in host.healthiest(size, parts):
        for others in _placed(places[1:], host.without(cards), dead):
            fruitless = False
            yield {name: cards, **others}
    if fruitless:
        dead.add(state)


def _unfit(wants: Sequence[Wanted], size: int, min_tp: int) -> str:
    """Why automatic services can't have this size whatever the cards, "" when they can."""
    for want in wants:
        why = misfit(want.heads, size)
        if not why and size < want.least:
            why = f"the weights need at least {want.least} cards"
        if why:
            return f"{why} ({want.name})"
    return f"below cards.min_tp {min_tp}" if wants and size < min_tp else ""


class Search:
    """All ways to place the services that don't name their cards, by the automatic size."""

    def __init__(self, wants: Sequence[Wanted], named: Choice, host: Stock, min_tp: int) -> None:
        """``named``: cards of those that name them, which nobody else gets."""
        self.named = named
        self.host = host.without([card for cards in named.values() for card in cards])
        self.min_tp = min_tp
        self.sized: list[Place] = [
            (want.name, want.tp, ANY) for want in wants if want.cards is None and want.tp is not None
        ]
        self.automatic = [want for want in wants if want.automatic]
        self.names = [want.name for want in wants]
        #: the automatic size if nothing were bad: smaller ones are a fallback
        self.intended = next((size for size in self.sizes() if self._first(size, self.host.healed(), ANY)), 0)

    def sizes(self) -> list[int]:
        """Automatic sizes from the largest that there are cards for; [0] when no service is automatic."""
        if not self.automatic:
            return [0]
        there = len(self.host.free) + len(self.host.bad) - sum(size for _, size, _ in self.sized)
        largest = power_of_two(there // len(self.automatic))
        return [1 << place for place in reversed(range(largest.bit_length()))]

    def _parts(self, size: int) -> Parts:
        """Of which groups automatic services may get parts: in a fallback of sound ones, where they share."""
        if size >= self.intended:
            return ANY
        return SOUND if len(self.automatic) > 1 else NO

    def _places(self, size: int, parts: Parts) -> list[Place]:
        return [*self.sized, *((want.name, size, parts) for want in self.automatic)]

    def _first(self, size: int, host: Stock, parts: Parts) -> Choice | None:
        if _unfit(self.automatic, size, self.min_tp):
            return None
        return next(_placed(self._places(size, parts), host, set()), None)

    def found(self) -> Iterator[Choice]:
        """All of them, best first."""
        for size in self.sizes():
            if _unfit(self.automatic, size, self.min_tp):
                continue
            for placed in _placed(self._places(size, self._parts(size)), self.host, set()):
                chosen = {**self.named, **placed}
                yield {name: chosen[name] for name in self.names}

    def missing(self) -> dict[int, str]:
        """Why each automatic size that is larger than the one to be had can't be had, largest first."""
        said: dict[int, str] = {}
        for size in self.sizes() if self.automatic else ():
            if self._first(size, self.host, self._parts(size)):
                break
            said[size] = _unfit(self.automatic, size, self.min_tp) or self._short(size, self._parts(size))
        return said

    def _short(self, size: int, parts: Parts) -> str:
        """Why the cards don't make the groups that are wanted."""
        said = []
        exact = [group for group in self.host.groups if len(group) == size]
        for group in exact:
            taken = [card for card in group if card not in self.host.free]
            why = self.host.fault(group) or (f"lacks card {listed(taken)}" if taken else "")
            if why:
                said.append(f"group {listed(group)} {why}")
        if not exact and parts != ANY:
            shared = ", and no larger one without a fault to share" if parts == SOUND else ""
            said.append(f"cards.groups has no group of this size{shared}")
        elif not exact and not any(len(group) > size for group in self.host.groups):
            said.append("no group of cards.groups is that large")
        count = len(self.sized) + len(self.automatic)
        if not said and count > 1:
            said.append(f"not for {count} services at once")
        return "; ".join(said) or f"not among the free cards ({listed(self.host.free)})"

    def failure(self) -> str:
        """What to say when there is nothing to be had."""
        free, groups = listed(self.host.free), "; ".join(listed(group) for group in self.host.groups)
        for place, (name, size, _) in enumerate(self.sized):
            if next(_placed(self.sized[: place + 1], self.host, set()), None) is None:
                return (
                    f"{name}: no group of {size} cards is free (free: {free}; groups: {groups}): "
                    f"{self._short(size, ANY)}"
                )
        why = "".join(f"; tp {size}: {why}" for size, why in self.missing().items())
        least, count = max(self.min_tp, 1), len(self.automatic)
        return (
            f"{', '.join(want.name for want in self.automatic)}: of the free cards ({free}) "
            + ("no group" if count == 1 else f"not {count} groups")
            + f" of {least} card{'s' if least > 1 else ''} or more can be had{why}"
        )
