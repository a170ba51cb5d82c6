"""Which cards a service gets, and so its tensor parallel size.

A group is a set of cards that share full-speed links (``cards.groups``). What is handed out is a whole
group, or cards of the smallest groups that are larger; never an ad-hoc set across two of them, and never two
cards that fail together. An automatic size is a power of two: others don't divide the heads of the models at
hand, and card allocators for these cards know 1, 2, 4 and 8 only.

When bad cards or links take away the size that automatic services would have had, the next smaller ones
count down to ``cards.min_tp``, but only as *whole* groups of ``cards.groups``; where services share, also as
shares of a group without a bad card or link. The rest of a broken group is not handed out: on a P800 jobs
are supported on whole quads, so with cards 1 and 6 bad nothing is left for one service. Whoever wants the
pair (2, 3) then says so: by a group of two in ``cards.groups``, or by a size or cards for the service. A size
that is given is not a fallback, and takes what is good of any group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.cards.choice.groups import Stock, listed, power_of_two
from klops.cards.choice.models import misfit
from klops.cards.choice.placement import Search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from klops.cards.choice.groups import Quality

    Choice = dict[str, tuple[int, ...]]


class NoChoiceError(ValueError):
    """What was asked for can't be had; the message says why."""


@dataclass(frozen=True)
class Wanted:
    """What one service asks for: ``tp`` None means automatic, ``cards`` None means any.

    ``heads``: attention heads and key-value heads of its model, None when they aren't known. ``least``: fewer
    cards can't hold its weights; of automatic sizes only, as who gives a size may know of weights that are
    quantised while they load. ``never``: cards that it isn't to get whatever a test says of them, and so
    nobody beside it.
    """

    name: str
    tp: int | None = None
    cards: tuple[int, ...] | None = None
    heads: tuple[int, int] | None = None
    least: int = 1
    never: tuple[int, ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Wanted:
        """From its fields, also after a way through JSON."""
        cards, heads = said.get("cards"), said.get("heads")
        return cls(
            name=said["name"],
            tp=said.get("tp"),
            cards=None if cards is None else tuple(cards),
            heads=None if heads is None else (heads[0], heads[1]),
            least=said.get("least", 1),
            never=tuple(said.get("never", ())),
        )

    @property
    def automatic(self) -> bool:
        """Whether it takes what there is."""
        return self.tp is None and self.cards is None


def legal_set(size: int, free: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The first legal set of ``size`` cards among those that are ``free``, or None.

    >>> legal_set(4, [0, 1, 3, 4, 5, 6, 7], [[0, 1, 2, 3], [4, 5, 6, 7]])
    (4, 5, 6, 7)
    """
    return next(Stock(tuple(free), tuple(map(tuple, groups))).sets(size), None)


def _named(want: Wanted, host: Stock) -> tuple[int, ...]:
    """The cards that a service names. Raises :class:`NoChoiceError` when they make no sense."""
    cards = want.cards or ()
    bad = [card for card in cards if card in host.bad]
    outside = [card for card in cards if card not in host.free and card not in host.bad]
    if outside:
        raise NoChoiceError(
            f"{want.name}: card {listed(outside)} is not in use here (cards.use: {listed(host.free)})"
        )
    if bad:
        raise NoChoiceError(f"{want.name}: card {listed(bad)}, which it names, is bad")
    if len(set(cards)) != len(cards) or not cards:
        raise NoChoiceError(
            f"{want.name}: cards are to be named once each, at least one (got {listed(cards)})"
        )
    if want.tp is not None and want.tp != len(cards):
        raise NoChoiceError(
            f"{want.name}: tp {want.tp} needs {want.tp} cards, but {len(cards)} are named ({listed(cards)})"
        )
    if want.tp is None and power_of_two(len(cards)) != len(cards):
        raise NoChoiceError(
            f"{want.name}: {len(cards)} cards make no tensor parallel group (1, 2, 4, 8); say tp to insist"
        )
    why = misfit(want.heads, len(cards)) or host.fault(cards)
    if why:
        raise NoChoiceError(f"{want.name}: the cards it names ({listed(cards)}) won't do: {why}")
    return tuple(cards)


def _given(wants: Sequence[Wanted], host: Stock) -> Choice:
    """The cards that services name. Raises :class:`NoChoiceError`, also for a given size that can't be."""
    given: Choice = {}
    for want in wants:
        if want.cards is not None:
            cards = _named(want, host)
            for name, others in given.items():
                both = sorted(set(cards) & set(others))
                if both:
                    raise NoChoiceError(f"{want.name} and {name} both ask for card {listed(both)}")
            given[want.name] = cards
        elif want.tp is not None and misfit(want.heads, want.tp):
            raise NoChoiceError(f"{want.name}: tp {want.tp} won't do: {misfit(want.heads, want.tp)}")
    return given


def _search(
    wants: Sequence[Wanted],
    usable: Sequence[int],
    groups: Sequence[Sequence[int]],
    min_tp: int,
    bad_links: Iterable[Collection[int]],
    quality: Quality | None,
    bad: Collection[int],
) -> Search:
    bad = {*bad, *(card for want in wants for card in want.never)}
    host = Stock(
        free=tuple(card for card in usable if card not in bad),
        groups=tuple(map(tuple, groups)),
        bad=frozenset(bad),
        apart=tuple(map(frozenset, bad_links)),
        quality=quality,
    )
    return Search(wants, _given(wants, host), host, min_tp)


def choices(
    wants: Sequence[Wanted],
    usable: Sequence[int],
    groups: Sequence[Sequence[int]],
    min_tp: int = 1,
    bad_links: Iterable[Collection[int]] = (),
    quality: Quality | None = None,
    bad: Collection[int] = (),
) -> Iterator[Choice]:
    """All cards that the services may get, by their names and disjoint, best first; may be nothing.

    Best is the largest automatic size, then the healthiest bandwidth of the slowest pair inside (``quality``,
    GB/s), then the order of the groups; an earlier service has the better of it. ``bad``: cards that would be
    usable were they not bad; a card that is neither usable nor bad is merely not klops' to use.
    ``bad_links``: sets of cards that failed together, pairs or larger: none is handed out whole.
    """
    try:
        search = _search(wants, usable, groups, min_tp, bad_links, quality, bad)
    except NoChoiceError:
        return
    yield from search.found()


def choose(
    wants: Sequence[Wanted],
    usable: Sequence[int],
    groups: Sequence[Sequence[int]],
    min_tp: int = 1,
    bad_links: Iterable[Collection[int]] = (),
    quality: Quality | None = None,
    bad: Collection[int] = (),
) -> Choice:
    """The best of :func:`choices`. Raises :class:`NoChoiceError`, which says why each size can't be had.

    Named cards first, then given sizes, then the automatic ones, which share what is left in equal parts: one
    automatic service alone gets the largest legal set there is.
    """
    search = _search(wants, usable, groups, min_tp, bad_links, quality, bad)
    found = next(search.found(), None)
    if found is None:
        raise NoChoiceError(search.failure())
    return found


def shortfall(
    wants: Sequence[Wanted],
    usable: Sequence[int],
    groups: Sequence[Sequence[int]],
    min_tp: int = 1,
    bad_links: Iterable[Collection[int]] = (),
    bad: Collection[int] = (),
) -> dict[int, str]:
    """Why automatic services get no larger size than :func:`choose` gives them: by size, the largest first.

    Raises :class:`NoChoiceError` where a service's own settings make no sense.
    """
    return _search(wants, usable, groups, min_tp, bad_links, None, bad).missing()
