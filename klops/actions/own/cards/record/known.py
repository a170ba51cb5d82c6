"""What the last diagnosis said of the cards that are here now, whatever number they had then. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.cards.identity import Card
from klops.cards.record.form import moment
from klops.cards.record.quarantine import same_card

Pair = tuple[int, int]
#: States of a pair or a group that keep it out of service.
BAD = ("wrong", "flaky", "timeout", "error")


#: Key of what is on record of a card that somebody has put back without a test.
BY_HAND = "by_hand"
#: What a card's entry has where that isn't the document's own: the boot and the driver of its last test.
OF_ITS_TIME = ("boot_id", "driver")


@dataclass(frozen=True)
class Known:
    """``verdict.json`` in today's indexes. Empty where there is none."""

    document: Mapping[str, Any] = field(default_factory=dict)
    #: what was said of a card, by its index now
    cards: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    bad_links: tuple[Pair, ...] = ()
    #: algorithm bandwidth of pairs in GB/s
    quality: Mapping[frozenset[int], float] = field(default_factory=dict)
    #: groups of cards (one card too) by what came of their own test
    proven: frozenset[frozenset[int]] = frozenset()
    failed: frozenset[frozenset[int]] = frozenset()
    #: cards of each service that were proven last; None where none could be had
    recommended: Mapping[str, tuple[int, ...]] | None = None

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of the diagnosis, in the indexes of its time."""
        found = self.document.get("result")
        return found if isinstance(found, Mapping) else {}

    @property
    def at(self) -> float | None:
        """When it ended, epoch seconds by the host's clock."""
        return moment(self.document.get("at"))

    def at_of(self, index: int) -> float | None:
        """When this card was tested last."""
        if index not in self.cards:
            return None
        found = moment(self.cards[index].get("at"))
        return self.at if found is None else found

    @classmethod
    def of(cls, document: Mapping[str, Any] | None, cards: Sequence[Card]) -> Known:
        """Read a document; what names cards that aren't here is left out."""
        result = (document or {}).get("result")
        if not isinstance(result, Mapping) or document is None:
            return cls(document or {})
        told = [one for one in result.get("cards") or () if isinstance(one, Mapping)]
        numbers: dict[int, int] = {}
        for one in told:
            for card in cards:
                if isinstance(one.get("index"), int) and same_card(one, card.identity()):
                    numbers[one["index"]] = card.index

        def now(then: Any) -> tuple[int, ...] | None:
            listed = tuple(then or ())
            return tuple(numbers[index] for index in listed) if set(listed) <= set(numbers) else None

        pairs = [
            (between, pair)
            for pair in result.get("pairs") or ()
            if (between := now((pair.get("a"), pair.get("b")))) is not None
        ]
        groups = [
            (frozenset(group), one.get("status"))
            for one in result.get("outcomes") or ()
            if (group := now(one.get("cards")))
        ]
        said = result.get("recommended")
        recommended = {name: now(of) for name, of in said.items()} if isinstance(said, Mapping) else {}
        whole = {name: of for name, of in recommended.items() if of is not None}
        fails = {
            numbers[c["index"]] for c in told if c.get("verdict") == "fail" and c.get("index") in numbers
        }
        return cls(
            document=document,
            cards={numbers[one["index"]]: one for one in told if one.get("index") in numbers},
            bad_links=tuple(
                (min(a, b), max(a, b))
                for (a, b), pair in pairs
                if pair.get("status") in BAD and not {a, b} & fails
            ),
            quality={frozenset(ends): float(pair["gbps"]) for ends, pair in pairs if pair.get("gbps")},
            proven=frozenset(group for group, status in groups if status == "ok"),
            # what a bad card spoilt says nothing of the others, and that card is out by itself
            failed=frozenset(group for group, status in groups if status in BAD and not group & fails),
            recommended=whole if said and len(whole) == len(recommended) else None,
        )
