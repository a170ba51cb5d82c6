"""``klops.cards``: which cards of the host work, and which of them services may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, View
from klops.actions.own import hostview
from klops.actions.own.cards import choosing, exclusion, naming, remedy, report, usable
from klops.actions.own.cards.diagnosis import asking
from klops.actions.own.cards.diagnosis.conclude import plain_reads
from klops.actions.own.cards.diagnosis.diagnose import UNTESTED, Diagnose, reads
from klops.actions.own.cards.look import evidence, identified
from klops.actions.own.cards.order import Order
from klops.actions.own.cards.record.standing import CardState, Standing, look
from klops.actions.own.cards.report import Apart
from klops.actions.own.cards.size import Size
from klops.cards.choice.selection import Wanted
from klops.cards.evidence.findings import NOTE
from klops.cards.evidence.standings import standings
from klops.cards.record.freshness import span
from klops.errors import KlopsError, TaskFailed, UsageError
from klops.inventory.settings import Settings

State = Literal["usable", "diagnosed", "checked", "learned", "listed", "excluded", "restored"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
#: States for which each card is looked at closely, in the plan itself.
_CLOSE = ("checked",)


class CardsParams(Params):
    """``state``: what is to be so, or known, of the cards.

    ``cards``: those that are meant, by index, range of indexes, node of the host, PCI address, UUID or
    serial (of ``diagnosed``, ``excluded``, ``restored``); ``reason`` and ``for_seconds``: of an exclusion;
    ``force``: without a test, although it fails, or although nobody sees who else holds the cards; ``tp``:
    that of this run; ``again``: of ``usable``, services that begin again whatever they do now, by ``names``
    or all; ``full``, ``serial``, ``budget`` (seconds): how it is tested; ``scan``: instead,
    bandwidth over size of message and number of ranks.
    """

    state: State
    cards: list[str] = Field(default=[])
    reason: str = ""
    for_seconds: Seconds | None = None
    force: bool = False
    again: bool = False
    names: list[str] | None = None
    tp: Size = None
    full: bool = False
    serial: bool = False
    scan: bool = False
    budget: Seconds | None = None


class CardsAction(Action[CardsParams]):
    """Reads what is known of the cards, and has them tested where that is asked for or needed."""

    name: ClassVar[str] = "klops.cards"
    params = CardsParams

    def probe(self, params: CardsParams, view: View) -> Probe:
        """What tells how the cards stand; a close look only where nothing else will be done."""
        close = params.state in _CLOSE
        return Probe(reads=reads(view.settings) if close else plain_reads(view.settings))

    def plan(self, params: CardsParams, view: View, seen: Seen) -> Plan:
        """Nothing to do where what is asked for is known; else one test, or one note."""
        settings = view.settings
        host = hostview.look(seen.replies, settings)
        standing = look(settings, host, seen.replies, check=view.check)
        if params.state == "listed":
            return _listed(view, standing, host)
        trouble = host.trouble()
        if trouble is not None:
            return Plan(failure=trouble)
        if params.state == "checked":
            return _checked(view, host, standing, seen)
        if host.at_rest or host.agent is None or not host.ours:
            if params.again:
                return Plan(message="services can't begin again here")  # and who is asked to do it says why
            return _no_agent(view, host, params)
        wanted, warnings = choosing.wants(settings, host, seen.replies, params.tp)
        try:
            if params.state == "usable":
                again = _again(params, settings)
                return usable.plan(view, host, standing, wanted, warnings, params.tp, again)
            named = naming.find(standing, params.cards)
        except KlopsError as error:
            return Plan(failure=remedy.named(error, view.host))
        nobody = identified.failure(host, settings, view.host)
        # a person's word on a card needs no node where its address is known
        if nobody is not None and not (_by_hand(params) and host.cards_from):
            return Plan(failure=nobody)
        if params.state == "excluded":
            return exclusion.excluded(view, host, standing, named, params.reason, params.for_seconds)
        if params.state == "restored":
            return exclusion.restored(view, standing, named, wanted, force=params.force)
        return _tested(params, view, host, standing, wanted, named)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As of every action; a test that could not be made has changed nothing."""
        result = super().apply(plan, ctx)
        if result.pop(UNTESTED, False):
            ctx.done.pop()
        return result


def _by_hand(params: CardsParams) -> bool:
    """Whether it is a person's word on cards, for which nothing is tested."""
    return params.state == "excluded" or (params.state == "restored" and params.force)


def _again(params: CardsParams, settings: Settings) -> list[str]:
    """Services that begin again; one that nobody knows is for klops.services to refuse."""
    named = settings.services if params.names is None else params.names
    return [name for name in named if name in settings.services] if params.again else []


def _no_agent(view: View, host: hostview.HostView, params: CardsParams) -> Plan:
    """Nobody in the container to ask: in check mode an earlier task may make or start it."""
    if host.at_rest:
        where = "isn't there" if host.container is None else f"is {host.container.state}"
        there = f"klops up {view.host} makes and starts it"
        what, hint = "cards are tested in it", there
        if _by_hand(params):
            # by the agent, as supervisors write such notes too; and the host need not have a Python
            what, hint = "notes on cards are written in it", f"{there}, then again"
        if params.state == "excluded":
            hint = f"until then klops.cards.use without these cards keeps services off them; {hint}"
        failure: KlopsError = TaskFailed(
            f"the container {where}, and {what}", code="container-absent", hint=hint
        )
    else:
        failure = host.silent_agent()
    if view.check and params.state == "usable":
        return Plan(unknown=f"the cards would be looked at, and tested if need be: {failure.message}")
    return Plan(failure=failure)


