"""The cards' memory around a unit: enough of it before a start, and all of it back after a stop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.base import Context, Progress
from klops.actions.own import hostreads
from klops.actions.own.hostview import cards_of
from klops.actions.own.reap import looking
from klops.actions.own.reap.judge import whose
from klops.cards import memory
from klops.cards.memory import Use
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds for the driver to give memory back once its holders are gone, and between two looks.
GIVING_BACK, PAUSE = 30.0, 1.0
#: Seconds after which somebody else may be the one who holds it: then it isn't the driver that is awaited.
HELD_BY_OTHERS = 3.0


def uses(ctx: Context, settings: Settings) -> dict[str, Use]:
    """Memory of the cards by PCI address, read now; of those of which xpu-smi tells it."""
    cards, _ = cards_of(ctx.remote.read(hostreads.cards(settings)), settings)
    return {
        card.bdf: Use(card.memory_used_mib, card.memory_total_mib)
        for card in cards.cards
        if card.bdf and card.memory_used_mib is not None and card.memory_total_mib
    }


def before_start(ctx: Context, settings: Settings, spec: Mapping[str, Any]) -> dict[str, int]:
    """MiB in use on a unit's cards, by PCI address, while it doesn't run; {} where that can't be told.

    Raises TaskFailed where a start would ask for more than is free, and the agent itself can't see that.
    """
    indexes = {card["bdf"]: card["index"] for card in spec["cards"] if card.get("bdf")}
    if not indexes:
        return {}
    now = uses(ctx, settings)
    share = memory.utilisation(spec["argv"])
    if not spec.get("smi") and share is not None:
        unknown = sorted(index for bdf, index in indexes.items() if bdf not in now)
        if unknown:
            ctx.warn(
                f"{spec['name']}: whether card {', '.join(map(str, unknown))} has room for it is not known: "
                "xpu-smi does not tell its memory"
            )
        short = memory.short(dict.fromkeys(indexes, share), now)
        if short:
            listed = "; ".join(
                f"card {indexes[one.bdf]} ({one.bdf}) has {one.use.free} of {one.use.total} MiB free and "
                f"{one.asked} will be asked for"
                for one in short
            )
            raise TaskFailed(
                f"{spec['name']}: too little memory is free (--gpu-memory-utilization {share:g}): {listed}",
                code="memory-short",
                hint=f"klops reap {ctx.view.host} lists who holds the cards; or ask for less",
            )
    return {bdf: now[bdf].used for bdf in indexes if bdf in now}


def after_stop(ctx: Context, settings: Settings, name: str, said: Mapping[str, Any]) -> None:
    """Judge what the agent said of a unit that it has stopped; warns of what is worth knowing.

    Raises TaskFailed when a card goes on holding memory and nobody is seen who holds it.
    """
    for text in remarks(name, said):
        ctx.warn(text)
    found = said.get("memory")
    if not isinstance(found, Mapping):
        return  # an agent of an older klops; the one that comes next knows
    held: Sequence[Mapping[str, Any]] = found.get("held") or ()
    if found.get("state") == "unknown":
        idle = said.get("idle") or {}
        left = _given_back(ctx, settings, name, idle) if idle else None
        if left is None:
            ctx.warn(
                f"whether the memory of {name}'s cards was given back can't be told: {found.get('why')}; "
                "xpu-smi -m on the host shows what is in use"
            )
            return
        held = left
    if held:
        _named(ctx, settings, name, held)


def _given_back(
    ctx: Context, settings: Settings, name: str, idle: Mapping[str, int]
) -> list[Mapping[str, Any]] | None:
    """Cards that go on holding more than before the start; None where xpu-smi doesn't tell.

    They are waited for, but not where each of them is held by somebody who lives: of the unit nobody does.
    """
    begun = time.monotonic()
    looked = False
    while True:
        cards, _ = cards_of(ctx.remote.read(hostreads.cards(settings)), settings)
        index = {card.bdf: card.index for card in cards.cards}
        left = memory.returned(idle, uses(ctx, settings))
        if left is None:
            return None
        waited = time.monotonic() - begun
        due = not left or waited > GIVING_BACK
        if not due and not looked and waited > HELD_BY_OTHERS:
            looked = True
            seen, _ = looking.around(ctx.remote, settings)
            held = seen.held() if seen is not None else {}
            due = all(held.get(index.get(one.bdf, -1)) for one in left)
        if due:
            return [{"index": index.get(one.bdf), **one._asdict()} for one in left]
        ctx.progress(Progress(f"waiting for the memory of {name}'s cards to be given back"))
        time.sleep(PAUSE)


def _named(ctx: Context, settings: Settings, name: str, held: Sequence[Mapping[str, Any]]) -> None:
    """What remains must be somebody's: a warning that names them. Raises TaskFailed when it is nobody's."""
    text = "; ".join(
        f"card {one.get('index')} ({one.get('bdf')}) has {one.get('used')} MiB in use, "
        f"{one.get('before')} before {name} was started"
        for one in held
    )
    seen, why = looking.around(ctx.remote, settings)
    holders: Mapping[Any, Sequence[Mapping[str, Any]]] = seen.held() if seen is not None else {}
    nobody = [one for one in held if not holders.get(one.get("index"))]
    if nobody:
        why = f"who holds it can't be seen: {why}" if why else "nobody is seen to hold it"
        raise TaskFailed(
            f"{name} is stopped, but its memory is not given back: {text}; {why}",
            hint="the driver may need long, or a reset of the card: xpu-smi -m and dmesg on the host tell",
            code="memory-held",
        )
    who = {whose(process) for one in held for process in holders[one.get("index")]}
    ctx.warn(f"{text}; held by {'; '.join(sorted(who))}")


def remarks(name: str, said: Mapping[str, Any]) -> list[str]:
    """Warnings about a stop that was done: KILL was needed, or dead processes stay."""
    found = []
    killed = said.get("escalated") or ()
    if killed:
        listed = ", ".join(f"{one.get('name')} (pid {one.get('cpid')} in the container)" for one in killed)
        found.append(f"{name} did not end when it was asked to; ended by KILL: {listed}")
    defunct = unreaped(said.get("defunct"))
    return [*found, defunct] if defunct else found


def unreaped(defunct: Any) -> str:
    """A warning about dead processes that the container's main process doesn't wait for; "" for none."""
    if not isinstance(defunct, Mapping) or not defunct.get("count"):
        return ""
    return (
        f"{defunct['count']} defunct process(es) stay under the container's main process "
        f"({defunct.get('init')}), which does not reap: they hold nothing, but their numbers; "
        "docker run --init gives a container an init that does"
    )
