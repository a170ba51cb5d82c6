"""Which cards each service gets, from how the cards stand. Pure."""

from __future__ import annotations

import contextlib
import itertools
import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from klops.actions.own.hostview import reply
from klops.actions.own.preflight.models import mounts_of
from klops.cards.choice import models
from klops.cards.choice.selection import NoChoiceError, Wanted, choices, choose
from klops.cards.memory import UTILISATION
from klops.commands.mounts import host_path
from klops.errors import TaskFailed
from klops.remote.reads import FileRead, Read

if TYPE_CHECKING:
    from klops.actions.own.cards.record.standing import Standing
    from klops.actions.own.cards.size import Size
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Service, Settings
    from klops.remote.base import Replies

Choice = Mapping[str, tuple[int, ...]]
#: Bytes at the front of an index of weights, enough for its metadata, and how it tells the total.
_FRONT = 4096
_TOTAL = re.compile(r'"total_size"\s*:\s*([0-9.eE+]+)')


def reads(settings: Settings) -> list[Read]:
    """Of each model what says into how many parts it can be cut: configuration, size of the weights."""
    found: list[Read] = []
    mounts = mounts_of(settings)
    for name, service in settings.services.items():
        outside = host_path(service.model, mounts)
        if outside is None:
            continue
        index = posixpath.join(outside, "model.safetensors.index.json")
        found.append(FileRead(f"model.{name}.config", posixpath.join(outside, "config.json")))
        # it may be megabytes, and what is of interest is in its metadata, before the map of the weights
        found.append(FileRead(f"model.{name}.weights", index, _FRONT))
    return found


def wants(
    settings: Settings, host: HostView, replies: Replies, tp: Size = None
) -> tuple[list[Wanted], list[str]]:
    """What each service asks for, and warnings. ``tp`` stands in for what the settings say."""
    found, warnings = [], []
    for name, service in settings.services.items():
        size = None if service.tp == "auto" else int(service.tp)
        cards = None if service.cards is None else tuple(service.cards)
        if tp is not None:
            asked = None if tp == "auto" else int(tp)
            if cards is not None and asked not in (None, len(cards)):
                cards = None
            if (asked, cards) != (size, None if service.cards is None else tuple(service.cards)):
                warnings.append(
                    f"{name}: tp {tp} for this run, whatever the settings say (tp {service.tp}"
                    + (f", cards {', '.join(map(str, service.cards))})" if service.cards else ")")
                )
            size = asked
        config = reply(replies, f"model.{name}.config")
        heads = models.heads(config.text) if config.ok else None
        found.append(Wanted(name, size, cards, heads, _least(service, host, replies, name)))
    return found, warnings


def _least(service: Service, host: HostView, replies: Replies, name: str) -> int:
    """Cards that the weights need at least; 1 where that can't be told.

    Held against all memory of a card, of which vLLM takes its share or doesn't start. What is free differs
    from look to look, while ranks of a test and what is about to be ended give theirs back.
    """
    said = reply(replies, f"model.{name}.weights")
    total = _TOTAL.search(said.text) if said.ok else None
    weights = models.weight_bytes(f'{{"metadata": {{{total[0]}}}}}') if total is not None else None
    totals = [card.memory_total_mib for card in host.cards.cards if card.memory_total_mib]
    if weights is None or not totals:
        return 1
    share = service.args.get("gpu-memory-utilization", service.args.get("gpu_memory_utilization"))
    try:
        part = float(str(share)) if share is not None else UTILISATION
    except ValueError:
        part = UTILISATION
    return models.least_tp(weights, totals, part)


