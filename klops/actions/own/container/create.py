"""The step that makes the container where there is none."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Step
from klops.actions.own.container.making import make
from klops.commands import docker
from klops.commands.containerspec import ContainerSpec

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class Create(Step):
    """Make the container, start it and wait for its agent. If that fails, nothing of it stays."""

    docker: tuple[str, ...]
    spec: ContainerSpec
    settings: Settings

    def change(self) -> Change:
        """The container, and the whole command that makes it as the diff."""
        what = f"make container {self.spec.name} of {self.spec.image} with {nodes(self.spec)}"
        return Change(what, "", lines(docker.create(self.docker, self.spec)))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Create, start, wait."""
        return make(ctx, self.spec, self.settings, self.docker)


def nodes(spec: ContainerSpec) -> str:
    """The devices of a container in a few words."""
    *cards, control = spec.devices
    return f"{len(cards)} card{'s' if len(cards) != 1 else ''} and {posixpath.basename(control[0])}"


def lines(argv: tuple[str, ...]) -> str:
    """A long command as lines of one option each, for a diff."""
    text = ""
    for word in argv:
        text += ("\n  " if word.startswith("--") else " " if text else "") + word
    return text + "\n"
