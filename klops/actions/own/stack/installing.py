"""The step that has pinned versions installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import agentlines
from klops.actions.own.agentverbs import MARGIN
from klops.actions.own.stack.drift import Drift
from klops.actions.own.telling import CHANGES
from klops.secret import Secret

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class InstallPackages(Step):
    """Have uv install all that is pinned: what differs comes to fit the rest."""

    settings: Settings
    #: name, version installed, version pinned
    drift: Drift
    #: an earlier installation was cut short, and is taken back first
    interrupted: bool = False

    def change(self) -> Change:
        """From which version to which."""
        if not self.drift:
            return Change("take back an installation that was cut short")
        before = "".join(f"{name} {was}\n" for name, was, _ in self.drift)
        after = "".join(f"{name} {wanted}\n" for name, _, wanted in self.drift)
        return Change(_listed(self.drift), before, after)

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Install them. Raises AgentError, and then all is as it was."""
        stack = self.settings.stack
        index = stack.index_url
        asked = {
            "install": [
                {
                    "name": name,
                    "version": package.version,
                    "no_deps": package.no_deps,
                    "check_filename": package.check_filename,
                }
                for name, package in stack.packages.items()
            ],
            "index_url": index.reveal() if isinstance(index, Secret) else index,
            "wheel_dir": stack.wheel_dir,
            "options": stack.options,
            "timeout": stack.timeout,
            "run": ctx.view.run,
        }

        def show(said: Mapping[str, Any]) -> None:
            if "line" in said:
                ctx.progress(Progress(str(said["line"])))

        done = agentlines.follow(
            ctx,
            self.settings,
            ("stack", "--while-stdin"),
            agentlines.request(asked),
            # saving what stands before, and putting it back, isn't uv's time
            timeout=2 * stack.timeout + MARGIN,
            heard=show,
        )
        for note in done.get("notes") or ():
            ctx.warn(str(note))
        changed = [dict(one) for one in done["changed"]]
        rows = [(str(one["name"]), one["from"] or "none", one["to"] or "none") for one in changed]
        made = [
            Change(f"{name} {was} -> {now}", f"{name} {was}\n", f"{name} {now}\n") for name, was, now in rows
        ]
        made += [
            Change(f"put {name} back, which an earlier installation had left half changed")
            for name in done.get("put_back") or ()
        ]
        return {"changed_packages": changed, CHANGES: tuple(made)}


def _listed(rows: Drift) -> str:
    return ", ".join(f"{name} {was} -> {wanted}" for name, was, wanted in rows)