def chosen(
    settings: Settings,
    standing: Standing,
    wanted: list[Wanted],
    units: Mapping[str, Mapping[str, Any]],
    *,
    anew: Collection[str] | None = (),
) -> dict[str, tuple[int, ...]]:
    """Cards of each service. Raises TaskFailed where they can't all be had.

    A service that is ready stays where it is, unless it can have more cards than it has, all of them known to
    work: not even a note on one of its cards ends it, that counts from its next start on. ``anew``: services
    for which that is now, None for all of them.
    """
    if standing.doubt:
        gone = ", ".join(str(one.index) for one in standing.cards if one.card is None)
        raise TaskFailed(
            f"{', '.join(one.name for one in wanted)}: xpu-smi knows no card {gone}; {standing.doubt}",
            code="card-missing",
            hint="correct klops.cards.use, or look why the card is gone",
        )
    best = _best(settings, standing, wanted)
    staying = {} if anew is None else {name: unit for name, unit in units.items() if name not in anew}
    serving = {card for unit in staying.values() if _ready(unit) for card in unit.get("cards") or ()}
    sure = _best(settings, standing.sure(serving), wanted)
    kept = _kept(settings, standing, wanted, staying, best, sure)
    if kept:
        stay = [
            replace(one, cards=kept[one.name], tp=len(kept[one.name])) if one.name in kept else one
            for one in wanted
        ]
        with contextlib.suppress(NoChoiceError):
            return _choose(settings, standing, stay, [*itertools.chain(*kept.values())])
    if isinstance(best, TaskFailed):
        raise best
    return best


def _best(settings: Settings, standing: Standing, wanted: list[Wanted]) -> dict[str, Any] | TaskFailed:
    try:
        _named(standing, wanted)
        found = _choose(settings, standing, wanted)
    except TaskFailed as error:
        return error
    except NoChoiceError as error:
        return unfit(standing, str(error))
    proven = standing.known.recommended
    if proven is not None and _fits(standing, wanted, found, proven):
        return dict(proven)
    return found


def _choose(
    settings: Settings, standing: Standing, wanted: list[Wanted], kept: Collection[int] = ()
) -> dict[str, tuple[int, ...]]:
    """The best choice with no bad card, and no group that is known to fail. Raises NoChoiceError."""
    cards, known = settings.cards, standing.known
    return choose(
        wanted,
        cards.indexes,
        cards.groups,
        cards.min_tp,
        [*known.bad_links, *known.failed],
        known.quality,
        [one.index for one in standing.out if one.index not in kept],
    )


def _fits(standing: Standing, wanted: list[Wanted], best: Choice, proven: Choice) -> bool:
    """Whether what a diagnosis has proven is as good as what would be taken without it."""
    cards = [index for group in proven.values() for index in group]
    return (
        set(proven) == {one.name for one in wanted}
        and all(len(proven[name]) == len(group) for name, group in best.items())
        and all(one.cards is None or one.cards == proven[one.name] for one in wanted)
        and len(set(cards)) == len(cards)
        and set(cards) <= set(standing.usable)
    )


def _kept(
    settings: Settings,
    standing: Standing,
    wanted: list[Wanted],
    units: Mapping[str, Mapping[str, Any]],
    best: dict[str, Any] | TaskFailed,
    sure: dict[str, Any] | TaskFailed,
) -> dict[str, tuple[int, ...]]:
    """Services that are ready, and where they are, as far as that is as good as what they would get.

    ``best``: what there is; ``sure``: on cards that are known to work, for which alone a ready one ends.
    """
    ideal = _ideal(settings, wanted)
    found: dict[str, tuple[int, ...]] = {}
    for one in wanted:
        unit = units.get(one.name) or {}
        cards = tuple(unit.get("cards") or ())
        ready = _ready(unit)
        if not ready and (unit.get("desired") != "running" or not set(cards) <= {*standing.usable}):
            continue
        if not cards or not set(cards) <= {*settings.cards.indexes}:
            continue
        if one.cards is not None and one.cards != cards:
            continue
        if one.cards is None and one.tp is not None and one.tp != len(cards):
            continue
        if one.cards is None and one.tp is None:
            better = sure if ready else best
            least = len(better[one.name]) if isinstance(better, dict) else 1
            most = len(ideal[one.name]) if ideal is not None else len(cards)
            if not least <= len(cards) <= most:
                continue
        found[one.name] = cards
    both = [a for a, b in itertools.permutations(found, 2) if set(found[a]) & set(found[b])]
    return {name: cards for name, cards in found.items() if name not in both}


def moved(
    standing: Standing, units: Mapping[str, Mapping[str, Any]], names: Collection[str]
) -> frozenset[str]:
    """Of services that begin again those that can't do so on the cards they have, as one of these is out."""
    out = {one.index for one in standing.out}
    return frozenset(name for name in names if out & {*(units.get(name, {}).get("cards") or ())})


