"""What ``klops.services`` does about the units of a host that it was told of. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from klops.actions.base import Plan, Seen, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.cards import choosing, remedy
from klops.actions.own.cards.record.standing import Standing, look
from klops.actions.own.desired import (
    NOT_DIGESTED,
    identities,
    missing_secret,
    secrets,
    unit_spec,
)
from klops.actions.own.services.code import other_code, to_be
from klops.actions.own.services.others import CheckOthers
from klops.actions.own.services.steps import StartUnit, Verb, spec_text
from klops.actions.own.services.stop import UNKNOWN_STOP, stop_timeout, stopped
from klops.actions.own.services.wait import WaitReady
from klops.actions.own.supervision import Supervise
from klops.commands import pidmap
from klops.commands.agent import secret_digest
from klops.errors import KlopsError, TaskFailed
from klops.inventory.settings import Settings
from klops.remote.base import Replies
from klops.remote.rootreads import plain
from klops.yamlsource import nearest

if TYPE_CHECKING:
    from klops.actions.own.services.action import ServicesParams


def planned(params: ServicesParams, view: View, seen: Seen) -> Plan:
    """Stops and removals first, then starts, then one wait for each."""
    settings = view.settings
    host = hostview.look(seen.replies, settings)
    trouble = host.trouble()
    if trouble is not None:
        return Plan(failure=trouble)
    if not host.at_rest and host.agent is None:
        # the processes of such a container nobody can tell about: unknown is not stopped
        silent = host.silent_agent()
        comes = view.check and params.state == "running"  # an earlier task would put the agent in place
        why = silent.message if host.ours else "the container has to be adopted first"
        return Plan(unknown=why) if comes else Plan(failure=silent)
    absent = _absent(host, params, view.check, view.host)
    if absent is not None:
        return Plan(failure=absent)
    names = _names(params, settings, host)
    if params.state == "renewed":
        names = [name for name in names if _to_run(host.units.get(name, {}))]
        if not names:
            return Plan(message="no service is to run")
    if params.state == "stopped":
        return stopped(settings, host, names, seen.replies)
    foreseen = to_be(settings, host, seen.local)
    plan = _running(view, host, names, seen.replies, params, foreseen=foreseen)
    if host.alone and plan.changes and params.state == "restarted":
        # for services that are to run klops.container has seen to it
        return replace(plan, steps=(Supervise(settings), *plan.steps))
    return plan


def _absent(host: hostview.HostView, params: ServicesParams, check: bool, name: str) -> KlopsError | None:
    """An error when there is no container to work in. In check mode an earlier task may make one."""
    if not host.at_rest or params.state == "stopped" or (check and params.state == "running"):
        return None
    state = "isn't there" if host.container is None else f"is {host.container.state}"
    hint = f"klops up {name} makes and starts it"
    return TaskFailed(f"the container {state}", code="container-absent", hint=hint)


def _names(params: ServicesParams, settings: Settings, host: hostview.HostView) -> list[str]:
    known = list(dict.fromkeys([*settings.services, *host.units]))
    if params.names is None:
        return known if params.state == "stopped" else list(settings.services)
    for name in params.names:
        if name not in known or (params.state != "stopped" and name not in settings.services):
            near = nearest(name, known)
            raise TaskFailed(
                f"no service is called {name}",
                code="unknown-service",
                hint=f"did you mean {near}?" if near else f"services: {', '.join(known) or 'none'}",
            )
    return list(dict.fromkeys(params.names))


@dataclass(frozen=True)
class Known:
    """What is known of a unit before anything is done."""

    #: as the agent reports it; made up from the files where it can't be asked
    unit: Mapping[str, Any] | None
    #: its specification on disk, None when it may not be read
    spec: Mapping[str, Any] | None


def _json(replies: Replies, key: str) -> Mapping[str, Any] | None:
    found = plain(hostview.reply(replies, key))
    value = found.json() if found.ok else None
    return value if isinstance(value, dict) else None


def _known(name: str, host: hostview.HostView, replies: Replies) -> Known:
    spec = _json(replies, f"unit:{name}")
    unit = host.units.get(name)
    if unit is None and host.agent is None and spec is not None:
        # no container runs: as soon as one does, its supervisor takes up what is desired
        state = _json(replies, f"state:{name}") or {}
        if state.get("desired") == "running":
            unit = {"desired": "running", "state": "stopped", "digest": spec.get("digest"), "assumed": True}
    return Known(unit, spec)


def _running(
    view: View,
    host: hostview.HostView,
    names: list[str],
    replies: Replies,
    params: ServicesParams,
    anew: frozenset[str] = frozenset(),
    *,
    foreseen: str | None = None,
) -> Plan:
    """``anew``: services that don't stay on the cards they have: one is out, and they begin again anyway.

    ``foreseen``: the release that would be the current one.
    """
    settings = view.settings
    if not settings.services and not host.units:
        return Plan(message="the settings name no service")
    missing_key = missing_secret(settings, names)
    if missing_key is not None:
        return Plan(failure=missing_key)
    standing = look(settings, host, replies, check=view.check)
    if params.state == "restarted":
        anew |= choosing.moved(standing, host.units, names)
    wanted, warnings = choosing.wants(settings, host, replies, params.tp)
    try:
        choice = choosing.chosen(settings, standing, wanted, host.units, anew=anew)
    except TaskFailed as error:
        raise remedy.named(error, view.host) from error
    cards = identities(host.cards, host.nodes)
    starts: list[StartUnit] = []
    restarts: list[Step] = []
    #: specifications of units that are about to begin
    begun: dict[str, Mapping[str, Any]] = {}
    waits: list[Step] = []
    busy: list[str] = []
    pids = pidmap.parse(hostview.reply(replies, hostreads.PIDS).text)
    for name in names:
        known = _known(name, host, replies)
        seen: Mapping[int, Mapping[str, Any]]
        if not host.cards_from:
            recorded = _recorded(known, choice[name])
            if recorded is None and _active(known):
                warnings.append(f"{name} was left as it is: the cards can't be read, so it can't be compared")
                continue
            seen = {**cards, **(recorded or {})}
        else:
            seen = _completed(cards, known)
        missing = [index for index in choice[name] if index not in seen]
        if missing:
            raise _no_card(name, missing, host)
        spec = unit_spec(settings, name, choice[name], seen)
        why, same = _difference(known, spec, settings, name)
        moved = other_code(host, known.unit, spec, foreseen) if known.unit is not None else ""
        if moved:
            why, same = (f"{why}; {moved}" if why and not same else moved), False
        if params.state == "restarted" and same and known.unit is not None and "assumed" not in known.unit:
            restarts.append(Verb(settings, "restart", name, "", settings.services[name].stop_timeout))
            if known.unit.get("state") == "backoff":
                # nothing of it runs, so what holds its cards is in the way of it
                begun[name] = spec
        elif not same or not _active(known) or _waits(known):
            why = "; ".join(filter(None, (choosing.gain(known.unit, choice[name]), why)))
            before = spec_text(known.spec) if known.spec is not None else ("" if known.unit is None else None)
            runs = _runs(known, pids)
            if name not in anew and {*choice[name]} & {one.index for one in standing.out}:
                # it was to stay where it is, for it is ready; but it ends now
                return _running(view, host, names, replies, params, anew | {name}, foreseen=foreseen)
            begun[name] = spec
            starts.append(StartUnit(settings, spec, secrets(settings.services[name]), why, before, runs))
            if runs and not (same and _waits(known)):
                busy.append(name)
        elif known.unit is not None and known.unit.get("state") == "ready":
            continue
        waits.append(WaitReady(settings, view.host, name))
    stops: list[Step] = []
    if _in_the_way(host, busy, begun):
        why = "another takes its cards or its port"
        stops = [
            Verb(settings, "stop", name, why, stop_timeout(settings, name), resumes=True) for name in busy
        ]
        starts = [replace(start, runs="") if start.unit in busy else start for start in starts]
    removals = _removals(settings, host) if params.names is None and params.state == "running" else []
    warnings += _removed(removals)
    warnings += choosing.fallbacks(settings, standing, wanted, choice, begun)
    warnings += _against(standing, choice, [name for name in names if name not in begun])
    taken = frozenset(card["index"] for spec in begun.values() for card in spec["cards"])
    checks = [CheckOthers(settings, taken, frozenset(begun))] if taken else []
    steps = (*removals, *stops, *checks, *starts, *restarts, *waits)
    return Plan(
        steps=steps,
        message="" if steps else "all ready",
        result={"cards": {name: list(choice[name]) for name in names}},
        warnings=tuple(warnings),
    )


def _to_run(unit: Mapping[str, Any]) -> bool:
    """Whether a unit is to run, if only because a run that stopped it to start it again was cut short."""
    return unit.get("desired") == "running" or bool(unit.get("resumes"))


def _in_the_way(host: hostview.HostView, busy: Sequence[str], begun: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether one that begins takes a card or a port that another of them gives up, or may.

    Then all of these must be down before it starts. Else each is down only for its own restart.
    """
    for name in busy:
        unit = host.units.get(name, {})
        held, port = unit.get("cards"), unit.get("port")
        for other, spec in begun.items():
            cards = {card["index"] for card in spec["cards"]}
            if other != name and (not held or cards & set(held) or port in (None, spec["port"])):
                return True
    return False


