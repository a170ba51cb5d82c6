"""What follows from a diagnosis, by what it was made for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.own import hostreads, hostview
from klops.actions.own.cards import choosing, failing, remedy, report
from klops.actions.own.cards.diagnosis import asking
from klops.actions.own.cards.record import document as record
from klops.actions.own.cards.record import notes
from klops.actions.own.cards.record.standing import Standing, look
from klops.cards.record import quarantine
from klops.cards.xccl import bandwidth
from klops.cards.xccl.judging import words
from klops.cards.xccl.judging.judgement import SLOW
from klops.cards.xccl.results import DEGRADED, FAIL, HOST, INCONCLUSIVE, OK, STACK, Outcome, Sample
from klops.errors import TaskFailed
from klops.remote import whoami

if TYPE_CHECKING:
    from klops.actions.base import Context
    from klops.actions.own.cards.order import Order
    from klops.cards.choice.selection import Wanted
    from klops.inventory.settings import Settings
    from klops.remote.reads import Read


def plain_reads(settings: Settings) -> tuple[Read, ...]:
    """What tells how the cards stand, without a look at each."""
    found = (
        *hostreads.host(settings),
        *hostreads.quarantine(settings),
        hostreads.device_links(settings),
        *hostreads.cards(settings),
        hostreads.driver(),
        *choosing.reads(settings),
    )
    return tuple({read.key: read for read in found}.values())


def conclude(
    ctx: Context, settings: Settings, order: Order, standing: Standing, result: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The task's values. Raises TaskFailed with all of them when what was asked for isn't so."""
    if order.purpose == "usable":
        return _usable(ctx, settings, order, result)
    if order.purpose == "learned":
        return _learned(ctx, settings, order, standing, result)
    if order.purpose == "restored":
        return _restored(ctx, settings, order, standing, result)
    result = result if order.advise else report.unadvised(result)
    failure = report.failure(result, ctx.view.host, order.asked)
    if failure is not None:
        raise failure
    return result


def _now(
    ctx: Context, settings: Settings, order: Order
) -> tuple[Standing, list[Wanted], Mapping[str, Mapping[str, Any]]]:
    replies = ctx.remote.read(plain_reads(settings))
    host = hostview.look(replies, settings)
    wanted, _ = choosing.wants(settings, host, replies, order.tp)
    return look(settings, host, replies), wanted, host.units


