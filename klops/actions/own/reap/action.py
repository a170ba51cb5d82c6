"""``klops.reap``: what units left behind is ended; what is somebody else's is named and left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.own import hostview
from klops.actions.own.reap import findings, judge, looking
from klops.actions.own.reap.findings import Look, NotThereError
from klops.actions.own.reap.steps import AT_REST, Before, Lift, Reap, Settle, place
from klops.cards.record import quarantine
from klops.commands import fit, reaping
from klops.errors import KlopsError

if TYPE_CHECKING:
    pass


def _identity(text: str) -> str:
    judge.identity(text)
    return text


class ReapParams(Params):
    """``view``: of the whole host, by a helper container, or quicker and of the container alone.

    ``grace``: seconds that a process is spared for after its start, by default klops.cleanup.grace;
    ``include_unowned``: processes to end although no unit started them, as ``PID:START`` of the host.
    ``stopped``: an earlier task stops all units and, where there is no agent, none brings it.
    """

    view: Literal["host", "container"] = "host"
    grace: Annotated[float, Field(ge=0)] | None = None
    stopped: bool = False
    include_unowned: list[Annotated[str, AfterValidator(_identity)]] = Field(default=[])


class ReapAction(Action[ReapParams]):
    """Looks with the agent, plans what that calls an orphan, and lets the agent end it."""

    name: ClassVar[str] = "klops.reap"
    params = ReapParams

    def probe(self, params: ReapParams, view: View) -> Probe:
        """Container, agent, cards, and the agent's look at what was left behind."""
        whole = params.view == "host"
        return Probe(
            reads=looking.reads(view.settings, grace=params.grace, named=params.include_unowned, whole=whole)
        )

    def plan(self, params: ReapParams, view: View, seen: Seen) -> Plan:
        """One step that ends all candidates; nothing where there is none."""
        settings = view.settings
        host = hostview.look(seen.replies, settings)
        trouble = host.trouble()
        if trouble is not None:
            return Plan(failure=trouble)
        if params.view == "container":
            elsewhere = _not_in_container(host, view.check)
            if elsewhere is not None:
                return elsewhere
        before = Before.of(host, seen.replies, settings)
        try:
            said, whole = hostview.reply(seen.replies, looking.KEY), params.view == "host"
            look = findings.read(said, before.names, before.inside, whole=whole)
        except NotThereError as nothing:
            return _not_there(nothing, before, view.check and not params.stopped)
        except KlopsError as error:
            # an earlier task would put this klops' agent there
            return Plan(unknown=error.message) if view.check else Plan(failure=error)
        if (
            view.check
            and params.stopped
            and any(unit.get("state") not in AT_REST for unit in host.units.values())
        ):
            return Plan(unknown="what the units leave behind shows when they are stopped")
        named = frozenset(map(judge.identity, params.include_unowned))
        plan = _plan(look, named, before, params, view, host)
        if params.view == "container" and _stuck(host) and plan.failure is None and not view.check:
            script = reaping.whole(place(settings), ("--lift",), inside=("--check",), writable=True)
            plan = replace(plan, steps=(*plan.steps, Lift(("sh", "-c", script))))
        return plan


def _stuck(host: hostview.HostView) -> bool:
    """Whether a card is kept out for a process that couldn't be ended, and so until that one is gone."""
    notes = (host.agent or {}).get("quarantine") or ()
    return any(isinstance(one, Mapping) and one.get("kind") == quarantine.UNKILLABLE for one in notes)


