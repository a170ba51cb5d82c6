"""How the cards of a host stand: which may serve now, why the others don't, what is known of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from klops.actions.own import keptout
from klops.actions.own.cards.record.known import BY_HAND, OF_ITS_TIME, Known
from klops.actions.own.desired import container_indexes
from klops.cards.evidence.driver import changed
from klops.cards.identity import Card
from klops.cards.record import quarantine
from klops.cards.record.freshness import span, stale
from klops.cards.xccl.results import DEGRADED, FAIL, PASS, UNKNOWN

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings
    from klops.remote.base import Replies

#: States of a unit of which something runs that may hold its cards.
_HOLDS = ("starting", "ready", "unhealthy")


@dataclass(frozen=True)
class CardState:
    """One card that the settings use, or that is there. ``card`` is None for one that isn't there."""

    index: int
    identity: Mapping[str, Any]
    card: Card | None
    verdict: str
    reason: str
    evidence: tuple[str, ...] = ()
    action: str = "none"
    at: float | None = None
    age: float | None = None
    #: why the verdict is no longer good, "" where it is
    stale: str = ""
    note: Mapping[str, Any] | None = None
    #: the settings use it
    used: bool = True
    #: it is on the host, and its node too
    present: bool = True
    #: the container was made without it
    outside: bool = False
    #: it failed, but no note says so: that is for one start
    unconfirmed: bool = False
    #: somebody has put it back without a test
    by_hand: bool = False
    #: unit that runs on it
    unit: str = ""
    container_node: str | None = None
    container_index: int | None = None

    @property
    def out(self) -> str:
        """Why no service may be put on it; "" where one may."""
        if not self.present:
            return self.reason
        if self.outside:
            return "the container was made without it; klops up --recreate makes one that has it"
        if self.note is not None and self.note is not keptout.UNTOLD:
            return f"kept out of service: {self.note.get('reason')}"
        return f"failed: {self.reason}" if self.verdict == FAIL else ""

    @property
    def good(self) -> bool:
        """Whether it is known to work, by its last test or by the word of who put it back."""
        return not self.out and (self.verdict in (PASS, DEGRADED) or self.by_hand)

    @property
    def failed(self) -> bool:
        """Whether it failed when it was tested last, or is noted for that."""
        return self.verdict == FAIL or (self.note or {}).get("kind") == quarantine.VERDICT

    @property
    def kept(self) -> bool:
        """Whether it stays out of service whatever a test says: klops lifts no note but its own."""
        note = self.note
        return note is not None and note is not keptout.UNTOLD and note.get("kind") != quarantine.VERDICT

    def as_json(self) -> dict[str, Any]:
        """Everything that is shown of it."""
        shown = self.card.as_json() if self.card is not None else {**self.identity, "index": self.index}
        return {
            **shown,
            "container_node": self.container_node,
            "container_index": self.container_index,
            "verdict": self.verdict,
            "reason": self.reason,
            "evidence": list(self.evidence),
            "action": self.action,
            "quarantine": None if self.note is None else quarantine.told(self.note),
            "at": self.at,
            "age": self.age,
            "stale": bool(self.stale),
            "usable": self.used and not self.out,
            "missing": not self.present,
            "in_use_by": self.unit,
        }


@dataclass(frozen=True)
class Standing:
    """All cards, and what was found of them together."""

    cards: tuple[CardState, ...]
    known: Known = field(default_factory=Known)
    #: notes in force, None where they can't be read
    notes: Sequence[Mapping[str, Any]] | None = ()
    now: float | None = None
    boot_id: str = ""
    driver: str = ""
    #: what the last diagnosis came to is there, and can't be read
    unread: bool = False
    #: why it isn't certain which cards are gone, "" where none is or that is
    doubt: str = ""
    #: indexes of the cards of services that are ready
    serving: tuple[int, ...] = ()

    @property
    def usable(self) -> tuple[int, ...]:
        """Indexes that services may have."""
        return tuple(one.index for one in self.cards if one.used and not one.out)

    @property
    def out(self) -> tuple[CardState, ...]:
        """The others of those that the settings use."""
        return tuple(one for one in self.cards if one.used and one.out)

    def of(self, index: int) -> CardState | None:
        """The card with this index."""
        return next((one for one in self.cards if one.index == index), None)

    @property
    def doubtful(self) -> str:
        """What has to be tested once more before it counts; "" for nothing."""
        listed = [str(one.index) for one in self.cards if one.used and one.unconfirmed and one.present]
        return f"card {', '.join(listed)} failed, and is to be tested once more" if listed else ""

    def outdated(self, one: CardState) -> bool:
        """Whether it is noted for failures before the host was booted, or its driver changed."""
        note = one.note or {}
        other = changed(self.driver, str(note.get("driver") or "")) or note.get("boot_id") != self.boot_id
        return note.get("kind") == quarantine.VERDICT and other

    def retried(self, *, noted: bool = False) -> Standing:
        """As if cards that failed without being confirmed had not: they are to be tested once more.

        ``noted``: those too that are noted for what they did before the host was booted.
        """

        def anew(one: CardState) -> CardState:
            if not one.unconfirmed and not (noted and self.outdated(one)):
                return one
            return replace(one, verdict=UNKNOWN, reason="to be tested once more", note=None)

        known = replace(self.known, bad_links=(), failed=frozenset(), recommended=None)
        return replace(self, cards=tuple(map(anew, self.cards)), known=known)

    def sure(self, serving: Collection[int]) -> Standing:
        """As if only cards that are known to work might serve, beside those that do.

        Where no test is on record at all nothing hangs on tests, and all stays as it is.
        """
        if not self.known.cards:
            return self

        def doubted(one: CardState) -> CardState:
            if one.out or one.good or one.index in serving:
                return one
            return replace(one, verdict=FAIL, reason="not known to work")

        return replace(self, cards=tuple(map(doubted, self.cards)))

    def stale(self, indexes: Sequence[int]) -> str:
        """Why what is known isn't good enough to start services on these cards; "" where it is."""
        if not self.known.cards:
            return "what was found of them can't be read" if self.unread else "they were never tested"
        wanted = [one for one in self.cards if one.index in indexes]
        for one in wanted:
            if one.stale:
                return one.stale
        untold = [str(one.index) for one in wanted if one.verdict == UNKNOWN]
        return f"of card {', '.join(untold)} nothing is known" if untold else ""

    def unproven(self, chosen: Mapping[str, Sequence[int]]) -> str:
        """The same, with whether each of these groups has run together."""
        why = self.stale([index for cards in chosen.values() for index in cards])
        if why:
            return why
        for name, cards in chosen.items():
            if len(cards) > 1 and frozenset(cards) not in self.known.proven:
                return f"the cards of {name} ({', '.join(map(str, cards))}) were not tested together"
        return ""