def _against(standing: Standing, choice: choosing.Choice, names: Sequence[str]) -> list[str]:
    """A warning for each service that goes on with a card on which none would be put now."""
    found = []
    for name in names:
        states = [one for one in standing.out if one.index in choice[name]]
        listed = "; ".join(f"card {one.index}: {one.out}" for one in states)
        if states:
            found.append(f"{name} is ready and goes on; from its next start on this counts: {listed}")
    return found


def _no_card(name: str, missing: Sequence[int], host: hostview.HostView) -> TaskFailed:
    listed = ", ".join(map(str, missing))
    if set(missing) <= set(host.cards.by_index()):
        return TaskFailed(
            f"{name}: card {listed} is not in the container, where its node's name is that of another card",
            code="card-missing",
            hint="correct klops.cards.use, or have the container made anew: klops up --recreate",
        )
    return TaskFailed(
        f"{name}: xpu-smi knows no card {listed}",
        code="card-missing",
        hint="correct klops.cards.use, or look why the card is gone",
    )


def _runs(known: Known, pids: Mapping[int, int]) -> str:
    """State of a unit that a start ends first, with its pid where that is known; "" when nothing runs."""
    unit = known.unit or {}
    state, cpid = unit.get("state"), unit.get("cpid")
    if state in ("stopped", "failed", None):
        return ""
    if _gone(known):
        return f"{state}, but its API server is gone"
    pid = pids.get(cpid) if isinstance(cpid, int) else None
    return f"{state}, pid {pid}" if pid is not None else str(state)


