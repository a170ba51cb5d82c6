"""Steps of ``klops.container``."""

from __future__ import annotations

from dataclasses import dataclass

from klops.actions.base import Change, Context, Step
from klops.actions.own.container.engine import LIMIT, Engine, not_started, said
from klops.commands import docker


@dataclass(frozen=True)
class Start(Step):
    """Start a container that is there."""

    docker: tuple[str, ...]
    name: str
    id: str
    state: str

    def change(self) -> Change:
        """The container and the state it is in."""
        return Change(f"start container {self.name} ({self.state})")

    def carry_out(self, ctx: Context) -> None:
        """Start it by its id. It is kept when it doesn't: its writable layer may hold somebody's work."""
        done = Engine(ctx, self.docker).ask(docker.start(self.docker, self.id), self.id)
        if done.rc != 0:
            raise not_started(f"container {self.name} does not start", said(done), code="container-start")


@dataclass(frozen=True)
class Remove(Step):
    """Stop and remove a container that klops made."""

    docker: tuple[str, ...]
    name: str
    id: str
    running: bool
    stop_timeout: int

    def change(self) -> Change:
        """The container."""
        return Change(f"{'stop and ' if self.running else ''}remove container {self.name} ({self.id[:12]})")

    def carry_out(self, ctx: Context) -> None:
        """Stop with its grace time, then remove; both by id, neither by force."""
        engine = Engine(ctx, self.docker)
        what = f"container {self.name} could not be"
        if self.running:
            stop = docker.stop(self.docker, self.id, self.stop_timeout)
            engine.must(stop, self.id, f"{what} stopped", self.stop_timeout + LIMIT)
        engine.must(docker.remove(self.docker, self.id), self.id, f"{what} removed")
