"""The steps that make a release the one that runs: built if need be, then activated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import agentlines, desired, hostreads
from klops.actions.own.agentverbs import MARGIN, answer
from klops.actions.own.source.recipe import carried
from klops.actions.own.telling import CHANGES

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds for an activation: every file of the release is read, a package's folder may have to be copied, and
#: old releases go.
_ACTIVATING = 600.0


@dataclass(frozen=True)
class BuildRelease(Step):
    """Run the build's commands in a copy of a release; what they leave is a release of its own."""

    settings: Settings
    source: str
    name: str

    def change(self) -> Change:
        """The release and the commands."""
        return Change(f"build release {self.name}: {'; '.join(self.settings.source.build.commands)}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Build it, unless that was done before. Raises AgentError with the end of what the commands said."""
        build = self.settings.source.build
        asked = {
            "name": self.name,
            "commands": build.commands,
            "timeout": build.timeout,
            "env": build.env,
            "carry": carried(self.settings),
            "installs": build.installs,
        }

        def show(said: Mapping[str, Any]) -> None:
            if "line" in said:
                ctx.progress(Progress(str(said["line"])))

        done = agentlines.follow(
            ctx,
            self.settings,
            ("build", self.source, "--while-stdin"),
            agentlines.request(asked),
            timeout=build.timeout + MARGIN + _ACTIVATING,
            heard=show,
            record=f"{self.settings.root}/log/build-{self.name}.log",
        )
        return {CHANGES: () if done.get("cached") else (self.change(),)}


@dataclass(frozen=True)
class ActivateRelease(Step):
    """Make a release the current one, and have the container's Python import it."""

    settings: Settings
    name: str
    before: str | None
    #: why it isn't what runs
    why: str
    #: both in lines, for a diff; None where sending it shows that
    files: tuple[str, str] | None = None

    def change(self) -> Change:
        """From which release to which; or what is mended."""
        if self.before == self.name:
            return Change(f"put release {self.name} in place ({self.why})")
        was = self.before or "none"
        text = f"current release: {was} -> {self.name}"
        if self.files is not None:
            return Change(text, *self.files)
        return Change(text, f"{self.before}\n" if self.before else "", f"{self.name}\n")

    def request(self) -> dict[str, Any]:
        """What the agent is asked for."""
        return {
            "name": self.name,
            "targets": desired.release_targets(self.settings),
            "paths": desired.release_paths(self.settings),
            "keep": self.settings.source.keep,
        }

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Switch to it. Raises AgentError, and then the old one stands as before."""
        done = ctx.remote.run(
            hostreads.agent_argv(self.settings, "activate", stdin=True),
            stdin=json.dumps(self.request()).encode("ascii"),
            check=False,
            timeout=_ACTIVATING,
        )
        return self.activated(ctx, answer(done, f"release {self.name} can't become the current one"))

    def activated(self, ctx: Context, said: Mapping[str, Any]) -> dict[str, Any]:
        """What came of it, by what the agent says."""
        for note in said.get("notes") or ():
            ctx.warn(str(note))
        changed = [str(one) for one in said["changed"]]
        made = [Change(text) for text in changed if not text.startswith("current: ")]
        if self.before != self.name:
            made.insert(0, self.change())
        made += [Change(f"remove old release {name}") for name in said.get("pruned") or ()]
        return {"current": self.name, "imports": said["imports"], CHANGES: tuple(made)}