def _removed(removals: Sequence[Verb]) -> list[str]:
    """A warning for each service that goes: a renamed one goes too."""
    names = dict.fromkeys(step.unit for step in removals)
    return [
        f"{name} is not in the settings any more, so it is taken away; to keep a service and only stop it, "
        f"leave it in the inventory and say klops down"
        for name in names
    ]


def _removals(settings: Settings, host: hostview.HostView) -> list[Verb]:
    steps: list[Verb] = []
    for name, unit in host.units.items():
        if name not in settings.services:
            if unit.get("desired") != "stopped" or unit.get("state") != "stopped":
                steps.append(Verb(settings, "stop", name, "no longer in the settings", UNKNOWN_STOP))
            steps.append(Verb(settings, "remove", name, "no longer in the settings", 0.0))
    return steps


def _active(known: Known) -> bool:
    """Whether the unit is wanted running, hasn't given up, and isn't about to."""
    unit = known.unit
    wanted = unit is not None and unit.get("desired") == "running" and unit.get("state") != "failed"
    return wanted and not _gone(known)


def _gone(known: Known) -> bool:
    """Whether it is said to run though its API server is gone: a new supervisor has only just taken it over.

    What becomes of it then is up to its restart policy, and that is for those who weren't asked to start it.
    """
    unit = known.unit or {}
    return unit.get("state") in ("ready", "unhealthy") and unit.get("cpid", 0) is None


def _waits(known: Known) -> bool:
    """Whether it waits for what a start lacks, as its agent saw it at an earlier look.

    Asked to start it looks again at once: what was in its way may be gone, and that look isn't to be the
    verdict on this run.
    """
    return known.unit is not None and known.unit.get("state") == "backoff" and bool(known.unit.get("waits"))


def _recorded(known: Known, chosen: tuple[int, ...]) -> dict[int, Mapping[str, Any]] | None:
    """Identities of these cards in the unit's own specification: what xpu-smi said at an earlier run."""
    cards = {card.get("index"): card for card in (known.spec or {}).get("cards") or ()}
    return {index: cards[index] for index in chosen} if set(chosen) <= set(cards) else None


def _completed(cards: Mapping[int, Mapping[str, Any]], known: Known) -> dict[int, Mapping[str, Any]]:
    """The cards, those without a UUID as the unit's own specification has them, by their PCI address.

    ``xpu-smi -m`` may answer where ``-q`` hangs on one card; a service isn't started anew for that.
    """
    recorded = {card.get("bdf"): card for card in (known.spec or {}).get("cards") or () if card.get("uuid")}
    return {
        index: {**recorded.get(card["bdf"], card), "index": index} if not card["uuid"] else card
        for index, card in cards.items()
    }


def _difference(known: Known, spec: Mapping[str, Any], settings: Settings, name: str) -> tuple[str, bool]:
    """Why a start is needed, in a few words, and whether what is on the host is what is wanted."""
    unit = known.unit
    if unit is None:
        return "", False
    if unit.get("digest") != spec["digest"]:
        return f"{_changed_keys(known.spec, spec)} changed", False
    wanted = secrets(settings.services[name])
    secret = unit.get("secret")
    if "assumed" not in unit:
        have = secret.get("digest") if isinstance(secret, Mapping) else None
        want = secret_digest(str(secret["salt"]), wanted) if isinstance(secret, Mapping) else None
        if (secret is None and wanted) or have != want:
            return "secrets changed", False
    if _waits(known):
        return "it is to look again", True
    if _gone(known):
        return "", True
    return ("failed before" if unit.get("state") == "failed" else "was stopped"), True


def _changed_keys(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str:
    if before is None:
        return "settings"
    told = [key for key in after if key not in NOT_DIGESTED]
    keys = [key for key in told if json.dumps(before.get(key)) != json.dumps(after[key])]
    return ", ".join(keys) or "settings"