def _listed(view: View, standing: Standing, host: hostview.HostView) -> Plan:
    known = standing.known
    stale = [one.stale for one in standing.cards if one.used and one.stale]
    trouble = host.trouble()
    notes = ["what the last diagnosis came to can't be read: verdict.json below klops.root"]
    notes = notes if standing.unread else []
    if trouble is not None:
        # the host's clock and the notes are asked of the agent, in the container
        stale = [f"the container can't be asked: {trouble.message}"] if stale else []
        notes.append("; ".join(filter(None, (trouble.message, trouble.hint))))
    unread = asking.unread(host.baseline, view)
    notes += unread
    age = None if known.at is None or standing.now is None else standing.now - known.at
    result: dict[str, Any] = {
        "cards": report.listed(standing),
        "verdict": None
        if not known.result
        else {
            "at": known.at,
            "age": age,
            "stale": bool(stale),
            "why_stale": stale[0] if stale else "",
            "by": known.document.get("by") or "",
            "run": known.document.get("run") or "",
            "scope": known.result.get("scope"),
            "summary": known.result.get("summary") or "",
        },
        "baseline": {key: host.baseline.get(key) for key in ("at", "by")}
        if host.baseline and not unread
        else None,
        "baseline_unread": "; ".join(unread),
        "findings": [],
        "notes": notes,
    }
    out = len(standing.out)
    when = "never tested" if age is None else f"tested {span(age)} ago"
    return Plan(result=result, message=f"{len(standing.usable)} usable, {out} out of service; {when}")


def _checked(view: View, host: hostview.HostView, standing: Standing, seen: Seen) -> Plan:
    """Evidence without load. What could not be looked at is unknown, and so no pass."""
    settings = view.settings
    found = evidence.findings(
        seen.replies, settings, host, wanted=settings.cards.identities, learned=host.learned
    )
    apart = {
        index: Apart(one.verdict, one.reason, one.evidence, one.action)
        for index, one in standings([state.index for state in standing.cards], found).items()
    }
    cards = _by_evidence(standing, apart)
    result = {"cards": cards, "findings": report.findings(found), "notes": []}
    failure = report.failure({**result, "cards": [one for one in cards if one["used"]]}, view.host)
    blind = any(one.kind == evidence.NOT_READ and one.card is None for one in found)
    told = f"nothing {'that could be read ' if blind else ''}speaks against the cards"
    return Plan(
        result=result,
        message="" if failure is not None else told,
        failure=None if failure is None else failure.but(values=result),
        warnings=tuple(one.text for one in found if one.card is None and one.severity != NOTE),
    )


def _by_evidence(standing: Standing, apart: dict[int, Apart]) -> list[dict[str, Any]]:
    """Every card with the verdict of what was seen of it just now; an old test of it is evidence only."""
    cards = []
    for one in standing.cards:
        shown, seen = one.as_json(), apart.get(one.index)
        if seen is not None and one.present:
            told = {"verdict": seen.verdict, "reason": seen.reason, "action": seen.action}
            earlier = [f"its last test: {one.verdict}, {one.reason}"] if one.at is not None else []
            shown = {**shown, **told, "evidence": [*seen.evidence, *earlier]}
        cards.append({**shown, "used": one.used})
    return cards


def _tested(
    params: CardsParams,
    view: View,
    host: hostview.HostView,
    standing: Standing,
    wanted: Sequence[Wanted],
    named: Sequence[CardState],
) -> Plan:
    """A diagnosis that is asked for: of all cards that the settings use, noted ones too."""
    learned = params.state == "learned"
    if learned and view.settings.cards.baseline is not None:
        told = f"klops.cards.baseline is {view.settings.cards.baseline}, which is read and never written"
        hint = "delete the setting: then baseline.json below klops.root is written, and read"
        return Plan(failure=TaskFailed(f"nothing is learned: {told}", code="cards-baseline", hint=hint))
    strange = naming.unused(named)
    if strange is not None:
        return Plan(failure=strange)
    if view.check:
        return Plan(unknown="the cards would be tested by collectives")
    only = {one.index for one in named}
    if params.scan and len(only) == 1:
        hint = "name two at least, or none for all"
        return Plan(failure=UsageError("a scan measures cards together, and one is named", hint=hint))
    # a note that no test lifts is known before the test: the choice does without the card
    kept = tuple(one.index for one in standing.cards if one.kept)
    services = [replace(one, never=kept) for one in wanted or (Wanted(""),)]
    busy = {one.unit for one in standing.cards if one.unit}
    due = [one for one in services if one.name not in busy]
    order = Order(
        purpose="learned" if learned else "diagnosed",
        cards=tuple(
            one.index
            for one in standing.cards
            if one.used and one.present and (not only or one.index in only)
        ),
        wanted=tuple(due or services),
        asked=tuple(sorted(only)),
        advise=bool(due),
        leave={one.index: f"in use by {one.unit}" for one in standing.cards if one.unit},
        full=params.full or learned,
        serial=params.serial,
        scan=params.scan and not learned,
        budget=params.budget,
        force=params.force,
    )
    step = Diagnose(view.settings, order, "it was asked for")
    compares = order.purpose == "diagnosed" and not order.scan
    return Plan(steps=(step,), warnings=asking.unread(host.baseline, view) if compares else ())
