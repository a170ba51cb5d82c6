"""The plans of ``klops.cards`` for ``state: excluded`` and ``restored``: a person's word on cards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.base import Plan, View
from klops.actions.own.cards import naming, remedy, report
from klops.actions.own.cards.diagnosis.diagnose import Diagnose
from klops.actions.own.cards.order import Order
from klops.actions.own.cards.record import document as record
from klops.actions.own.cards.record import notes
from klops.actions.own.cards.record.notes import WriteNotes
from klops.actions.own.cards.record.standing import CardState, Standing
from klops.cards.record import quarantine
from klops.cards.record.freshness import span
from klops.errors import TaskFailed, UsageError
from klops.remote import whoami

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.cards.choice.selection import Wanted


def excluded(
    view: View,
    host: HostView,
    standing: Standing,
    named: Sequence[CardState],
    reason: str,
    seconds: float | None,
) -> Plan:
    """One note a card; nothing where one says the same already.

    A person's word that stands isn't cut short by another's: who wants that takes it back first.
    """
    if not named:
        return Plan(failure=UsageError("klops.cards: state excluded needs cards"))
    if seconds is not None and standing.now is None:
        return Plan(failure=TaskFailed("the host's clock could not be read, so no note can expire"))
    nobody = [str(one.index) for one in named if not quarantine.recognisable(one.identity)]
    if nobody:
        return Plan(failure=_nobody(", ".join(nobody)), result=_result(standing, named))
    expires = None if seconds is None or standing.now is None else round(standing.now + seconds, 3)
    by, due = whoami.user(), []
    before = {one.index: _by_hand(standing, one) for one in named}
    longer = [one for one in named if _shorter(expires, before[one.index])]
    if longer:
        told = "; ".join(f"card {one.index}: {_said(standing, before[one.index])}" for one in longer)
        listed = ",".join(str(one.index) for one in longer)
        hint = f"klops cards restore {view.host} {listed} takes that back; then exclude it anew"
        text = f"kept out of service for longer already: {told}"
        failure = TaskFailed(text, code="card-excluded", hint=hint)
        return Plan(failure=failure, result=_result(standing, named))
    for one in named:
        note = before[one.index]
        if note is None or (reason and note.get("reason") != reason) or expires != quarantine.ends(note):
            due.append(one)
    result = _result(standing, named)
    warnings = [
        f"card {one.index} was kept out of service before: {_said(standing, before[one.index])}"
        for one in due
        if before[one.index] is not None
    ]
    warnings += [
        f"{one.unit} runs on card {one.index} and goes on: that counts from its next start on, "
        f"as klops restart {view.host} --service {one.unit}"
        for one in named
        if one.unit
    ]
    if not due:
        return Plan(result=result, message="kept out of service already", warnings=tuple(warnings))
    add = tuple(
        quarantine.exclusion(
            one.identity,
            quarantine.HAND,
            reason or str((before[one.index] or {}).get("reason") or f"excluded by {by}"),
            by=by,
            at=standing.now,
            boot_id=standing.boot_id,
            driver=standing.driver,
            expires=expires,
            run=view.run,
        )
        for one in due
    )
    step = WriteNotes(view.settings, standing, tuple(due), add=add, result=result)
    return Plan(steps=(step,), result=result, warnings=tuple(warnings))


def _nobody(cards: str) -> TaskFailed:
    """A note is of a card, not of a number: the next card with this number is another one."""
    return TaskFailed(
        f"card {cards}: xpu-smi doesn't show it, and neither UUID, serial nor PCI address of it is known, "
        "so no note can be of it",
        code="card-missing",
        hint="klops.cards.use without it keeps services off it, also when it is back",
    )


def restored(
    view: View, standing: Standing, named: Sequence[CardState], wanted: Sequence[Wanted], *, force: bool
) -> Plan:
    """A test of the cards, which lifts the notes of those that pass; with ``force`` no test."""
    if not named:
        return Plan(failure=UsageError("klops.cards: state restored needs cards"))
    strange = naming.unused(named)
    if strange is not None and not force:
        # nothing is said of such a card by a test, and so nothing to put it back on
        return Plan(failure=strange, result=_result(standing, named))
    untold = [one for one in named if standing.known.cards and not (one.out or one.good or one.unit)]
    out = [one for one in named if one.out or one in untold]
    result = _result(standing, named)
    warnings = [f"card {one.index} is in service already" for one in named if one not in out]
    stuck = [one for one in out if one.note is not None and one.note.get("kind") not in quarantine.LIFTED]
    if stuck:
        told = "; ".join(f"card {one.index} is {one.out}" for one in stuck)
        hint = f"klops reap {view.host} puts it back as soon as that process is gone"
        return Plan(failure=TaskFailed(told, code="card-quarantined", hint=hint), result=result)
    if not out:
        return Plan(result=result, message="in service already", warnings=tuple(warnings))
    if force:
        lift = tuple(notes.lifting(one.identity, quarantine.LIFTED) for one in out)
        told = f"card {', '.join(str(one.index) for one in out)}: put back without a test"
        document = standing.known.document
        step = WriteNotes(
            view.settings,
            standing,
            tuple(out),
            lift=lift,
            result={**result, "forced": True},
            verdict=record.without(document, [one.identity for one in out]) if document else None,
        )
        return Plan(steps=(step,), result=result, warnings=(*warnings, told))
    busy = [one for one in out if one.unit]
    if busy:
        told = "; ".join(f"card {one.index}: in use by {one.unit}" for one in busy)
        asked = Order(purpose="restored", cards=(), restore=tuple(one.index for one in out))
        hint = remedy.untested(view.host, asked, [one.as_json() for one in busy])
        failure = TaskFailed(f"not to be tested: {told}", code="cards-busy", hint=hint)
        return Plan(failure=failure, result=result)
    if view.check:
        return Plan(unknown="the cards would be tested, and put back if they pass", warnings=tuple(warnings))
    absent = [one for one in out if not one.present or one.outside]
    if absent:
        told = "; ".join(
            f"card {one.index}: {'the container was made without it' if one.present else one.reason}"
            for one in absent
        )
        made = f"klops up {view.host} --recreate makes a container that has it"
        hint = made if any(one.present for one in absent) else ""
        failure = TaskFailed(f"not to be tested: {told}", code="card-missing", hint=hint)
        return Plan(failure=failure, result=result)
    cards = _with_partners(standing, [one.index for one in out])
    if len(cards) == 1 and len(standing.cards) > 1:
        warnings.append(_by_itself(view, standing, cards[0]))
    order = Order(
        purpose="restored",
        cards=cards,
        # of one card alone more is asked than that it works alone, unless that is all anybody wants
        wanted=tuple(wanted) if all(one.tp == 1 for one in wanted) else (),
        leave={one.index: f"in use by {one.unit}" for one in standing.cards if one.unit},
        restore=tuple(one.index for one in out),
    )
    step2 = Diagnose(view.settings, order, "before it is put back into service")
    return Plan(steps=(step2,), result=result, warnings=tuple(warnings))


def _with_partners(standing: Standing, cards: Sequence[int]) -> tuple[int, ...]:
    """These cards, and all others that are free to be tested with them: most faults show in collectives."""
    free = [one for one in standing.cards if one.used and one.present and not one.out and not one.unit]
    return tuple(sorted({*cards, *(one.index for one in free)}))


def _by_itself(view: View, standing: Standing, card: int) -> str:
    """What a test of one card alone is worth, and with whom it might be tested."""
    others = [one for one in standing.cards if one.out and one.present and not one.unit and not one.outside]
    listed = ",".join(str(one.index) for one in others)
    more = f": klops cards restore {view.host} {listed} tests them together" if len(others) > 1 else ""
    return f"card {card} may work alone and not with others, and none is free to be tested with it{more}"


def _by_hand(standing: Standing, card: CardState) -> Mapping[str, Any] | None:
    return next(
        (
            one
            for one in standing.notes or ()
            if one.get("kind") == quarantine.HAND and quarantine.same_card(one["card"], card.identity)
        ),
        None,
    )


def _shorter(expires: float | None, note: Mapping[str, Any] | None) -> bool:
    """Whether what ends at ``expires`` (None: never) ends before this note does."""
    if note is None or expires is None:
        return False
    until = quarantine.ends(note)
    return until is None or expires < until


def _said(standing: Standing, note: Mapping[str, Any] | None) -> str:
    """Reason and end of a note, for people."""
    until = quarantine.ends(note or {})
    left = "for ever" if until is None else f"for {span(until - (standing.now or 0.0))} more"
    return f"{(note or {}).get('reason')}, {left}"


def _result(standing: Standing, named: Sequence[CardState]) -> dict[str, Any]:
    return {
        "cards": [one.as_json() for one in named],
        "quarantine": notes.shown(standing.notes or (), standing),
        "in_use": report.in_use(named),
    }
