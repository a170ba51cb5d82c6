"""Steps of ``klops.patch``: one file patched, or put back."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import agentlines
from klops.actions.own.agentverbs import MARGIN
from klops.actions.own.patch.wanted import Wanted, sides
from klops.actions.own.telling import CHANGES
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds that the test of a patch may take.
_TEST = 300.0


@dataclass(frozen=True)
class ApplyPatch(Step):
    """Patch a file, compile it, test it."""

    settings: Settings
    wanted: Wanted
    data: bytes = field(repr=False)
    why: str
    #: the file relative to site-packages
    within: str

    def change(self) -> Change:
        """The file; of a diff what it changes."""
        text = f"patch {self.wanted.file} ({self.why})"
        if self.wanted.kind == "copy":
            return Change(text)
        return Change(text, *(sides(self.data, self.within) or ()))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Have it patched. Raises AgentError, and then the file is as it was."""
        given = {
            "kind": self.wanted.kind,
            "data": base64.b64encode(self.data).decode("ascii"),
            "digest": hashlib.sha256(self.data).hexdigest(),
            "test": self.wanted.test,
            "timeout": _TEST,
        }
        done = _ask(ctx, self.settings, self.wanted.file, given)
        if done.get("assumed"):
            ctx.warn(f"{self.wanted.file}: no distribution tells its digest, so it was taken for pristine")
        for hunk, lines in done.get("offsets") or ():
            ctx.warn(f"{self.wanted.file}: hunk {hunk} of the diff fits {lines:+d} lines away")
        return _made(self.wanted.file, done, self.change())


@dataclass(frozen=True)
class RevertPatch(Step):
    """Put a file back as its distribution gave it."""

    settings: Settings
    file: str

    def change(self) -> Change:
        """The file."""
        return Change(f"put {self.file} back as its distribution gave it")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Have it put back. Raises AgentError."""
        done = _ask(ctx, self.settings, self.file, {"revert": True})
        return _made(self.file, done, self.change())


def _ask(ctx: Context, settings: Settings, file: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    ctx.progress(Progress(file))
    try:
        return agentlines.follow(
            ctx,
            settings,
            ("patch", "--while-stdin"),
            agentlines.request({"file": file, "run": ctx.view.run, **given}),
            timeout=_TEST + MARGIN,
            heard=lambda said: None,
        )
    except AgentError as error:
        if file in error.message.partition("\n")[0]:
            raise
        # of a hunk, for one, the agent says where in the file
        raise error.but(message=f"{file}: {error.message}") from error


def _made(file: str, done: Mapping[str, Any], change: Change) -> Mapping[str, Any]:
    told = {key: done.get(key) for key in ("before", "after")}
    return {"file": file, **told, CHANGES: (change,) if done.get("changed") else ()}
