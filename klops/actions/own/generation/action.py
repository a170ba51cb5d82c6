"""``klops.generation``: what serves now is noted as one, to go back to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.agentverbs import answer
from klops.actions.own.generation import look
from klops.agent.generations import document
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


class GenerationParams(Params):
    """``state``: noted is the only one."""

    state: Literal["noted"] = "noted"


@dataclass(frozen=True)
class Note(Step):
    """Have the agent write down what stands as a generation."""

    settings: Settings
    run: str
    health: str = look.GOOD
    error: str = ""
    #: the number of the one that was gone back to
    of: int | None = None
    #: only if it serves, as the agent finds it then
    serving: bool = False

    def change(self) -> Change:
        """What it counts as."""
        return _noted(self.health)

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """The number that it has; why it has none."""
        told = {
            **look.request(self.settings, self.run, self.health),
            "error": self.error,
            "of": self.of,
            **({"serving": {"services": bool(self.settings.services)}} if self.serving else {}),
        }
        argv = hostreads.agent_argv(self.settings, "generation", stdin=True)
        done = ctx.remote.run(argv, stdin=json.dumps(told).encode(), check=False)
        said = answer(done, "the generation could not be noted")
        for note in said.get("notes") or ():
            ctx.warn(str(note))
        if not self.serving:
            return {"generation": said["number"]} if self.health == look.GOOD else {}
        for fault in said["faults"]:
            ctx.warn(fault)
        if said["obstacle"]:
            return {"skip_reason": said["obstacle"]}
        return {"generation": said["number"], "changed": said["noted"]}


@dataclass(frozen=True)
class Noted(Step):
    """What was noted by the task before, with what it changed."""

    number: int
    on_host: ClassVar[bool] = False

    def change(self) -> Change:
        """As if it had been a step of its own."""
        return _noted(look.GOOD)

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """The number that it has."""
        return {"generation": self.number}


class GenerationAction(Action[GenerationParams]):
    """Notes a generation once all services that are to run are ready."""

    name: ClassVar[str] = "klops.generation"
    params = GenerationParams
    follows: ClassVar[bool] = True

    def probe(self, params: GenerationParams, view: View) -> Probe:
        """The agent: units, and generations. After a change it judges itself what it is to note."""
        if _judged_there(view):
            return Probe()
        return Probe(reads=(*hostreads.host(view.settings), look.read(view.settings)))

    def plan(self, params: GenerationParams, view: View, seen: Seen) -> Plan:
        """One step, or none when the newest good generation is what stands."""
        settings = view.settings
        if _judged_there(view):
            number = (view.changed or {}).get("generation")
            return Plan(steps=(Noted(number) if number else Note(settings, view.run, serving=True),))
        host = hostview.look(seen.replies, settings)
        trouble = host.trouble()
        if trouble is not None:
            return Plan(failure=trouble)
        found = look.look(seen.replies)
        if found is None:
            why = host.agent_error or "its agent knows no generations"
            if view.check:
                return Plan(unknown=why)
            return Plan(failure=AgentError(f"generations can't be asked for: {why}", hint="klops up"))
        if found.now["good"]:
            good = found.last_good or found.now
            return Plan(
                message=look.title(good), result={"generation": good["number"]}, warnings=found.faults
            )
        obstacle = document.obstacle(found.now, host.units, services=bool(settings.services))
        if obstacle:
            return Plan(skipped=obstacle)
        return Plan(steps=(Note(settings, view.run),), warnings=found.faults)


def _judged_there(view: View) -> bool:
    """Whether the agent looks and notes in one: a look of our own would be a remote command more."""
    return view.changed is not None and not view.check


def _noted(health: str) -> Change:
    return Change(f"note what stands as a {health} generation")
