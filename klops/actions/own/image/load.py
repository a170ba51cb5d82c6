"""Loading the image from an archive on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.image import problems
from klops.actions.own.image.arrival import Archive, gib
from klops.actions.own.image.following import follow, reading
from klops.commands import docker, images


@dataclass(frozen=True)
class LoadImage(Step):
    """Load an archive, and see that the wanted image was in it.

    An interrupt ends the command; the engine drops what it has not read to the end.
    """

    docker: tuple[str, ...]
    image: str
    archive: Archive
    #: a path on docker's disk
    disk: str = "/"

    def change(self) -> Change:
        """The image, the archive and its size."""
        return Change(f"load {self.image} from {self.archive}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Load it, telling how much has been read; then look whether the wanted name is there."""
        path, size = self.archive.path, self.archive.size

        def read(position: int, free: int) -> None:
            if position < size:
                percent = 100.0 * position / size
                ctx.progress(Progress(f"loading {path}: {gib(position)} of {gib(size)}", percent))
            else:
                ctx.progress(Progress(f"loading {path}: all was read, docker makes the layers"))

        done = follow(
            ctx,
            reading(images.load(self.docker), path, self.disk),
            f"loading {path}",
            self.docker,
            on_line=lambda line: None,
            on_beside=read,
        )
        if done.rc:
            raise problems.load_error(path, done.rc, done.text)
        loaded = images.loaded(done.output)
        found = docker.parse_image(ctx.remote.run(docker.image(self.docker, self.image), check=False).text)
        if found is None:
            raise problems.wrong_archive(path, self.image, loaded)
        return {"id": found.id, "loaded": loaded}