def _ready(unit: Mapping[str, Any]) -> bool:
    return unit.get("state") == "ready"


def gain(unit: Mapping[str, Any] | None, cards: Collection[int]) -> str:
    """Why a service that is ready is to move to more cards; "" where it isn't."""
    had = tuple((unit or {}).get("cards") or ())
    more = sorted({*cards} - {*had})
    if unit is None or not _ready(unit) or not had or len(cards) <= len(had):
        return ""
    return f"card {', '.join(map(str, more))} may serve: TP={len(cards)} instead of TP={len(had)}"


def _ideal(settings: Settings, wanted: list[Wanted]) -> dict[str, tuple[int, ...]] | None:
    """What the services would have on a host without a fault."""
    cards = settings.cards
    return next(choices(wanted, cards.indexes, cards.groups, cards.min_tp), None)


def _named(standing: Standing, wanted: list[Wanted]) -> None:
    """Raise TaskFailed for a card that is asked for by its number and may not serve."""
    for one in wanted:
        for index in one.cards or ():
            state = standing.of(index)
            if state is None or not state.used or not state.out:
                continue
            if state.note is not None:
                raise TaskFailed(
                    f"{one.name}: card {index} is {state.out}",
                    code="card-quarantined",
                    hint=_way_back(state.note),
                )
            raise TaskFailed(
                f"{one.name}: card {index} {state.out}",
                code="cards-unfit" if state.present else "card-missing",
                hint="choose other cards, or leave the choice to klops: delete cards of the service",
            )


def _way_back(note: Mapping[str, Any]) -> str:
    if note.get("kind") in ("hand", "verdict"):
        return "klops cards restore HOST CARD tests it and takes it back; or choose other cards"
    return (
        "as soon as that process has ended, or the host was rebooted, the card is free again: "
        "klops reap HOST looks; or choose other cards: klops.cards.use"
    )


def fallbacks(
    settings: Settings,
    standing: Standing,
    wanted: list[Wanted],
    choice: Choice,
    names: Collection[str],
) -> list[str]:
    """A warning for each of these services that gets fewer cards than it would on a host without a fault."""
    found = []
    for name in names:
        told = fallback(settings, standing, wanted, name, choice.get(name, ()))
        if told is not None:
            found.append(told["text"])
    return found


def fallback(
    settings: Settings, standing: Standing, wanted: list[Wanted], name: str, cards: Collection[int]
) -> dict[str, Any] | None:
    """What a service has less than it asks for, and for which cards; None where it has all."""
    if not standing.out and not standing.known.bad_links and not standing.known.failed:
        return None
    whole = _ideal(settings, wanted)
    asked = len((whole or {}).get(name, ()))
    if not cards or len(cards) >= asked:
        return None
    out = [{"index": one.index, "reason": one.out} for one in standing.out]
    links = [f"cards {a} and {b} do not work together" for a, b in standing.known.bad_links]
    groups = [f"cards {', '.join(map(str, sorted(g)))} do not work together" for g in standing.known.failed]
    why = [*(f"card {one['index']}: {one['reason']}" for one in out), *links] or groups
    return {
        "tp": len(cards),
        "asked": asked,
        "out": out,
        "text": f"{name} runs with TP={len(cards)} on cards {', '.join(map(str, sorted(cards)))} instead of "
        f"TP={asked}: {'; '.join(why)}",
    }


def unfit(standing: Standing, why: str) -> TaskFailed:
    """The error for services that can't have cards; it names the cards that are out, and why."""
    out = "; ".join(f"card {one.index}: {one.out}" for one in standing.out)
    if not out and not standing.known.bad_links and not standing.known.failed:
        return TaskFailed(
            why,
            code="cards-unavailable",
            hint="change tp or cards of the services, or klops.cards.use, groups or min_tp",
        )
    links = ", ".join(f"{a}-{b}" for a, b in standing.known.bad_links)
    parts = [why, out, f"links that fail: {links}" if links else ""]
    return TaskFailed(
        "; ".join(filter(None, parts)),
        code="cards-unfit",
        hint="klops cards list HOST shows what is known; fewer cards by tp: auto, other groups by "
        "klops.cards.groups and min_tp; or klops down HOST, then klops doctor xccl HOST tests them again",
    )