def look(settings: Settings, host: HostView, replies: Replies, *, check: bool = False) -> Standing:
    """From what was read of the host. ``check``: an earlier task may yet make the container anew."""
    known = Known.of(host.verdict, host.cards.cards)
    notes = keptout.notes(host, replies)
    said = host.agent or {}
    now = said.get("now")
    whole = Standing(
        cards=(),
        known=known,
        notes=notes,
        now=float(now) if isinstance(now, (int, float)) else None,
        boot_id=host.boot_id,
        driver=host.driver,
        unread=host.verdict is None,
        doubt=host.missing.doubt,
        serving=_serving(host),
    )
    busy = busy_units(host)
    nodes = host.nodes if host.ours else {}
    inside = container_indexes(nodes.values())
    found = []
    for card in host.cards.cards:
        node = nodes.get(card.node)
        one = _state(settings, host, whole, card)
        found.append(
            replace(
                one,
                unit=busy.get(card.index, ""),
                outside=bool(nodes) and node is None and host.made and host.running and not check,
                container_node=node,
                container_index=None if node is None else inside.get(node),
            )
        )
    for index in host.missing.indexes:
        identity = host.missing.known.get(index, {})
        named = " = ".join(filter(None, (str(identity.get(k) or "") for k in ("bdf", "uuid", "serial"))))
        reason = f"xpu-smi doesn't show it{f' ({named})' if named else ''}"
        empty = {"minor": None, "node": None, "bdf": "", "uuid": "", "serial": ""}
        gone = CardState(index, {**empty, **identity}, None, FAIL, reason, action="inspect", present=False)
        found.append(gone)
    return replace(whole, cards=tuple(sorted(found, key=lambda one: one.index)))


def busy_units(host: HostView) -> dict[int, str]:
    """The unit that runs on each card, or may, by the card's index."""
    return {
        index: name
        for name, unit in host.units.items()
        if unit.get("lineage") or unit.get("state") in _HOLDS
        for index in unit.get("cards") or ()
    }


def _serving(host: HostView) -> tuple[int, ...]:
    ready = (unit for unit in host.units.values() if unit.get("state") == "ready")
    return tuple(sorted({index for unit in ready for index in unit.get("cards") or ()}))


def _state(settings: Settings, host: HostView, whole: Standing, card: Card) -> CardState:
    identity, used = card.identity(), card.index in settings.cards.indexes
    note = keptout.UNTOLD if whole.notes is None else quarantine.against(whole.notes, identity)
    if card.index in host.nodeless:
        reason = f"its node {card.node} is not on the host"
        # which card has lost it can't be told where the number of the node was only taken for this one's
        verdict = FAIL if card.minor_known else UNKNOWN
        return CardState(
            card.index, identity, card, verdict, reason, action="inspect", note=note, used=used, present=False
        )
    told = whole.known.cards.get(card.index)
    if told is None:
        return CardState(card.index, identity, card, UNKNOWN, "never tested", note=note, used=used)
    at = whole.known.at_of(card.index)
    document = {**whole.known.document, "at": at, **{key: told[key] for key in OF_ITS_TIME if key in told}}
    verdict, reason = str(told.get("verdict") or UNKNOWN), str(told.get("reason") or "")
    if verdict == FAIL and note is None and _past(whole, document):
        # one failure counts for this start, and a note for longer
        verdict, reason = UNKNOWN, f"failed before the host was booted or had this driver: {reason}"
    return CardState(
        card.index,
        identity,
        card,
        verdict,
        reason,
        tuple(map(str, told.get("evidence") or ())),
        str(told.get("action") or "none"),
        at=at,
        age=None if at is None or whole.now is None else max(0.0, round(whole.now - at, 1)),
        stale=stale(
            document,
            [identity],
            boot_id=whole.boot_id,
            driver=whole.driver,
            max_age=settings.cards.max_age,
            now=whole.now,
        ),
        note=note,
        used=used,
        unconfirmed=verdict == FAIL and note is None,
        by_hand=bool(told.get(BY_HAND)),
    )


def _past(whole: Standing, document: Mapping[str, Any]) -> bool:
    """Whether the host was booted since, or its driver changed; False where that isn't known."""
    booted = bool(whole.boot_id) and document.get("boot_id") != whole.boot_id
    return booted or changed(whole.driver, str(document.get("driver") or ""))


def aged(one: CardState) -> str:
    """How old a verdict is, and why it no longer counts, in a few words; "" for one that is good."""
    if not one.stale:
        return ""
    return f"{one.stale}" + (f" (tested {span(one.age)} ago)" if one.age is not None else "")
