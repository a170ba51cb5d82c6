"""``klops.rollback``: release, packages and services as they were in an earlier generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.generation import look
from klops.actions.own.generation.action import Note
from klops.actions.own.generation.look import Generation, Generations
from klops.agent.generations import document
from klops.errors import AgentError, HostUnreachable, Interrupted, KlopsError, LockHeld, TaskFailed

#: Codes of failures after which all stays: nobody knows what stands, or somebody else is at it.
_LEFT_ALONE = ("lock-held", "interrupted", "read-only", "unreachable", "connection-lost", "internal")
#: Actions that change what a generation is of.
_CHANGE = frozenset(
    {"klops.container", "klops.patch", "klops.rollback", "klops.services", "klops.source", "klops.stack"}
)
#: Of these, those that leave all as it was when they fail.
_WHOLE = ("klops.source", "klops.stack")
#: How a release can fail that was built: what the build has installed is there by then.
_BUILT = ("import-elsewhere", "no-answer", "no-such-path", "target-occupied")


class RollbackParams(Params):
    """``to``: the number of a generation; null for the last good one before what stands.

    ``after``: what the tasks before have failed with (``klops_failed``); then it goes back to the last good
    generation where the settings say so, and fails all the same. Nothing failed: an empty mapping.
    """

    to: int | None = None
    after: Mapping[str, Any] | None = None


class RollbackAction(Action[RollbackParams]):
    """Goes back, waits until what served then serves again, and notes that."""

    name: ClassVar[str] = "klops.rollback"
    params = RollbackParams
    follows: ClassVar[bool] = True

    def probe(self, params: RollbackParams, view: View) -> Probe:
        """The agent: units, and generations; nothing where nothing is to be gone back from."""
        if params.after is not None and _stays(params.after, view):
            return Probe()
        return Probe(reads=(*hostreads.host(view.settings), look.read(view.settings)))

    def plan(self, params: RollbackParams, view: View, seen: Seen) -> Plan:
        """The steps that lead to one generation."""
        stays = _stays(params.after, view) if params.after is not None else ""
        if stays:
            return Plan(message=stays)
        host = hostview.look(seen.replies, view.settings)
        found = look.look(seen.replies)
        if params.after is not None:
            return _after(params.after, view, host, found)
        trouble = host.trouble() or _silent(host, view.host, found)
        if trouble is not None or found is None:
            return Plan(failure=trouble)
        goal = _goal(found, params.to, view.host)
        # where nothing is gone back from, what knows how isn't needed
        from klops.actions.own.rollback import going
        from klops.actions.own.supervision import Supervise

        failure = going.gone(found, goal)
        if failure is not None:
            return Plan(failure=failure)
        steps = going.steps(view, host, found, goal)
        told = {"from": found.now["number"], "to": goal["number"]}
        if not steps:
            return Plan(message=f"{look.title(goal)} is what stands", result=told, warnings=found.faults)
        message = f"{look.title(found.now)} -> {look.title(goal)}"
        of = goal["of"] or goal["number"]
        if host.alone:
            steps = (Supervise(view.settings), *steps)
        steps = (*steps, Note(view.settings, view.run, of=of))
        return Plan(steps=steps, message=message, result=told, warnings=found.faults)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """After a failure it ends with an error, whether going back went well or not."""
        after = plan.result.get("after")
        if after is None:
            return super().apply(plan, ctx)
        cause = str(after["message"])
        goal = plan.result["to"]
        try:
            super().apply(plan, ctx)
        except (HostUnreachable, Interrupted, LockHeld):
            raise
        except KlopsError as error:
            first, end, more = cause.partition("\n")
            text = f"{first}; going back to generation {goal} failed, too: {error.message}{end}{more}"
            raise TaskFailed(
                text, code="rollback-failed", hint=error.hint, values={"current": None}
            ) from error
        release = plan.result["release"]
        # first what has to be known by whoever reads no further
        again = f"generation {goal} serves again{f' (release {release})' if release else ''}"
        text = f"{again}; {plan.result['what']} was given up: {cause}"
        raise TaskFailed(
            text, code="rolled-back", hint=str(after.get("hint", "")), values={"current": release}
        )


def _silent(host: hostview.HostView, name: str, found: Generations | None) -> KlopsError | None:
    """Why the agent can't do it; None when it can."""
    if host.at_rest:
        state = "isn't there" if host.container is None else f"is {host.container.state}"
        return TaskFailed(f"the container {state}", code="container-absent", hint=f"klops up {name}")
    if host.agent is None:
        return host.silent_agent()
    if found is None:
        return AgentError("the agent in the container knows no generations", hint=f"klops up {name}")
    return None


