"""A bare container on a real engine, for tests of commands in containers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from klops.commands.containerspec import MANAGED_LABEL
from klops.sim import engine, image


@dataclass(frozen=True)
class Box:
    """An engine with an image made for the test and a running container of it."""

    engine: engine.Engine
    image: str
    container: str = "klops-box"

    @property
    def docker(self) -> tuple[str, ...]:
        """The start of every docker command."""
        return ("docker", "-H", self.engine.host) if self.engine.host else ("docker",)

    def run(self, name: str) -> None:
        """Start a container that does nothing, under docker's init, marked as one of klops' own."""
        mounts = [word for volume in image.volumes() for word in ("-v", volume)]
        flags = ["--detach", "--init", "--network", "host", "--name", name, *mounts]
        flags += ["--label", f"{MANAGED_LABEL}=1", "--log-opt", f"labels={MANAGED_LABEL}"]
        self.engine.docker("run", *flags, self.image, "sleep", "infinity")


@contextmanager
def start_box() -> Iterator[Box]:
    """An engine of our own in a short folder (for its sockets), and everything gone at the end."""
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    started = engine.start(directory)
    try:
        box = Box(started, image.make(started, str(directory)))
        box.run(box.container)
        yield box
        left = started.docker("ps", "--all", "--quiet").split()
        started.docker("rm", "--force", "--volumes", *left)
    finally:
        assert started.process is not None
        started.process.end()
        engine.detach_mounts(directory)
        shutil.rmtree(directory)
