"""Pulling the image from its registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.image import problems
from klops.actions.own.image.arrival import gib
from klops.actions.own.image.following import fetching, follow
from klops.commands import docker, images


@dataclass(frozen=True)
class PullImage(Step):
    """Fetch the image, or what its name means in the registry by now when it is ``present``.

    Whether that is anything new only the registry knows, and only a pull asks it: the step says afterwards,
    as ``changed`` in the result, whether the name means another image than before.
    """

    docker: tuple[str, ...]
    image: str
    present: bool = False
    #: a path on docker's disk
    disk: str = "/"

    def change(self) -> Change:
        """The image."""
        return Change(f"pull {self.image}" + (" if the registry has another by now" if self.present else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Pull it, telling how many layers have come."""
        before = self._id(ctx)
        layers = images.Layers()
        free_at_first: list[int] = []
        written = 0

        def show() -> None:
            text = f"pulling {self.image}"
            if layers.total:
                text += f": {layers.there} of {layers.total} layers there, {layers.fetched} fetched"
            text += f", {gib(written)} written" if written > 0 else ""
            ctx.progress(Progress(text, layers.percent))

        def look(position: int, free: int) -> None:
            # others write to the disk too: it is near enough for somebody who waits
            nonlocal written
            free_at_first[:] = free_at_first or [free]
            written = free_at_first[0] - free
            show()

        def take(line: str) -> None:
            if layers.feed(line):
                show()

        done = follow(
            ctx,
            fetching(images.pull(self.docker, self.image), self.disk),
            f"pulling {self.image}",
            self.docker,
            on_line=take,
            on_beside=look,
        )
        if done.rc:
            raise problems.pull_error(self.image, done.rc, done.text, present=self.present)
        now = self._id(ctx)
        if now == before:
            return {"id": now, "changed": False}
        moved = {"before": before} if before else {}
        return {"id": now, "changed": True, **moved}

    def _id(self, ctx: Context) -> str:
        """Id of the image that has the name now, "" for none."""
        found = docker.parse_image(ctx.remote.run(docker.image(self.docker, self.image), check=False).text)
        return found.id if found is not None else ""
