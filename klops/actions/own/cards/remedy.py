"""What comes next where cards are not all well: commands with the host's name, to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.cards.xccl.results import FAIL, GROUP, HOST, INCONCLUSIVE, LINK, STACK, UNKNOWN
from klops.errors import E

if TYPE_CHECKING:
    from klops.actions.own.cards.order import Order

#: Stands for the host in hints of those who don't know what it is called.
_PLACE = "HOST"


def named(error: E, host: str) -> E:
    """The error with the name of the host in the commands of its hint."""
    return error.but(hint=error.hint.replace(_PLACE, host)) if _PLACE in error.hint else error


def after(host: str, result: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> str:
    """After a check that did not pass; ``cards`` are those that it is about. Never empty."""
    known = map(str, result.get("hints") or ())
    return "; ".join([*known, *_next(host, result, cards)])


def _next(host: str, result: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> list[str]:
    again = f"klops doctor xccl {host}"
    if "pairs" not in result:
        # nothing was tested: that is what tells more, of cards that nobody uses
        return busy(host, cards, again) or [f"{again} tests the cards by collectives"]
    bad = " ".join(str(card["index"]) for card in cards if card["verdict"] == FAIL)
    scope, found = result.get("scope"), []
    if scope in (STACK, HOST):
        # with the container everything that runs in it would end
        running = busy(host, (card for card in result.get("cards") or () if card.get("in_use_by")), again)
        return running or [f"klops up {host} --recreate makes the container anew, {again} looks again"]
    if result.get("recommended_cards"):
        listed = ", ".join(map(str, result["recommended_cards"]))
        found.append(f"klops up {host} serves on card {listed}")
    if bad:
        found.append(f"klops cards exclude {host} {bad} keeps out for longer what is bad")
        found.append(f"klops cards restore {host} {bad} after a repair")
    unknown = [card for card in cards if card["verdict"] == UNKNOWN]
    found += busy(host, unknown, again)
    if not found and "recommended_cards" in result and result["recommended_cards"] is None:
        # some cards were named: most faults of one show only with others
        found.append(f"{again} tests all cards, each with others")
    elif not found and scope in (LINK, GROUP, INCONCLUSIVE):
        found.append(f"{again} --full tests all pairs")
    return found or [f"{again} looks again"]


def busy(host: str, cards: Iterable[Mapping[str, Any]], again: str) -> list[str]:
    """How cards come free that are in use; [] where none is."""
    found = list(cards)
    units = sorted({str(card["in_use_by"]) for card in found if card.get("in_use_by")})
    if units:
        return [f"klops down {host} ends {', '.join(units)}, then {again}"]
    if any(str(card.get("reason") or "").startswith("held by") for card in found):
        return [f"klops reap {host} shows who holds them and ends what is left of services, then {again}"]
    return []


def again(host: str, order: Order) -> str:
    """The command that asks for this test once more."""
    if order.purpose == "restored":
        return f"klops cards restore {host} {' '.join(map(str, order.restore))}"
    if order.purpose == "learned":
        return f"klops cards learn {host}"
    if order.purpose == "usable":
        return f"klops up {host}"
    only = "".join(f" --card {index}" for index in order.asked)
    return f"klops doctor xccl {host}{only}{' --scan' if order.scan else ''}"


def untested(host: str, order: Order, cards: Sequence[Mapping[str, Any]]) -> str:
    """After a test for which no card was free."""
    found = busy(host, cards, again(host, order)) or [f"klops doctor cards {host} shows what is in the way"]
    if order.purpose == "restored":
        found.append(f"or, where it was kept out by mistake: {again(host, order)} --force, without a test")
    return "; ".join(found)


def unrestored(
    host: str, cards: Sequence[Mapping[str, Any]], partners: Sequence[Mapping[str, Any]] = ()
) -> str:
    """After a test that did not put these cards back; ``partners``: good ones that it lacked."""
    words = " ".join(str(card["index"]) for card in cards)
    once = f"klops cards restore {host} {words}"
    if any(card["verdict"] == FAIL for card in cards):
        return f"{once} after a repair; --force puts back without a test also what is bad"
    return (
        "; ".join(busy(host, [*cards, *partners], once))
        or f"{once} tests again; --force puts back without a test"
    )
