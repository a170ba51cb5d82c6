"""Steps of ``klops.services``: verbs of the agent that change something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.commands.agent import verb
from klops.errors import AgentError, TaskFailed
from klops.remote.base import Completed

#: Seconds that a verb may take beside what it waits for.
MARGIN = 90.0


@dataclass(frozen=True)
class Place:
    """Where the agent is: the parts of ``docker exec`` of one of its verbs."""

    docker: tuple[str, ...]
    container: str
    python: str
    root: str

    def argv(self, name: str, *args: str, stdin: bool = False) -> list[str]:
        """The command line of a verb."""
        return verb(self.docker, self.container, self.python, self.root, name, *args, stdin=stdin)


def answer(done: Completed, what: str) -> Mapping[str, Any]:
    """What a verb said. Raises AgentError with the agent's own words when it failed."""
    text = done.text
    try:
        said = json.loads(text[max(text.find("{"), 0) :])
    except ValueError:
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if done.rc != 0 and isinstance(error, dict):
        code = str(error.get("code") or AgentError.code)
        raise AgentError(f"{what}: {error.get('message')}", hint=str(error.get("hint") or ""), code=code)
    if done.rc != 0 or not isinstance(said, dict):
        lines = done.error_text.strip().splitlines() or text.strip().splitlines() or [f"status {done.rc}"]
        raise AgentError(
            f"{what}: {lines[-1]}", hint="docker logs of the container shows what its launcher said"
        )
    return said


@dataclass(frozen=True)
class StartUnit(Step):
    """Hand a specification to the agent and start it. A unit that runs with another one is stopped first."""

    place: Place
    spec: Mapping[str, Any]
    #: environment variables of the unit; never part of a text
    secrets: Mapping[str, str] = field(repr=False)
    why: str
    before: str | None = None

    @property
    def unit(self) -> str:
        """The unit's name."""
        return str(self.spec["name"])

    def change(self) -> Change:
        """The command and its cards, with both specifications as the diff."""
        cards = ",".join(str(card["index"]) for card in self.spec["cards"])
        command = " ".join(self.spec["argv"])
        what = f"start {self.unit}: {command} on cards {cards} (TP={self.spec['tp']})"
        return Change(what + (f" [{self.why}]" if self.why else ""), self.before, spec_text(self.spec))

    def carry_out(self, ctx: Context) -> None:
        """Specification and secrets travel on standard input."""
        ctx.progress(Progress(f"starting {self.unit}"))
        given = json.dumps({"spec": self.spec, "secrets": dict(self.secrets)}).encode()
        timeout = float(self.spec["stop"]["timeout"]) + MARGIN
        argv = self.place.argv("start", self.unit, stdin=True)
        done = ctx.remote.run(argv, stdin=given, check=False, timeout=timeout)
        answer(done, f"{self.unit} could not be started")


def spec_text(spec: Mapping[str, Any]) -> str:
    """A specification as text for a diff."""
    return json.dumps(spec, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Verb(Step):
    """A verb on one unit: stop, restart or remove."""

    place: Place
    name: str
    unit: str
    why: str
    #: seconds that the unit may take to stop
    timeout: float

    def change(self) -> Change:
        """The verb, the unit and why."""
        return Change(f"{self.name} {self.unit}" + (f" ({self.why})" if self.why else ""))

    def carry_out(self, ctx: Context) -> None:
        """Run it; ``stop`` returns when no process of the unit lives."""
        ctx.progress(Progress(f"{self.name} {self.unit}"))
        done = ctx.remote.run(
            self.place.argv(self.name, self.unit), check=False, timeout=self.timeout + MARGIN
        )
        answer(done, f"{self.name} {self.unit}")


@dataclass(frozen=True)
class CheckFree(Step):
    """Look whether a process of a stopped unit still holds a card."""

    changes: ClassVar[bool] = False

    place: Place
    units: tuple[str, ...]

    def change(self) -> Change:
        """What is looked for."""
        return Change("check that no process holds a card")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Ask the agent. Raises TaskFailed naming the holders."""
        done = ctx.remote.run(self.place.argv("holders"), check=False)
        holders = answer(done, "who holds the cards could not be seen").get("holders") or []
        failure, warning = judge_holders(holders, self.units)
        if warning:
            ctx.warn(warning)
        if failure is not None:
            raise failure
        return {"holders": holders}


def judge_holders(holders: list[Mapping[str, Any]], units: tuple[str, ...]) -> tuple[TaskFailed | None, str]:
    """A failure for holders that belong to ``units``, and a warning for those that belong to no unit."""
    ours = [holder for holder in holders if holder.get("unit") in units]
    unowned = [holder for holder in holders if not holder.get("unit")]
    warning = f"cards are held by processes of no unit: {_listed(unowned)}" if unowned else ""
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


def _listed(holders: list[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{holder.get('name')} (pid {holder.get('cpid')} in the container) holds "
        f"{', '.join(map(str, holder.get('cards') or ()))}"
        for holder in holders
    )
