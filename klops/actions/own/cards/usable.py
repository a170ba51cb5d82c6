"""The plan of ``klops.cards`` for ``state: usable``: do the cards work that services are to begin on?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from klops.actions.base import Plan, Step, View
from klops.actions.own.cards import choosing, failing, report
from klops.actions.own.cards.diagnosis import asking
from klops.actions.own.cards.diagnosis.diagnose import Diagnose
from klops.actions.own.cards.look import identified
from klops.actions.own.cards.order import Order
from klops.actions.own.cards.record.standing import CardState, Standing, aged
from klops.actions.own.cards.size import Size
from klops.actions.own.services.steps import Verb
from klops.actions.own.services.stop import UNKNOWN_STOP, stop_timeout
from klops.actions.own.supervision import Supervise
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.cards.choice.selection import Wanted
    from klops.inventory.settings import Settings


def plan(
    view: View,
    host: HostView,
    standing: Standing,
    wanted: list[Wanted],
    warnings: Sequence[str],
    tp: Size,
    again: Sequence[str] = (),
) -> Plan:
    """Nothing for services that stay as they are; a diagnosis where nothing good enough is known of the rest.

    ``again``: only of these services, which begin again whatever they do now. One that does so on the cards
    that it has is no reason for a test, unless it fails.

    Raises TaskFailed where services can't have the cards they ask for, whatever a test would say.
    """
    settings = view.settings
    if not settings.services:
        return Plan(result=report.usable_result(standing, {}, ""), message="the settings name no service")
    told = identified.untold(host, settings)
    if told:
        result = report.usable_result(standing, {}, told)
        return Plan(result=result, message=told, warnings=(*warnings, told))
    may_test = settings.cards.diagnose == "auto"
    anew = choosing.moved(standing, host.units, again)
    short: TaskFailed | None = None
    try:
        known = choosing.chosen(settings, standing, wanted, host.units, anew=anew)
    except TaskFailed as error:
        short, known = error, _where_they_are(wanted, host.units)
    due = _due(standing, host.units, wanted, known, again)
    if short is not None and not (due and may_test):
        raise short
    if not due:
        old = _old(standing, [index for cards in known.values() for index in cards])
        message = "services stay on the cards they have" if again else "services are ready"
        message += f"; of their cards {old}" if old else ""
        return Plan(
            result=report.usable_result(standing, known, ""),
            message=message,
            warnings=(*warnings, *_less(view, standing, wanted, known)),
        )
    why = "they don't suffice for all services"
    begun = {name: known[name] for name in due if name in known}
    if short is None:
        why = standing.doubtful or standing.unproven(begun) or failing.suspect(standing, host.units, begun)
    if not why or not may_test:
        good = [] if why else failing.cleared(standing, host.units, begun, view.host)
        return Plan(
            result=report.usable_result(standing, known, why),
            message=f"not tested, as klops.cards.diagnose is never: {why}"
            if why
            else "the cards that services begin on were tested",
            warnings=(*warnings, *good),
        )
    choice = _hoped_for(settings, standing, _pinned(wanted, known, due), host.units, anew)
    now = {name: choice[name] for name in due}
    if view.check:
        return Plan(unknown=f"the cards would be tested: {why}", warnings=tuple(warnings))
    stops = _stops(settings, host, due, now, leave=bool(again))
    ending = {step.unit for step in stops if isinstance(step, Verb)}
    order = Order(
        purpose="usable",
        cards=tuple(one.index for one in standing.cards if _testable(one, standing, ending)),
        wanted=tuple(one for one in wanted if one.name in due),
        first=tuple(now.values()),
        leave=_left_out(standing, ending),
        begin=frozenset(due),
        ready=tuple(name for name in due if host.units.get(name, {}).get("state") == "ready"),
        tp=tp,
    )
    first: tuple[Step, ...] = (Supervise(settings),) if host.alone and stops else ()
    return Plan(
        steps=(*first, *stops, Diagnose(settings, order, why)),
        result=report.usable_result(standing, choice, why),
        warnings=(*warnings, *asking.unread(host.baseline, view)),
    )


def _due(
    standing: Standing,
    units: Mapping[str, Mapping[str, Any]],
    wanted: Sequence[Wanted],
    known: choosing.Choice,
    again: Sequence[str],
) -> list[str]:
    """Services that are about to begin on cards of which more has to be known than that they had them."""
    if not again:
        return [one.name for one in wanted if not _settled(units.get(one.name), known.get(one.name, ()))]
    stay = {name: cards for name, cards in known.items() if units.get(name, {}).get("cards") == list(cards)}
    failed = [name for name in stay if failing.suspect(standing, units, {name: stay[name]})]
    return [name for name in again if name not in stay or name in failed]


def _where_they_are(
    wanted: Sequence[Wanted], units: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[int, ...]]:
    """The cards of services that are ready: what others lack is no reason to end them."""
    ready = {name: unit for name, unit in units.items() if unit.get("state") == "ready"}
    return {one.name: tuple(ready[one.name]["cards"]) for one in wanted if one.name in ready}


def _pinned(wanted: Sequence[Wanted], known: choosing.Choice, due: Sequence[str]) -> list[Wanted]:
    """What is asked for, with services that stay as they are on the cards that they have."""
    return [
        one
        if one.name in due or one.name not in known
        else replace(one, cards=known[one.name], tp=len(known[one.name]))
        for one in wanted
    ]


def _hoped_for(
    settings: Settings,
    standing: Standing,
    wanted: list[Wanted],
    units: Mapping[str, Mapping[str, Any]],
    anew: Collection[str],
) -> choosing.Choice:
    """What services would get if cards that failed once pass this time. Raises TaskFailed.

    A card that failed once is given a second look before that costs anybody a part of the host for longer.
    """
    try:
        return choosing.chosen(settings, standing.retried(), wanted, units, anew=anew)
    except TaskFailed:
        return choosing.chosen(settings, standing.retried(noted=True), wanted, units, anew=anew)


def _settled(unit: Mapping[str, object] | None, cards: Sequence[int]) -> bool:
    """Whether a service is ready on these cards: that they work is seen there, whatever a test once said."""
    return unit is not None and unit.get("state") == "ready" and unit.get("cards") == list(cards)


def _less(view: View, standing: Standing, wanted: list[Wanted], known: choosing.Choice) -> list[str]:
    """Services that stay on fewer cards than they might have, as nobody knows whether the others work."""
    try:
        best = choosing.chosen(view.settings, standing, wanted, {}, anew=None)
    except TaskFailed:
        return []
    untold = [one for one in standing.cards if one.used and not one.out and not one.good]
    if not standing.known.cards:
        return []
    listed = ",".join(str(one.index) for one in untold if not one.unit)
    return [
        f"{name} stays with TP={len(cards)}, as it is not known whether card {listed} works: "
        f"klops cards restore {view.host} {listed} tests that"
        for name, cards in known.items()
        if len(cards) < len(best[name]) and listed
    ]


def _stops(
    settings: Settings, host: HostView, due: Sequence[str], now: choosing.Choice, *, leave: bool
) -> list[Step]:
    """What runs and isn't to stay as it is ends before cards are tested that it may hold.

    ``leave``: services that the settings don't name are nobody's business this time.
    """
    found: list[Step] = []
    for name, unit in host.units.items():
        leaving = name not in settings.services and not leave
        if (name in due or leaving) and unit.get("state") not in ("stopped", "failed"):
            gain = choosing.gain(unit, now.get(name, ()))
            why = "; ".join(filter(None, (gain, "before its cards are tested")))
            why = "no longer in the settings" if leaving else why
            timeout = UNKNOWN_STOP if leaving else stop_timeout(settings, name)
            found.append(Verb(settings, "stop", name, why, timeout))
    return found


def _testable(one: CardState, standing: Standing, ending: set[str]) -> bool:
    return one.used and one.present and one.index not in _left_out(standing, ending)


def _left_out(standing: Standing, ending: set[str]) -> dict[int, str]:
    """Cards that aren't tested for a start, and why.

    One that is noted for its failures is tested again when the host was booted or its driver changed since;
    else only when that is asked for.
    """
    found: dict[int, str] = {}
    for one in standing.cards:
        note = one.note
        if one.unit and one.unit not in ending:
            found[one.index] = f"in use by {one.unit}"
        elif note is not None and note.get("kind") != "unknown" and not standing.outdated(one):
            found[one.index] = one.out
    return found


def _old(standing: Standing, indexes: Sequence[int]) -> str:
    """What is to be said of the age of what is known of these cards."""
    for one in standing.cards:
        if one.index in indexes and one.stale:
            return f"the last test is old: {aged(one)}"
    return ""
