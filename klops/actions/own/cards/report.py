"""The result object of a diagnosis, and what else is told of cards. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from klops.actions.own.cards import remedy
from klops.actions.own.cards.diagnosis import asking
from klops.actions.own.cards.record.standing import CardState, Standing
from klops.cards.evidence.findings import Finding
from klops.cards.xccl.results import CARD, DEGRADED, FAIL, INCONCLUSIVE, NONE, PASS, UNKNOWN, UNTESTED
from klops.errors import TaskFailed

_UNTESTED = "not tested this time"
#: What of the agent's answer is told as it is.
TOLD = (
    *("collectives_run", "rounds", "rank_processes", "renewed", "seconds", "backend", "device", "torch"),
    *("sizes", "order", "sure", "killed", "left", "notes"),
)


@dataclass(frozen=True)
class Apart:
    """What is said of a card that wasn't tested, or beside its test."""

    verdict: str
    reason: str
    evidence: tuple[str, ...] = ()
    action: str = "none"
    #: it can't be tested now
    left: bool = False


def report(
    said: Mapping[str, Any],
    standing: Standing,
    apart: Mapping[int, Apart],
    links: Mapping[tuple[int, int], str],
    learned: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The object of ``klops doctor xccl``: ``said`` is what the agent's ``xccl`` answered.

    ``learned`` is ``baseline.json``, with which bandwidths were compared.
    """
    found = said.get("diagnosis") or {}
    verdict = found.get("verdict") or {}
    tested = _tested(said)
    cards = [_card(one, tested.get(one.index), apart.get(one.index)) for one in standing.cards if one.used]
    recommended = found.get("recommended")
    groups = list((recommended or {}).values())
    summary = "; ".join([verdict["summary"], *_aside(cards)]) if verdict.get("summary") else ""
    why = str(found.get("why") or "")
    return {
        "cards": cards,
        # what the budget left over is no pair that was tested
        "pairs": [dict(pair) for pair in verdict.get("pairs") or () if pair.get("status") != UNTESTED],
        "scope": verdict.get("scope") or INCONCLUSIVE,
        "healthy": [card["index"] for card in cards if card["verdict"] == PASS],
        "excluded": [card["index"] for card in cards if card["verdict"] == FAIL],
        "recommended_tp": len(groups[0]) if len(groups) == 1 else None,
        "recommended_cards": sorted(index for group in groups for index in group),
        "recommended": None if recommended is None else {name: list(of) for name, of in recommended.items()},
        "verified": bool(found.get("verified")),
        **{key: said.get(key) for key in TOLD},
        "summary": summary,
        "why": "" if why in summary else why,
        "error": verdict.get("error") or "",
        "hints": list(verdict.get("hints") or ()),
        "links": [[a, b, kind] for (a, b), kind in sorted(links.items())],
        "outcomes": [dict(one) for one in found.get("outcomes") or ()],
        "baseline": {
            str(size): {str(count): gbps for count, gbps in of.items()}
            for size, of in asking.bandwidths(learned).items()
        },
        "driver": standing.driver,
        "boot_id": standing.boot_id,
    }


def _tested(said: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """What is said of each card that the test tells of: where there was no run of a card, that is not news.

    Where nothing shows which card each rank had, it is of all of them.
    """
    found = said.get("diagnosis") or {}
    ran = {index for one in found.get("outcomes") or () if one["runs"] for index in one["cards"]}
    cards = {int(index): of for index, of in ((found.get("verdict") or {}).get("cards") or {}).items()}
    return {index: of for index, of in cards.items() if index in ran or said.get("sure") is False}


#: What of a result is advice for services. A test of some cards only says nothing of the others, so none.
_ADVICE = ("recommended_tp", "recommended_cards", "recommended")


def unadvised(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a test that is for no service: without advice where services are to go."""
    return {**result, **dict.fromkeys(_ADVICE), "why": ""}


def alike(cards: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why cards were not tested, in a few words, those of which there is the same to say together."""
    found: dict[str, list[int]] = {}
    for card in cards:
        # who is gone is told in its own line
        reason = "not there" if card["missing"] else card["reason"]
        found.setdefault(reason, []).append(card["index"])
    return [f"card {', '.join(map(str, indexes))}: {reason}" for reason, indexes in found.items()]


def _aside(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be said of the cards that were no part of the test."""
    return alike(card for card in cards if not card["tested"] and card["reason"] != _UNTESTED)


def findings(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """What is about the host, and no card's. What is only worth knowing is no warning."""
    return [
        {
            "code": one.kind,
            "message": one.text,
            "hint": one.action,
            "severity": one.severity,
            "warning": one.severity in (DEGRADED, UNKNOWN),
        }
        for one in found
        if one.card is None
    ]


def _card(state: CardState, tested: Mapping[str, Any] | None, apart: Apart | None) -> dict[str, Any]:
    shown = state.as_json()
    if tested is None:
        if apart is None and state.out:
            # why it was left out is what there is to say of it
            verdict = FAIL if state.verdict == FAIL else UNKNOWN
            apart = Apart(verdict, state.out, state.evidence, state.action)
        if apart is not None and (apart.left or apart.verdict != PASS):
            told = {"verdict": apart.verdict, "reason": apart.reason, "action": apart.action}
            return {**shown, **told, "evidence": list(apart.evidence), "tested": False}
        untold: dict[str, Any] = {"verdict": UNKNOWN, "reason": _UNTESTED, "tested": False}
        return {**shown, **untold, **({} if apart is None else {"evidence": list(apart.evidence)})}
    more = () if apart is None else apart.evidence
    mild = apart is not None and apart.verdict == DEGRADED and tested.get("verdict") == PASS
    return {
        **shown,
        "verdict": DEGRADED if mild else tested.get("verdict"),
        "reason": apart.reason if mild and apart is not None else tested.get("reason") or "",
        "evidence": [*(tested.get("evidence") or ()), *more],
        "action": apart.action if mild and apart is not None else tested.get("action") or "none",
        "at": None,
        "age": 0.0,
        "stale": False,
        "tested": True,
    }


def failure(result: Mapping[str, Any], host: str, asked: Collection[int] = ()) -> TaskFailed | None:
    """The error for a check that did not pass: not every card is fit, or the fault is elsewhere.

    ``asked``: the cards that it is about, () for all. ``host``: its name, for the command that comes next.
    """
    cards = [card for card in result["cards"] if not asked or card["index"] in asked]
    by = {verdict: [card["index"] for card in cards if card["verdict"] == verdict] for verdict in _GRAVE}
    scope = result.get("scope")
    told = "; ".join(
        f"card {', '.join(map(str, by[verdict]))}: {verdict}" for verdict in _GRAVE if by[verdict]
    )
    lost = [one["message"] for one in result.get("findings") or () if one["severity"] == FAIL]
    # what is wrong with cards they tell themselves; without a test there is no scope
    if not told and scope in (NONE, CARD, None):
        if not lost or asked:
            return None
        hint = remedy.after(host, result, cards)
        return TaskFailed("; ".join(lost), code="cards-host", hint=hint).but(values=result)
    if by[FAIL] or by[DEGRADED]:
        code = "cards-bad"
    elif scope not in (NONE, None):
        code = f"cards-{scope}"
    else:
        code = "cards-unknown"
    said = result.get("summary") or told
    # what failed in the test is named in the summary, and of a fault that is no card's all are unknown
    more = told if by[DEGRADED] or scope in (NONE, None) else ""
    text = f"{said} ({more})" if more and more not in said else said
    return TaskFailed(text, code=code, hint=remedy.after(host, result, cards)).but(values=result)


_GRAVE = (FAIL, DEGRADED, UNKNOWN)


def listed(standing: Standing, extra: Mapping[int, Apart] | None = None) -> list[dict[str, Any]]:
    """Every card of the host as it is known, with what was just seen of it."""
    found = []
    for one in standing.cards:
        apart = (extra or {}).get(one.index)
        shown = one
        if apart is not None:
            worse = _worse(one.verdict, apart.verdict)
            reason = one.reason if worse == one.verdict and one.reason else apart.reason
            shown = replace(
                one,
                verdict=worse,
                reason=reason,
                evidence=(*apart.evidence, *one.evidence),
                action=apart.action if apart.action != "none" else one.action,
            )
        found.append(shown.as_json())
    return found


_ORDER = (PASS, UNKNOWN, DEGRADED, FAIL)


def _worse(one: str, other: str) -> str:
    known = [verdict for verdict in (one, other) if verdict in _ORDER]
    return max(known, key=_ORDER.index, default=UNKNOWN)


def usable_result(standing: Standing, choice: Mapping[str, Sequence[int]], why: str) -> dict[str, Any]:
    """What the state ``usable`` registers."""
    return {
        "cards": listed(standing),
        "usable": list(standing.usable),
        "out": [{"index": o.index, "verdict": o.verdict, "reason": o.out} for o in standing.out],
        "fresh": not why,
        "why": why,
        "recommended": {name: list(cards) for name, cards in choice.items()},
    }


def in_use(states: Iterable[CardState]) -> list[dict[str, Any]]:
    """Those on which a unit runs."""
    return [{"card": one.index, "unit": one.unit} for one in states if one.unit]