def _usable(ctx: Context, settings: Settings, order: Order, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Whether all services can have cards now; they read again what is written down."""
    standing, wanted, units = _now(ctx, settings, order)
    if result["scope"] == INCONCLUSIVE:
        ctx.warn(f"whether the cards work is not known: {result['summary']}")
    elif result["recommended"] is None and order.wanted:
        split = _split(settings, order, standing, wanted, units)
        raise _unfit(result, ctx.view.host, *split)
    try:
        choice = choosing.chosen(settings, standing, wanted, units, anew=order.begin)
    except TaskFailed as error:
        failure = remedy.named(error, ctx.view.host)
        raise failure.but(values=_with(result, standing, {})) from error
    begun = {name: cards for name, cards in choice.items() if name in order.begin}
    unproven = standing.unproven(begun) or failing.suspect(standing, units, begun)
    if unproven and result["scope"] == INCONCLUSIVE:
        # what could not be tested is not good, and least of all a smaller group that nobody asked for
        raise TaskFailed(
            f"no service is put on cards that are not known to work together: {unproven}",
            code="cards-unknown",
            hint=f"klops up {ctx.view.host} tests again, klops.cards.budget gives it more time; "
            "klops.cards.diagnose: never begins without a test",
        ).but(values=_with(result, standing, {}))
    if unproven:
        ctx.warn(f"services begin on cards of which not all is known: {unproven}")
    slow = [text for cards in begun.values() for text in _slow(result, cards)]
    if slow:
        ctx.warn(f"services begin on cards that do worse than they should: {'; '.join(slow)}")
    return _with(result, standing, choice)


def _slow(result: Mapping[str, Any], group: Collection[int]) -> list[str]:
    """What is to be said of cards that a service gets and that serve, and of how they do together."""
    cards = [one for one in result["cards"] if one["verdict"] == DEGRADED and one["index"] in group]
    said = [f"card {one['index']}: {one['reason']}" for one in cards]
    known = {one["index"] for one in cards}
    for pair in result["pairs"]:
        ends = {pair["a"], pair["b"]}
        if pair["status"] == SLOW and ends <= {*group} and not ends & known:
            said.append(f"{words.cards(ends)} are slow together: {pair['reason']}")
    ratio = _against(result, group)
    if ratio is not None and ratio < bandwidth.ENOUGH and not said:
        said.append(f"{words.cards(group)} together have {ratio:.0%} of the learned bandwidth")
    return said


def _against(result: Mapping[str, Any], group: Collection[int]) -> float | None:
    """How a group's own test compares with what was learned; None where nothing was, or it had none."""
    learned = asking.bandwidths({"bandwidth": result["baseline"]}).get(len(group), {})
    samples = tuple(
        Sample(of["bytes"], of["rounds"], us=of["us"])
        for one in result["outcomes"]
        if {*one["cards"]} == {*group}
        for of in one["samples"]
    )
    return bandwidth.against(Outcome(tuple(group), OK, samples=samples), learned)


def _with(
    result: Mapping[str, Any], standing: Standing, choice: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    return {**report.usable_result(standing, choice, ""), "diagnosis": dict(result)}


def _split(
    settings: Settings,
    order: Order,
    standing: Standing,
    wanted: list[Wanted],
    units: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """Of the services that are to begin those that can't have cards, and why; and what the others could have.

    An earlier service has the better of it, as where all of them are served.
    """
    fit: list[Wanted] = []
    cant, could = dict[str, str](), dict[str, tuple[int, ...]]()
    for one in wanted:
        try:
            could = choosing.chosen(settings, standing, [*fit, one], units, anew=order.begin)
            fit.append(one)
        except TaskFailed as error:
            cant[one.name] = error.message
    return cant, {name: cards for name, cards in could.items() if name in order.begin}


def _unfit(
    result: Mapping[str, Any], host: str, cant: Mapping[str, str], could: Mapping[str, tuple[int, ...]]
) -> TaskFailed:
    why, told = result["why"], list[str]()
    verdict, hints = "no service can be put on the cards", [*result["hints"]]
    # where the host or the stack is to blame nobody could have any
    if cant and could and result["scope"] not in (STACK, HOST):
        verdict = f"{', '.join(cant)} can't be put on the cards"
        told = [reason for name, reason in cant.items() if name not in why]
        told += [f"{name} could have {words.cards(cards)}" for name, cards in could.items()]
        others = f"klops up {host} begins {', '.join(could)}"
        hints.append(f"with {', '.join(cant)} out of klops.services, or on other cards, {others}")
    text = "; ".join(filter(None, (result["summary"], why, *told, result["error"])))
    return TaskFailed(
        f"{verdict}: {text}",
        code="cards-unfit",
        hint="; ".join(hints) or f"klops doctor xccl {host} shows all of it",
    ).but(values={"diagnosis": dict(result)})


def _learned(
    ctx: Context, settings: Settings, order: Order, standing: Standing, result: Mapping[str, Any]
) -> Mapping[str, Any]:
    failure = report.failure(result, ctx.view.host)
    if failure is not None and not order.force:
        raise failure.but(
            message=f"nothing was learned, as not all is well: {failure.message}",
            hint="a baseline is that of a good host; --force takes this one's all the same",
        )
    if failure is not None:
        ctx.warn(f"learned from a host on which not all is well: {failure.message}")
    document = record.baseline(result, standing, by=whoami.user())
    notes.write(ctx, settings, {"baseline": document})
    return {**result, "baseline": document["bandwidth"]}


def _restored(
    ctx: Context, settings: Settings, order: Order, standing: Standing, result: Mapping[str, Any]
) -> Mapping[str, Any]:
    by = {card["index"]: card for card in result["cards"]}
    well = [index for index in order.restore if record.may_serve(result, by[index], standing)]
    noted = list(result["quarantine"])
    if well:
        lift = [notes.lifting(by[index], quarantine.LIFTED) for index in well]
        noted = notes.shown(notes.write(ctx, settings, {"lift": lift}), standing)
    values = {**result, "restored": well, "quarantine": noted}
    bad = [index for index in order.restore if index not in well]
    if not bad:
        return values
    told = "; ".join(f"card {index}: {by[index]['verdict']}, {by[index]['reason']}" for index in bad)
    partners: list[Mapping[str, Any]] = []
    if result["scope"] in (STACK, INCONCLUSIVE):
        told = f"{result['summary']} ({told})"
        partners = [card for card in result["cards"] if not card.get("tested")]
    code = "card-still-bad" if any(by[index]["verdict"] == FAIL for index in bad) else "cards-unknown"
    hint = remedy.unrestored(ctx.view.host, [by[index] for index in bad], partners)
    raise TaskFailed(f"not put back into service: {told}", code=code, hint=hint).but(values=values)