def _plan(
    look: Look,
    named: frozenset[tuple[int, int]],
    before: Before,
    params: ReapParams,
    view: View,
    host: hostview.HostView,
) -> Plan:
    look = look.with_memory(before.memory, before.busy)
    due = judge.candidates(look, named)
    # of the container alone it is asked before a start: what is left over is in the way of that only
    starts = any(unit.get("state") != "ready" for unit in host.units.values())
    removes = tuple(look.removes) if params.view == "host" or starts else ()
    result = {**look.document, "freed_mib": 0}
    warnings, refused = judge.warnings(look, named, f"klops reap {view.host}"), judge.refused(look, named)
    if refused is not None:
        return Plan(failure=refused, result=result, warnings=warnings)
    if due or removes or look.back:
        argv = _argv(params, view, host, _inside(look, named))
        ends, whole = tuple(map(_ends, due)), params.view == "host"
        step = Reap(view.settings, argv, before, ends, removes, tuple(look.back), whole=whole, known=warnings)
        return Plan(steps=(step,), result=result, warnings=warnings)
    message = _summary(look)
    failure = judge.failure(look, before.memory, before.busy, before.ours)
    if failure is None:
        return Plan(result=result, message=message, warnings=warnings)
    if view.check or not look.unexplained(before.memory, before.busy, before.ours):
        return Plan(failure=failure, result=result, warnings=warnings)
    return Plan(steps=(Settle(view.settings, before, look),), result=result, warnings=warnings)


def _argv(params: ReapParams, view: View, host: hostview.HostView, named: list[str]) -> tuple[str, ...]:
    """The command line of the clean-up, under the lock of this run; ``named`` by the container's pids."""
    settings = view.settings
    seconds = settings.cleanup.grace if params.grace is None else params.grace
    grace, lock = ("--grace", f"{seconds:g}"), ("--run", view.run)
    # with a root of its own the container doesn't see the host's lock, nor does anybody else see it there
    shared = host.container is None or fit.shares_root(host.container.raw, settings.root)
    inside = (*grace, *(lock if shared else ()), *looking.includes(named))
    if params.view == "container":
        return ("sh", "-c", reaping.container(place(settings), inside))
    args = (*grace, *lock, *looking.includes(params.include_unowned))
    return ("sh", "-c", reaping.whole(place(settings), args, inside=inside, writable=True))


def _inside(look: Look, named: frozenset[tuple[int, int]]) -> list[str]:
    """The processes that were named, as the container counts them."""
    found = look.processes("processes", "unowned")
    return [f"{p['cpid']}:{p['start']}" for p in found if judge.is_named(p, named) and p["cpid"] is not None]


def _not_in_container(host: hostview.HostView, check: bool) -> Plan | None:
    """What to say where the container can't be asked; None where it can."""
    if host.at_rest:
        return Plan(message="no container runs, so no process is left behind in one", result=_nothing())
    if host.ours and host.agent is not None:
        return None
    silent = host.silent_agent()
    return Plan(unknown=silent.message) if check else Plan(failure=silent)


def _not_there(nothing: NotThereError, before: Before, check: bool) -> Plan:
    """There is nothing to look with."""
    if check:
        return Plan(unknown=str(nothing))
    look = Look({**_nothing(), "view": "host"})
    if not nothing.agent:
        # nothing of klops has run here: what the cards are used for is others' business
        return Plan(result=_nothing(), message=str(nothing))
    if not before.memory.used:
        return Plan(failure=judge.nobody_looked(str(nothing)), result=_nothing())
    failure = judge.failure(look, before.memory, before.busy, before.ours)
    return Plan(failure=failure, result=_nothing(), message=f"{nothing}; the cards' memory is free")


def _nothing() -> dict[str, Any]:
    lists: dict[str, Any] = {name: [] for name in (*findings.LISTS, "zombies", "shm", "trouble", "back")}
    return {"view": "container", **lists, "supervisor": False, "freed_mib": 0}


def _ends(process: Mapping[str, Any]) -> str:
    return f"{judge.told(process)} ({process.get('reason')})"


def _summary(look: Look) -> str:
    spared = len(look.processes("processes"))
    others = [(len(look.processes(name)), name) for name in ("unowned", "foreign", "unsupervised")]
    blind = len(look.processes("unseen"))
    parts = [f"{spared} too young to be ended"] if spared else []
    if not spared:
        parts = [f"{blind} could not be looked at"] if blind else ["no process is left behind"]
    return ", ".join([*parts, *(f"{count} {name}" for count, name in others if count)])
