"""The container of a host, as commands that look into it need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.own import records
from klops.commands import agent, docker
from klops.errors import AgentError, DockerUnavailable, TaskFailed, UsageError
from klops.remote.base import Remote, Replies, Reply
from klops.remote.container import ContainerRemote
from klops.remote.containerreads import AgentRead
from klops.remote.reads import CommandRead, FileRead, Read

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
    def looks(self) -> tuple[Read, ...]:
        """The reads that :meth:`require_running` judges: the container, and whether klops adopted it."""
        return (
            CommandRead("container", docker.inspect(self.prefix, self.container)),
            FileRead("adopted", records.adoption_path(self.root)),
        )

    def inside(self, remote: Remote) -> ContainerRemote:
        """The container as a remote, once it is known to be klops' own and to run.

        What is started through it is ended with it, which docker exec can't.
        """
        self.require_running(remote.read(self.looks))
        return ContainerRemote(remote, self.prefix, self.container)

    def while_read(self, verb: str, *args: str) -> list[str]:
        """The host's command line of a verb that ends with its standard input.

        For ``Remote.stream`` with ``keep_stdin``: the verb ends when the command on the host is ended and
        when the link breaks, of which docker exec tells the container nothing else.
        """
        args = (*args, "--while-stdin")
        return agent.verb(self.prefix, self.container, self.python, self.root, verb, *args, stdin=True)

    def ask(self, verb: str) -> AgentRead:
        """The read of one of the agent's verbs that :meth:`answer` judges; its key is the verb."""
        return AgentRead(
            verb,
            docker=self.prefix,
            container=self.container,
            python=self.python,
            agent=agent.agent_path(self.root),
            verb=verb,
            args=("--root", self.root),
        )

    def answer(self, reply: Reply, key: str) -> Any:
        """What the agent answered under ``key``. Raises :class:`AgentError` when it is no such answer."""
        answer = reply.json()
        if not reply.ok or not isinstance(answer, dict) or key not in answer:
            said = reply.error_text.strip() or reply.text.strip() or "no output"
            raise AgentError(
                f"{self.host}: the agent in container {self.container} did not answer: {said}",
                hint=f"klops up {self.host} puts the agent there",
            )
        return answer[key]

    def require_running(self, replies: Replies) -> None:
        """Raise when there is no container of klops', or it doesn't run: docker's exit status can't tell.

        Klops' own are those it made, and the one it adopted, which is known by its id.
        """
        reply = replies["container"]
        if not reply.ok and not docker.no_such_container(reply.error_text):
            said = reply.error_text.strip() or f"exit status {reply.rc}"
            raise DockerUnavailable(
                f"{self.host}: docker can't be asked: {said}",
                hint="is docker running there, and may this user ask it? see docker.sudo and docker.host",
            )
        found = docker.parse_inspect(reply.text, self.container) if reply.ok else None
        if found is None:
            raise TaskFailed(
                f"{self.host}: there is no container {self.container}",
                hint=f"klops up {self.host} makes it",
                code="container-absent",
            )
        adopted = records.parse_adoption(replies["adopted"])
        if not found.made and (adopted is None or adopted.id != found.id):
            raise TaskFailed(
                f"{self.host}: container {self.container} ({found.id[:12]}) was neither made nor adopted by "
                "klops",
                hint=f"klops up {self.host} adopts it if it fits, or set another klops.container.name; "
                "docker exec on the host reaches into any container",
                code="container-foreign",
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
