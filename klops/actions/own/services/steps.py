"""Steps of ``klops.services``: verbs of the agent that change something."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.agentverbs import MARGIN, answer
from klops.actions.own.desired import NOT_DIGESTED
from klops.actions.own.hostreads import agent_argv
from klops.actions.own.services import memory
from klops.commands import docker
from klops.errors import TaskFailed
from klops.remote.rootreads import archive

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class StartUnit(Step):
    """Hand a specification to the agent and start it. A unit that runs with another one is stopped first."""

    settings: Settings
    spec: Mapping[str, Any]
    #: environment variables of the unit; never part of a text
    secrets: Mapping[str, str] = field(repr=False)
    why: str
    before: str | None = None
    #: state and pid of the unit that runs now and is ended by this; "" when none does
    runs: str = ""

    @property
    def unit(self) -> str:
        """The unit's name."""
        return str(self.spec["name"])

    def change(self) -> Change:
        """The command and its cards, with both specifications as the diff."""
        cards = ",".join(str(card["index"]) for card in self.spec["cards"])
        command = " ".join(self.spec["argv"])
        what = f"{command} on cards {cards} (TP={self.spec['tp']})"
        if self.runs:
            what = f"restart {self.unit} ({'; '.join(filter(None, (self.runs, self.why)))}): {what}"
        else:
            what = f"start {self.unit}: {what}" + (f" [{self.why}]" if self.why else "")
        return Change(what, self.before, spec_text(self.spec))

    def carry_out(self, ctx: Context) -> None:
        """Specification and secrets travel on standard input."""
        ctx.progress(Progress(f"{'restarting' if self.runs else 'starting'} {self.unit}"))
        content = {"spec": self.spec, "secrets": dict(self.secrets)}
        if not self.runs:  # while it runs its own memory is in use
            idle = memory.before_start(ctx, self.settings, self.spec)
            content.update({"idle": idle} if idle else {})
        given = json.dumps(content).encode()
        timeout = float(self.spec["stop"]["timeout"]) + MARGIN
        argv = agent_argv(self.settings, "start", self.unit, stdin=True)
        done = ctx.remote.run(argv, stdin=given, check=False, timeout=timeout)
        answer(done, f"{self.unit} could not be started")


def spec_text(spec: Mapping[str, Any]) -> str:
    """A specification as text for a diff, without what isn't compared."""
    shown = {key: value for key, value in spec.items() if key not in NOT_DIGESTED}
    return json.dumps(shown, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Verb(Step):
    """A verb on one unit: stop, restart or remove."""

    settings: Settings
    name: str
    unit: str
    why: str
    #: seconds that the unit may take to stop
    timeout: float
    #: a stop after which it is started again: where that never comes, the next run knows that it is to run
    resumes: bool = False

    def change(self) -> Change:
        """The verb, the unit and why."""
        return Change(f"{self.name} {self.unit}" + (f" ({self.why})" if self.why else ""))

    def carry_out(self, ctx: Context) -> None:
        """Run it; ``stop`` returns when no process of the unit lives and its cards' memory is back."""
        ctx.progress(Progress(f"{self.name} {self.unit}"))
        argv = agent_argv(self.settings, self.name, self.unit, *(["--resumes"] if self.resumes else []))
        longest = self.timeout + MARGIN + memory.GIVING_BACK
        done = ctx.remote.run(argv, check=False, timeout=longest)
        said = answer(done, f"{self.name} {self.unit}")
        if self.name == "stop":
            memory.after_stop(ctx, self.settings, self.unit, said)


@dataclass(frozen=True)
class RecordStopped(Step):
    """Write down that a unit which nobody supervises just now is meant to stay stopped.

    The next supervisor reads it, that of a container that docker starts again for one; no process writes that
    file meanwhile.
    """

    path: str
    unit: str
    #: what it would come back with
    comes_with: str
    record: Mapping[str, Any]
    #: of the container
    id: str = ""
    #: how docker is called, where the file is in the container's own layer; () where it is on the host
    into: tuple[str, ...] = ()

    def change(self) -> Change:
        """The unit, and why that has to be written down."""
        return Change(f"record that {self.unit} is stopped: it would come back with {self.comes_with}")

    def carry_out(self, ctx: Context) -> None:
        """Replace the file."""
        data = json.dumps(self.record, indent=1).encode() + b"\n"
        if not self.into:
            ctx.remote.put(data, self.path, mode=0o600)
            return
        folder, name = posixpath.split(self.path)
        argv = docker.copy_in(self.into, "-", self.id, folder)
        ctx.remote.run(argv, stdin=archive(name, data, 0o600))


@dataclass(frozen=True)
class CheckFree(Step):
    """Look whether a process of a stopped unit still holds a card."""

    changes: ClassVar[bool] = False

    settings: Settings
    units: tuple[str, ...]

    def change(self) -> Change:
        """What is looked for."""
        return Change("check that no process holds a card")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Ask the agent. Raises TaskFailed naming the holders, or who could not be looked at."""
        done = ctx.remote.run(agent_argv(self.settings, "holders"), check=False)
        found = answer(done, "who holds the cards could not be seen")
        failure, warning = judge_holders(found, self.units)
        if warning:
            ctx.warn(warning)
        if failure is not None:
            raise failure
        return {"holders": list(found.get("holders") or ())}


def judge_holders(found: Mapping[str, Any], units: tuple[str, ...]) -> tuple[TaskFailed | None, str]:
    """What the agent's ``holders`` says of a stop, as a failure and a warning.

    Holders that belong to ``units`` are a failure, those that belong to no unit a warning. A process that
    could not be looked at may hold anything: that is a failure too.
    """
    holders = found.get("holders") or ()
    ours = [holder for holder in holders if holder.get("unit") in units]
    unowned = [holder for holder in holders if not holder.get("unit")]
    unknown = found.get("unknown") or ()
    warning = f"cards are held by processes of no unit: {_listed(unowned)}" if unowned else ""
    if unknown and not ours:
        names = ", ".join(f"{one.get('name')} (pid {one.get('cpid')} in the container)" for one in unknown)
        return (
            TaskFailed(
                f"whether these processes hold a card could not be seen: {names}",
                code="cards-unseen",
                hint="klops ps lists them; the container's main process must be root to look at all others",
            ),
            warning,
        )
    if not ours:
        return None, warning
    return (
        TaskFailed(
            f"cards are still held after the stop: {_listed(ours)}",
            code="cards-held",
            hint="look at the processes with klops ps; one that KILL doesn't end needs a reset or a reboot",
        ),
        warning,
    )


def _listed(holders: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{holder.get('name')} (pid {holder.get('cpid')} in the container) holds "
        f"{', '.join(map(str, holder.get('cards') or ()))}"
        for holder in holders
    )
