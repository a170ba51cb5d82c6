"""What is kept of diagnoses on the host: ``verdict.json``, ``baseline.json``; who may serve again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from klops.actions.own.cards.record.known import BAD, BY_HAND, OF_ITS_TIME, Known
from klops.actions.own.cards.record.standing import Standing
from klops.cards.evidence.driver import changed
from klops.cards.record.freshness import counted, forgotten
from klops.cards.record.quarantine import VERDICT, same_card
from klops.cards.xccl import bandwidth
from klops.cards.xccl.results import (
    DEGRADED,
    ERROR,
    FAIL,
    HOST,
    INCONCLUSIVE,
    OK,
    PASS,
    STACK,
    TIMEOUT,
    UNKNOWN,
    UNTESTED,
    WRONG,
)

#: What is kept of a card between two diagnoses.
_KEPT = ("index", "minor", "node", "bdf", "uuid", "serial", "verdict", "reason", "evidence", "action", "at")
#: Ends of a test for which a card counts as bad.
FAILING = (WRONG, TIMEOUT, ERROR)


def clears(result: Mapping[str, Any], card: Mapping[str, Any], *, failed: bool) -> bool:
    """Whether this test says that a card works; of one that ``failed`` only where all of it can be told."""
    passed = bool(card.get("tested")) and card["verdict"] in (PASS, DEGRADED)
    return passed and not (failed and result.get("scope") in (STACK, INCONCLUSIVE))


def alone(result: Mapping[str, Any], index: int) -> str:
    """How this card's own test ended, "" where it had none."""
    own = [one["status"] for one in result["outcomes"] if list(one["cards"]) == [index]]
    return str(own[-1]) if own else ""


