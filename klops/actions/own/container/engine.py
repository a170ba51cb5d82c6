"""The container engine as steps ask it: bounded, and its refusals told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klops.actions.base import Context
from klops.commands import docker
from klops.commands.docker import Container
from klops.errors import CommandTimeout, DockerUnavailable, TaskFailed
from klops.remote.base import Completed
from klops.remote.reads import CommandRead

#: Seconds that making, starting or renaming a container may take: engines with full disks are slow.
LIMIT = 180.0
#: Seconds that a look may take.
LOOK = 15.0


def said(done: Completed) -> str:
    """What a docker command complained of, in one line."""
    lines = done.error_text.strip().splitlines() or done.text.strip().splitlines()
    return lines[0] if lines else f"status {done.rc}"


def described(container: Container) -> str:
    """A container and whose it is, for a message."""
    whose = "made by klops" if container.made else "not made by klops"
    return f"{container.name} ({container.id[:12]}, {container.image}, {container.state}, {whose})"


def not_started(what: str, why: str, code: str = "container-create") -> TaskFailed:
    """The error of a container that docker could not make or start."""
    device = docker.missing_device(why)
    if not device:
        return TaskFailed(f"{what}: {why}", code=code)
    return TaskFailed(
        f"{what}: its device {device} is not on the host",
        code="card-missing",
        hint="look why it is gone (xpu-smi -m, dmesg), or leave that card out: klops.cards.use",
    )


@dataclass(frozen=True)
class Engine:
    """The engine of the host that a context is for. ``prefix``: how docker is called there."""

    ctx: Context
    prefix: tuple[str, ...]

    def ask(self, argv: Sequence[str], container: str, limit: float = LIMIT) -> Completed:
        """Run one docker command about ``container``; a refusal is the caller's to judge.

        Raises :class:`LockHeld`, and does nothing, when the lock was lost: whoever has it now may be at work.
        Raises :class:`DockerUnavailable` where no engine answers, and (``docker-hangs``) where it gives no
        answer in time: the client is ended then, and what became of the container is looked at again.
        """
        self.ctx.still_ours()
        try:
            done = self.ctx.remote.run(argv, check=False, timeout=limit)
        except CommandTimeout as error:
            raise self._hangs(argv, container, limit) from error
        if done.rc and docker.no_engine(done.error_text):
            raise DockerUnavailable(said(done), hint="start it: systemctl start docker")
        return done

    def must(self, argv: Sequence[str], container: str, what: str, limit: float = LIMIT) -> Completed:
        """The same for a command that has to succeed; ``what`` couldn't be done otherwise."""
        done = self.ask(argv, container, limit)
        if done.rc:
            raise TaskFailed(f"{what}: {said(done)}", code="container")
        return done

    def find(self, container: str) -> Container | None:
        """The container of that name or id as it is now; None when there is none."""
        argv = docker.inspect(self.prefix, container)
        try:
            reply = self.ctx.remote.read((CommandRead("container", argv),), timeout=LOOK)["container"]
        except CommandTimeout as error:
            text = f"docker inspect {container} gave no answer within {LOOK:g} s"
            raise _hanging(text) from error
        if reply.ok:
            return docker.parse_inspect(reply.text, container)
        if docker.no_such_container(reply.error_text):
            return None
        if docker.no_engine(reply.error_text):
            raise DockerUnavailable(reply.error_text.strip(), hint="start it: systemctl start docker")
        text = reply.error_text.strip() or f"status {reply.rc}"
        raise TaskFailed(f"the container {container} can't be inspected: {text}", code="container")

    def _hangs(self, argv: Sequence[str], container: str, limit: float) -> DockerUnavailable:
        verb = argv[len(self.prefix)]
        try:
            found = self.find(container)
        except DockerUnavailable:
            seen = "nor is it known what became of it: docker inspect gets no answer either"
        except TaskFailed as error:
            seen = error.message
        else:
            seen = f"now there is {described(found)}" if found else f"there is no container {container} now"
        return _hanging(f"docker {verb} gave no answer within {limit:g} s and was ended; {seen}")


def _hanging(text: str) -> DockerUnavailable:
    hint = "is the engine at work? systemctl status docker, journalctl -u docker"
    return DockerUnavailable(text, hint=hint, code="docker-hangs")
