"""What the agent's verb ``xccl`` is asked: which cards, for whom, and how they are tested. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.own.desired import INSIDE
from klops.cards.evidence.driver import changed
from klops.cards.record.quarantine import same_card
from klops.cards.xccl.results import Aim

if TYPE_CHECKING:
    from klops.actions.base import View
    from klops.actions.own.cards.record.standing import Standing
    from klops.cards.choice.selection import Wanted
    from klops.inventory.settings import Settings


def misfit(baseline: Mapping[str, Any] | None, standing: Standing) -> str:
    """Why what was learned says nothing of the cards that are here now; "" where it does, or nothing was."""
    if not bandwidths(baseline) or baseline is None:
        return ""
    then = str(baseline.get("driver") or "")
    if changed(standing.driver, then):
        return f"it is of driver {then}, and this is {standing.driver}"
    cards = baseline.get("cards")
    known = [one for one in cards if isinstance(one, Mapping)] if isinstance(cards, list) else []
    others = [
        str(one.index)
        for one in standing.cards
        if one.used and one.present and not any(same_card(one.identity, of) for of in known)
    ]
    return f"card {', '.join(others)} is none of those that it is of" if others else ""


def unread(baseline: Mapping[str, Any] | None, view: View) -> tuple[str, ...]:
    """A warning where something was learned, or is to have been, and nothing can be compared with it."""
    given = view.settings.cards.baseline
    place = given or f"{view.settings.root}/baseline.json"
    if baseline is None:
        why = f"{place} can't be read, or is of a newer klops"
    elif given and not baseline:
        why = f"{place}, which klops.cards.baseline names, isn't there, or says nothing"
    elif _bandwidths(baseline) is None:
        why = f"the bandwidths in {place} are not as klops cards learn writes them"
    else:
        return ()
    return (f"bandwidths are not compared with what was learned: {why}; {anew(view)}",)


def anew(view: View) -> str:
    """What to do where nothing can be compared with what was learned."""
    learn = f"klops cards learn {view.host} learns them anew"
    given = view.settings.cards.baseline
    return f"correct {given}; or delete klops.cards.baseline, then {learn}" if given else learn


def bandwidths(baseline: Mapping[str, Any] | None) -> dict[int, dict[int, float]]:
    """Learned algorithm bandwidth in GB/s by size of group, then bytes; {} where nothing was learned."""
    return _bandwidths(baseline or {}) or {}


def _bandwidths(baseline: Mapping[str, Any]) -> dict[int, dict[int, float]] | None:
    """The same; None where it says them in another form: somebody may have written it by hand."""
    try:
        return {
            int(size): {int(count): float(gbps) for count, gbps in of.items()}
            for size, of in baseline.get("bandwidth", {}).items()
        }
    except (AttributeError, TypeError, ValueError):
        return None


def aim(
    settings: Settings,
    wanted: Sequence[Wanted],
    cards: Sequence[int],
    *,
    first: Sequence[Sequence[int]] = (),
    links: Mapping[tuple[int, int], str],
    baseline: Mapping[str, Any] | None,
    serial: bool = False,
    full: bool = False,
    bad: Sequence[int] = (),
    serving: Sequence[int] = (),
) -> Aim:
    """What the diagnosis is for. A first group with a card that can't be tested is none.

    ``bad``: cards that aren't tested as they can't serve anyhow, so that no group of theirs is whole;
    ``serving``: those on which a service is ready.
    """
    probe = settings.cards.probe
    groups = [tuple(group) for group in first if set(group) <= set(cards)]
    return Aim(
        cards=tuple(cards),
        wants=tuple(wanted),
        groups=tuple(tuple(of) for of in settings.cards.groups if {*of} <= {*settings.cards.indexes}),
        min_tp=settings.cards.min_tp,
        first=tuple(groups),
        links={pair: kind for pair, kind in links.items() if set(pair) <= set(cards)},
        baseline=bandwidths(baseline),
        serial=serial or probe.serial,
        tries=probe.tries,
        needed=probe.needed,
        full=full,
        bad=tuple(bad),
        serving=tuple(index for index in serving if index not in cards),
    )


def request(
    settings: Settings,
    standing: Standing,
    wanted: Aim,
    *,
    run: str,
    budget: float | None,
    scan: bool,
    smi: str,
    service: str,
) -> dict[str, Any]:
    """The request. ``service``: whose environment the ranks get, "" for none."""
    probe = settings.cards.probe
    of = settings.services.get(service)
    states = [one for index in wanted.cards if (one := standing.of(index)) is not None]
    return {
        "schema": 1,
        "run": run,
        "aim": wanted.as_json(),
        "cards": [
            {
                **one.identity,
                "node": one.container_node or one.identity["node"],
                "inside": one.container_index,
            }
            for one in states
        ],
        "visible_env": settings.cards.visible_env,
        "device_dir": INSIDE,
        "env": {} if of is None else dict(of.env),
        "env_script": None if of is None else of.env_script,
        "backend": probe.backend,
        "sizes": probe.sizes,
        "rounds": probe.rounds,
        "budget": settings.cards.budget if budget is None else budget,
        "start_timeout": probe.start_timeout,
        "timeout": probe.timeout,
        "scan": scan,
        "smi": smi,
    }
