"""The container of a host, as commands that look into it need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.commands import docker
from klops.commands.agent import PYTHON_FLAGS, agent_path
from klops.errors import DockerUnavailable, TaskFailed, UsageError
from klops.remote.base import Remote, Reply
from klops.remote.container import ContainerRemote
from klops.remote.reads import CommandRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class Place:
    """How to reach into the container of a host. ``prefix`` is how docker is called there."""

    host: str
    prefix: tuple[str, ...]
    container: str
    python: str
    root: str

    @classmethod
    def of(cls, host: str, settings: Settings) -> Place:
        """The place that a host's settings name."""
        return cls(
            host=host,
            prefix=docker.prefix(settings.docker.host, sudo=settings.docker.sudo),
            container=settings.container.name,
            python=settings.container.python,
            root=settings.root,
        )

    @property
    def inspect(self) -> CommandRead:
        """The read that :meth:`require_running` judges."""
        return CommandRead("container", docker.inspect(self.prefix, self.container))

    def inside(self, remote: Remote) -> Remote:
        """The container as a remote. What is started through it is ended with it, which docker exec can't."""
        return ContainerRemote(remote, self.prefix, self.container)

    def agent(self, verb: str, *args: str) -> list[str]:
        """The command line of a verb of the installed agent, inside the container."""
        return [self.python, *PYTHON_FLAGS, agent_path(self.root), verb, *args, "--root", self.root]

    def require_running(self, reply: Reply) -> None:
        """Raise when there is no container, or none that runs: docker's own exit status can't tell."""
        if not reply.ok and not docker.no_such_container(reply.error_text):
            said = reply.error_text.strip() or f"exit status {reply.rc}"
            raise DockerUnavailable(
                f"{self.host}: docker can't be asked: {said}",
                hint="is docker running there, and may this user ask it? see docker.sudo and docker.host",
            )
        found = docker.parse_inspect(reply.text) if reply.ok else None
        if found is None:
            raise TaskFailed(
                f"{self.host}: there is no container {self.container}",
                hint=f"klops up {self.host} makes it",
                code="container-absent",
            )
        if found.state != "running":
            raise TaskFailed(
                f"{self.host}: container {self.container} is {found.state}",
                hint=f"klops up {self.host} starts it",
                code="container-not-running",
            )


def choose_service(host: str, settings: Settings, name: str | None) -> str:
    """The service that was named, or the only one of the host."""
    names = list(settings.services)
    if name is not None:
        if name not in names:
            raise UsageError(f"{host} has no service {name}", hint=_known(names))
        return name
    if len(names) != 1:
        raise UsageError(f"{host} has {len(names)} services; name one with --service", hint=_known(names))
    return names[0]


def _known(names: list[str]) -> str:
    return "its services: " + ", ".join(names) if names else "klops.services is empty for this host"
