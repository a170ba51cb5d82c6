"""A container made anew: the old one is kept until the new one serves, and comes back if it doesn't."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Step
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.agentverbs import MARGIN, answer
from klops.actions.own.container import furnish
from klops.actions.own.container.aside import Aside, aside_name, committed_name
from klops.actions.own.container.calm import calm
from klops.actions.own.container.create import lines, nodes
from klops.actions.own.container.goingback import go_back
from klops.actions.own.container.making import make
from klops.actions.own.records import Recreation
from klops.actions.own.services.steps import judge_holders
from klops.commands import docker, fit
from klops.commands.containerspec import ContainerSpec
from klops.commands.docker import Container
from klops.errors import AgentError, ChangedMeanwhile, HostUnreachable, KlopsError, LockHeld, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class Recreate(Step):
    """Put the old container aside, make the new one with what its units run on, have these ready, then remove
    the old one.

    Whatever goes wrong after the old one was touched, it is put back, and its units with it.
    """

    docker: tuple[str, ...]
    spec: ContainerSpec
    settings: Settings
    old: Container
    #: whether klops made the old one; another is never removed
    made: bool
    #: whether its agent answers: then the units as they run are kept for the way back
    answers: bool
    #: units that are wanted running, as far as that is known without the agent
    units: tuple[str, ...]
    #: those of them that are ready, or on the way to it
    well: tuple[str, ...]
    #: why, key by key
    why: tuple[str, ...]

    def change(self) -> Change:
        """Why, what becomes of the old one, and the command that makes the new one as the diff."""
        old = self.old
        if self.made:
            after = f"the old one, {old.id[:12]}, is removed when the new one serves"
        else:
            after = f"the old one, {old.id[:12]}, stays, stopped, as {aside_name(old)}"
        kept = f"kept as image {self._image}, " if self._image else ""
        if self.units:
            kept = f"{', '.join(self.units)} stopped meanwhile; {kept}"
        what = (
            f"make container {old.name} anew of {self.spec.image} with {nodes(self.spec)} "
            f"({'; '.join(self.why)}); {kept}{after}"
        )
        return Change(what, "", lines(docker.create(self.docker, self.spec)))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """All of it; returns id and agent of the new one, and the name of the image if one was made."""
        self._unchanged(ctx)
        self._alone(ctx)
        given = furnish.look(ctx)
        wanted = self._kept(ctx) if self.answers else self.units
        units = self._demanded(ctx, wanted)
        record = Recreation(
            id=self.old.id,
            name=self.old.name,
            aside=aside_name(self.old),
            restart=self.old.restart,
            adopted=not self.made,
            ran=_ran(self.old),
            units=units,
            run=ctx.view.run,
            at=time.time(),
        )
        image = self._image
        if self.settings.container.commit and not image:
            ctx.warn(
                f"no image is made of {self.old.name}: the secrets of its services lie in it, in "
                f"{self.settings.root}, and would be in the image; the container itself is kept, stopped"
            )
        try:
            Aside(ctx, self.settings, record).put(commit=image)
            about = make(ctx, self.spec, self.settings, self.docker)
            if not self.answers:
                self._keep_late(ctx)
            furnish.put_in(ctx, self.settings, given)
            names = [name for name in units if name in self.settings.services]
            if names:
                furnish.serve(ctx, names)
        except (HostUnreachable, LockHeld):
            # nobody can be asked, or somebody else is at work: the record tells what there is to put in order
            raise
        except KlopsError as error:
            raise go_back(ctx, self.settings, record, error) from error
        _finish(ctx, self.settings, record)
        return {**about, "old": self.old.id, **({"image": image} if image else {})}

    @property
    def _image(self) -> str:
        """The image that is made of the old one; "" for none, as where klops' own folder would be in it."""
        apart = self.made or fit.shares_root(self.old.raw, self.settings.root)
        return committed_name(self.old) if self.settings.container.commit and apart else ""

    def _unchanged(self, ctx: Context) -> None:
        """Look again now that the lock is ours: another run may have made it anew meanwhile."""
        settings = self.settings
        found = ctx.remote.read((hostreads.container(settings), hostreads.recreation(settings)))
        now = docker.parse_inspect(hostview.reply(found, hostreads.CONTAINER).text, self.old.name)
        lost = records.parse_recreation(hostview.reply(found, hostreads.RECREATION))
        if now is None or now.id != self.old.id or _ran(now) != _ran(self.old) or lost is not None:
            raise ChangedMeanwhile(f"the container {self.old.name} is not the one that was looked at")

    def _alone(self, ctx: Context) -> None:
        """Refuse to stop a container of somebody else's in which a process that isn't klops' holds a card."""
        if self.made or self.old.state != "running":
            return
        name, hint = self.old.name, "nothing was changed; without --recreate the container stays as it is"
        reply = ctx.remote.read((hostreads.holders(self.settings),))[hostreads.HOLDERS]
        found = reply.json() if reply.ok else None
        if not isinstance(found, Mapping) or not isinstance(found.get("holders"), list):
            raise TaskFailed(
                f"container {name}, not one of klops, would be stopped, and who holds the cards in it could "
                "not be seen",
                code="cards-unseen",
                hint=f"{hint}: klops up {ctx.view.host} has the agent there answer first",
            )
        unseen, unowned = judge_holders(found, ())
        if unseen is not None:
            raise unseen
        if unowned:
            raise TaskFailed(
                f"container {name}, not one of klops, would be stopped, but {unowned}",
                code="cards-held",
                hint=f"{hint}. Or end those processes first",
            )

    def _demanded(self, ctx: Context, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """What the new container has to prove: a unit that was not well before must not keep it from that."""
        units = tuple(name for name in wanted if name in self.well) or wanted
        others = [name for name in wanted if name not in units]
        if others:
            ctx.warn(
                f"{', '.join(others)}: not ready before either, so the new container has not to prove "
                f"that, only {', '.join(units)}"
            )
        return units

    def _keep_late(self, ctx: Context) -> None:
        """Have the new one's agent keep what the old one's could not, before it is given other settings.

        Where the old one's folder is its own the new one finds nothing to keep, and changes nothing there.
        """
        with suppress(AgentError):
            self._kept(ctx, "--late")

    def _kept(self, ctx: Context, *how: str) -> tuple[str, ...]:
        """Have the agent keep the units as they are; those that are wanted running."""
        argv = hostreads.agent_argv(self.settings, "keep", *how)
        done = ctx.remote.run(argv, check=False, timeout=MARGIN)
        return tuple(map(str, answer(done, "the units could not be kept").get("units") or ()))


def _ran(container: Container) -> bool:
    """Whether it is more than made: one whose main process keeps ending is started again and again."""
    return container.state not in ("created", "exited")


def _finish(ctx: Context, settings: Settings, record: Recreation) -> None:
    """The new one serves: nothing that goes wrong from here on is a reason to go back."""
    with calm(ctx) as quiet:
        try:
            Aside(quiet, settings, record).finish()
        except (HostUnreachable, LockHeld):
            raise
        except KlopsError as error:
            ctx.warn(f"the new container serves, but what it replaced is not all cleared: {error.message}")