def _goal(found: Generations, number: int | None, name: str) -> Generation:
    """The generation that is meant. Raises :class:`TaskFailed`."""
    goal = found.previous if number is None else found.number(number)
    if goal is not None:
        return goal
    known = ", ".join(str(one["number"]) for one in found.known) or "none"
    wanted = (
        "no generation before this one was good" if number is None else f"there is no generation {number}"
    )
    raise TaskFailed(f"{wanted}; known: {known}", code="no-generation", hint=f"klops releases {name}")


def _touched(failed: Mapping[str, Any], *, installs: bool) -> bool:
    """Whether what failed may have changed anything that can be gone back from.

    What stands may not be good for another reason, such as a sync without a restart: a mistyped ref is not to
    take that back. An error that doesn't tell may have. ``installs``: a build leaves distributions.
    """
    if "applied" not in failed:
        return True
    own = failed.get("action")
    whole = own in _WHOLE and not (installs and failed.get("code") in _BUILT)
    return bool(_CHANGE.intersection(failed["applied"]) - ({own} if whole else set()))


def _stays(failed: Mapping[str, Any], view: View) -> str:
    """Why all stays as it is after the tasks before, whatever stands on the host; "" when that matters."""
    if not failed:
        return "nothing failed"
    if view.check:
        return "nothing was changed that could be gone back from"
    if view.settings.generations.rollback == "never":
        return "klops.generations.rollback is never"
    if failed.get("code") in _LEFT_ALONE:
        return f"it stays as it is after {failed.get('code')}"
    touched = _touched(failed, installs=bool(view.settings.source.build.installs))
    return "" if touched else "nothing was changed before it failed"


def _after(failed: Mapping[str, Any], view: View, host: hostview.HostView, found: Generations | None) -> Plan:
    """What follows a failure of the tasks before. It never fails by itself: their error is the host's."""
    if host.trouble() is not None or _silent(host, view.host, found) is not None or found is None:
        return Plan(message="what stands is not known, so it stays")
    good = found.last_good
    if good is None:
        return Plan(message="there is no generation that was good", warnings=found.faults)
    if found.now["good"]:
        return Plan(message=f"{look.title(good)} is what stands already", warnings=found.faults)
    # a run that has stopped one to start it again has left a mark; what somebody had taken down before isn't
    # brought back by a start that failed, and the same start would fail for the same reason
    stopped = any(unit.get("resumes") for unit in host.units.values())
    if document.less(found.now, good) and not stopped:
        text = f"{look.title(good)} is what stands, without services that were down before"
        return Plan(message=text, warnings=found.faults)
    if not good["there"]:
        text = f"release {good['release']} of the last good generation is gone, so it stays as it is"
        return Plan(message=text, warnings=(text,))
    # as above
    from klops.actions.own.rollback import going

    error = str(failed.get("message", ""))
    steps = (Note(view.settings, view.run, "bad", error), *going.steps(view, host, found, good))
    what = "what was changed"
    if found.now["release"] and found.now["release"] != good["release"]:
        what = f"release {found.now['release']}"
    told = {"from": found.now["number"], "to": good["number"], "release": good["release"]}
    return Plan(
        steps=steps,
        message=f"back to {look.title(good)}",
        result={**told, "what": what, "after": dict(failed)},
        warnings=found.faults,
    )
