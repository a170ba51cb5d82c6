"""Steps of ``klops.rollback``: packages, release and units as they were in a generation."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.agentverbs import MARGIN, answer
from klops.actions.own.hostreads import agent_argv
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds for putting packages back, and for making another release the current one: both copy files.
_COPYING = 1800.0


@dataclass(frozen=True)
class TakeTargetsAway(Step):
    """Have in the place of targets what was there before, while the release stays the current one.

    Another copy of a package is then what Python is to import, so that it isn't asked.
    """

    settings: Settings
    release: str
    gone: tuple[Mapping[str, Any], ...]
    #: targets that stay
    left: tuple[Mapping[str, Any], ...]
    #: the release that follows, which is not to be removed as an old one meanwhile
    then: str | None

    def change(self) -> Change:
        """Which targets, and of what release."""
        listed = ", ".join(str(one.get("package") or one["root"]) for one in self.gone)
        return Change(f"take targets of release {self.release} away: {listed}")

    def carry_out(self, ctx: Context) -> None:
        """The agent has the former folders in their places again."""
        self._have(ctx, self.left)

    def undo(self, ctx: Context) -> None:
        """Have them there again."""
        self._have(ctx, (*self.left, *self.gone))

    def _have(self, ctx: Context, targets: Sequence[Mapping[str, Any]]) -> None:
        protect = [self.then] if self.then else []
        given = {"name": self.release, "targets": targets, "protect": protect, "imports": False}
        _activate(self, ctx, self.settings, given)


@dataclass(frozen=True)
class RestorePackages(Step):
    """Put distributions and patched files back as they were, from what the host has kept.

    What klops has changed and a generation doesn't name goes back to how it came.
    """

    settings: Settings
    #: what is changed by it, in words
    told: tuple[str, ...]
    #: ``stack`` and ``patches`` of the generation
    stack: Mapping[str, Any]
    patches: Mapping[str, Mapping[str, str]]
    run: str
    #: what made way for it, and comes back where nothing is restored
    after: TakeTargetsAway | None = None

    def change(self) -> Change:
        """Versions from and to, and the files."""
        return Change(f"restore {', '.join(self.told)}")

    def carry_out(self, ctx: Context) -> None:
        """Nothing is changed when something of it isn't kept."""
        ctx.progress(Progress("restoring packages"))
        given = {
            "distributions": dict(self.stack),
            "patches": {file: {"sha256": one["patched"]} for file, one in self.patches.items()},
            "run": self.run,
        }
        argv = agent_argv(self.settings, "restore", stdin=True)
        done = ctx.remote.run(argv, stdin=json.dumps(given).encode(), check=False, timeout=_COPYING)
        try:
            said = answer(done, "the packages could not be restored")
        except AgentError:
            if self.after is not None:
                with contextlib.suppress(AgentError):  # the first error is what counts
                    self.after.undo(ctx)
            raise
        for note in said["done"].get("notes") or ():
            ctx.warn(str(note))


@dataclass(frozen=True)
class ActivateRelease(Step):
    """Make an earlier release the current one, with the targets that it had."""

    settings: Settings
    release: str
    targets: Sequence[Mapping[str, Any]]
    #: folders of it that units import from
    paths: tuple[str, ...]
    before: str | None

    def change(self) -> Change:
        """From and to."""
        if self.before == self.release:
            return Change(f"put the targets of release {self.release} back")
        return Change(f"release {self.before or 'none'} -> {self.release}")

    def carry_out(self, ctx: Context) -> None:
        """The agent swaps one link, and looks which files Python imports then."""
        given = {
            "name": self.release,
            "targets": self.targets,
            "paths": self.paths,
            # what it goes back from is for whoever wants to know why
            "protect": [self.before] if self.before else [],
        }
        _activate(self, ctx, self.settings, given)


def _activate(step: Step, ctx: Context, settings: Settings, given: Mapping[str, Any]) -> None:
    """Ask the agent for a release, and tell what it has to say. Raises AgentError."""
    ctx.progress(Progress(step.change().what))
    asked = json.dumps({**given, "keep": settings.source.keep}).encode()
    argv = agent_argv(settings, "activate", stdin=True)
    done = ctx.remote.run(argv, stdin=asked, check=False, timeout=_COPYING)
    for note in answer(done, f"{step.change().what}: it could not be done").get("notes") or ():
        ctx.warn(str(note))


@dataclass(frozen=True)
class PutBack(Step):
    """Start a unit as it was in a generation; its secrets stay what they are."""

    settings: Settings
    unit: str
    generation: int
    #: as the listing has it
    known: Mapping[str, Any]
    #: state of the unit that this ends; "" when nothing of it runs
    runs: str = ""

    def change(self) -> Change:
        """The unit, its cards, and from which generation."""
        cards = ",".join(map(str, self.known["cards"]))
        verb = f"restart {self.unit} ({self.runs})" if self.runs else f"start {self.unit}"
        on = f" on cards {cards} (TP={self.known['tp']})" if cards else ""
        return Change(f"{verb} as in generation {self.generation}{on}")

    def carry_out(self, ctx: Context) -> None:
        """The agent has the specification itself."""
        ctx.progress(Progress(f"starting {self.unit}"))
        given = json.dumps({"generation": self.generation}).encode()
        argv = agent_argv(self.settings, "start", self.unit, stdin=True)
        timeout = float(self.known["stop_timeout"]) + MARGIN
        done = ctx.remote.run(argv, stdin=given, check=False, timeout=timeout)
        answer(done, f"{self.unit} could not be started")