def works_alone(result: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Whether all that is known of it after this test is that it works by itself."""
    index = card["index"]
    ended = {one["status"] for one in result["outcomes"] if index in one["cards"]}
    only = card["verdict"] == UNKNOWN and alone(result, index) == OK and ended <= {OK, UNTESTED}
    return bool(card.get("tested")) and only and result.get("scope") not in (STACK, HOST)


def may_serve(result: Mapping[str, Any], card: Mapping[str, Any], standing: Standing) -> bool:
    """Whether this test takes back what is noted of a card.

    A card whose collectives fail works alone: only one that failed alone is well again when it works alone.
    """
    state = standing.of(card["index"])
    noted = [
        one for one in standing.notes or () if one.get("kind") == VERDICT and same_card(one["card"], card)
    ]
    earlier = standing.known.cards.get(card["index"], {})
    fell = earlier.get("verdict") == FAIL
    if clears(result, card, failed=bool(noted) or fell or (state is not None and state.failed)):
        return True
    said = [one.get("alone") for one in noted] or [fell and earlier.get("alone")]
    return all(said) and works_alone(result, card)


def document(
    result: Mapping[str, Any],
    standing: Standing,
    *,
    by: str,
    run: str,
    at: float | None,
    counts: bool = True,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What ``verdict.json`` is to hold, and failing diagnoses in a row by card.

    A card that wasn't tested keeps what was said of it, with the time of that, and so does one of which the
    test tells less than is known: only a test that it passes clears a card that failed, and that it works
    alone is no news of one that works with others. So does one that the settings don't use: other settings
    may. ``counts``: whether a failure counts for the row.
    """
    before = standing.known
    boot, driver = before.document.get("boot_id"), str(before.document.get("driver") or "")
    same = boot == standing.boot_id and not changed(standing.driver, driver)
    cards, cleared = [], set()
    for card in (*result["cards"], *_beside(result, standing)):
        earlier = before.cards.get(card["index"], {})
        failed = earlier.get("verdict") == FAIL
        if may_serve(result, card, standing):
            cleared.add(card["index"])
        less = same and earlier.get("verdict") in (PASS, DEGRADED) and works_alone(result, card)
        told = not failed or card["verdict"] == FAIL or card["index"] in cleared
        if card.get("tested") and told and not less:
            own = alone(result, card["index"]) in FAILING
            cards.append({**{key: card.get(key) for key in _KEPT}, "alone": own})
        elif earlier and (same or failed):
            more = (BY_HAND, "alone", *OF_ITS_TIME)
            kept = {key: earlier.get(key) for key in (*_KEPT, *(key for key in more if key in earlier))}
            kept = kept if same else {"boot_id": boot, "driver": driver, **kept, **_numbers(card)}
            cards.append({**kept, "index": card["index"], "at": before.at_of(card["index"])})
    known = same and all(i == of.get("index") for i, of in before.cards.items())
    count = counted(
        before.document.get("consecutive"),
        [
            (card, FAIL if card["verdict"] == FAIL else PASS)
            for card in result["cards"]
            if card.get("tested") and ((card["verdict"] == FAIL and counts) or card["index"] in cleared)
        ],
    )
    # one that isn't there is not to be forgotten: it would not be known any more who is gone
    gone = [card for card in result["cards"] if card["missing"] and card.get("bdf")]
    here = [_identity(card, standing) for card in (*cards, *gone)]
    return {
        "schema": 1,
        "at": at,
        "boot_id": standing.boot_id,
        "driver": standing.driver,
        "by": by,
        "run": run,
        "cards": [*here, *_unused(before, result, here)],
        "consecutive": count,
        "result": {**result, "cards": cards, **_groups(result, before, cleared if known else None)},
    }, count


def _beside(result: Mapping[str, Any], standing: Standing) -> list[dict[str, Any]]:
    """Cards that are here and that this diagnosis says nothing of, as the settings don't use them."""
    told = {card["index"] for card in result["cards"]}
    return [{**one.as_json(), "tested": False} for one in standing.cards if one.index not in told]


def _unused(
    before: Known, result: Mapping[str, Any], here: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Identities of the time before that are not ``here``, under numbers of no card that the settings use.

    Without their nodes: these are of that time.
    """
    told = {card["index"] for card in result["cards"]}
    return [
        {**one, **dict.fromkeys(("minor", "node"))}
        for one in before.document.get("cards") or ()
        if one.get("index") not in told and not any(same_card(one, card) for card in here)
    ]


def _numbers(card: Mapping[str, Any]) -> dict[str, Any]:
    """What of a card may be another after a boot."""
    return {key: card.get(key) for key in ("minor", "node")}


def _identity(card: Mapping[str, Any], standing: Standing) -> dict[str, Any]:
    """Who a card is, as it is written down; without a node that is only taken for its own."""
    state = standing.of(card["index"])
    guessed = state is not None and state.card is not None and not state.card.minor_known
    return {**{key: card.get(key) for key in _KEPT[:6]}, **({"minor": None, "node": None} if guessed else {})}


def _groups(result: Mapping[str, Any], before: Known, cleared: Collection[int] | None) -> dict[str, Any]:
    """Pairs and outcomes to keep: those of this time, and of earlier ones what these don't overrule.

    A group that failed is forgotten when it is tested again, alone or within a larger one that works, or when
    the cards that failed in it then are ``cleared``. One that worked is forgotten when a test with one of its
    cards fails. ``cleared`` None: the earlier ones are of another boot, another driver or other numbers.
    """
    told = [(frozenset(one["cards"]), one.get("status")) for one in result["outcomes"]]
    told += [(frozenset((pair["a"], pair["b"])), pair.get("status")) for pair in result["pairs"]]
    tested = {cards for cards, status in told if status != UNTESTED}
    well = {cards for cards, status in told if status == OK}
    hurt = {card for cards, status in told if status in BAD for card in cards}
    failed = {index for index, one in before.cards.items() if one.get("verdict") == FAIL}

    def stays(cards: frozenset[int], status: Any) -> bool:
        if cleared is None or cards in tested or status == UNTESTED:
            return False
        if status not in BAD:
            return not cards & hurt
        mended = bool(cards & failed) and cards & failed <= {*cleared}
        return not mended and not any(cards <= larger for larger in well)

    old = before.result
    pairs = [one for one in old.get("pairs") or () if stays(frozenset((one["a"], one["b"])), one["status"])]
    groups = [one for one in old.get("outcomes") or () if stays(frozenset(one["cards"]), one["status"])]
    return {"pairs": [*pairs, *result["pairs"]], "outcomes": [*groups, *result["outcomes"]]}


def without(document: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``verdict.json`` as if nothing had ever been found of these cards, nor of groups with one of them.

    What is left of them is a person's word that they may serve.
    """
    result = document.get("result") or {}
    gone = {
        said.get("index")
        for said in result.get("cards") or ()
        if any(same_card(said, card) for card in cards)
    }
    others = [one for one in result.get("cards") or () if one.get("index") not in gone]
    given = []
    for card in cards:
        then = next((o for o in result.get("cards") or () if same_card(o, card)), card)
        word = {"verdict": UNKNOWN, "reason": "put back into service without a test", BY_HAND: True}
        if then.get("index") not in {one.get("index") for one in others}:
            given.append({**{key: then.get(key) for key in _KEPT[:6]}, **word})
    told = {
        "cards": [*others, *given],
        "pairs": [one for one in result.get("pairs") or () if not {one.get("a"), one.get("b")} & gone],
        "outcomes": [one for one in result.get("outcomes") or () if not {*one.get("cards", ())} & gone],
        "recommended": None,
    }
    count = forgotten(document.get("consecutive"), cards)
    return {**document, "consecutive": count, "result": {**result, **told}}


def baseline(result: Mapping[str, Any], standing: Standing, *, by: str) -> dict[str, Any]:
    """What ``baseline.json`` is to hold: identities, links and bandwidths of a good host.

    Of groups of one size the slowest: links differ, and what is slower than that is slow.
    """
    sizes: dict[int, dict[int, float]] = {}

    def learn(world: int, count: int, gbps: float) -> None:
        if world > 1 and gbps > 0:
            of = sizes.setdefault(world, {})
            of[count] = round(min(gbps, of.get(count, gbps)), 3)

    for one in result["outcomes"]:
        cards = sorted(one.get("cards") or ())
        for sample in one.get("samples") or () if one.get("status") == OK else ():
            gbps = bandwidth.algorithm(int(sample["bytes"]), float(sample.get("us") or 0.0))
            learn(len(cards), int(sample["bytes"]), gbps)
    for row in result["scan"]:
        if not row.get("wrong"):
            learn(int(row["world"]), int(row["bytes"]), float(row.get("algbw") or 0.0))
    return {
        "schema": 1,
        "at": result["at"],
        "by": by,
        "boot_id": standing.boot_id,
        "driver": standing.driver,
        "cards": [_identity(one.identity, standing) for one in standing.cards if one.used and one.present],
        "links": result["links"],
        "bandwidth": {
            str(world): {str(count): gbps for count, gbps in sorted(of.items())}
            for world, of in sorted(sizes.items())
        },
    }
