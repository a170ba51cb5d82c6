"""The old container of a recreation: put aside, put back, or given up for the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from klops.actions.base import Context, Progress
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.container import adopt
from klops.actions.own.container.calm import calm
from klops.actions.own.container.engine import LIMIT, Engine, described, not_started, said
from klops.actions.own.container.making import remove_new
from klops.actions.own.container.steps import WaitAgent
from klops.actions.own.records import Recreation
from klops.actions.own.services.steps import MARGIN, answer
from klops.actions.own.services.stop import stop_timeout
from klops.commands import docker
from klops.commands.containerspec import RUN_LABEL
from klops.commands.docker import Container
from klops.errors import AgentError, Interrupted, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: What the agent says where nothing was kept: it could not be asked before the old container was stopped.
_NOTHING_KEPT = "nothing-kept"
#: Seconds that the agent's ``quit`` takes at most by itself.
_QUIT = 150.0


def aside_name(container: Container) -> str:
    """What a container is called while another one has its name."""
    return f"{container.name}.before-{container.id[:12]}"


def committed_name(container: Container) -> str:
    """What an image of a container with all that was written in it is called."""
    repository = docker.repository(container.image)
    # one that was made of an image by its id has no name to go by
    named = repository if repository and not repository.startswith("sha256") else container.name.lower()
    return f"{named}:klops-before-{container.id[:12]}"


@dataclass(frozen=True)
class Aside:
    """One recreation on one host, as its record tells of it."""

    ctx: Context
    settings: Settings
    record: Recreation

    @property
    def engine(self) -> Engine:
        """The engine of the host."""
        return Engine(self.ctx, hostreads.docker_prefix(self.settings))

    def put(self, *, commit: str) -> None:
        """Stop the old container and give its name free; with ``commit``, an image of that name is made.

        The record is there before anything is done, so that nothing is ever aside without one.
        """
        record, engine, prefix = self.record, self.engine, self.engine.prefix
        path = records.recreation_path(self.settings.root)
        self.ctx.remote.put(records.text(record), path)
        what = f"the old container {record.name} could not be"
        if record.ran:
            self.ctx.progress(Progress(f"stopping the old container {record.name}"))
            self.stop()
        if commit:
            self.ctx.progress(Progress(f"keeping what was written in it as image {commit}"))
            argv = docker.commit(prefix, record.id, commit)
            # as many bytes as were written in it: minutes for a large one
            engine.must(argv, record.id, f"{what} kept as an image", 10 * LIMIT)
        engine.must(docker.restart_policy(prefix, record.id, "no"), record.id, f"{what} kept from starting")
        engine.must(docker.rename(prefix, record.id, record.aside), record.id, f"{what} renamed")

    def stop(self) -> None:
        """Stop the old container, its units first and in order.

        The engine goes on when its client is ended, so an interrupt is raised when the container has stopped:
        one that is started in the middle of that would stop right afterwards.
        """
        try:
            self._stop()
        except Interrupted:
            with calm(self.ctx) as quiet:
                replace(self, ctx=quiet)._stop()
            raise

    def give_back(self) -> None:
        """The old container has its name and its restart policy again, and the new one is gone.

        Raises :class:`KlopsError`; done again it does what is left.
        """
        record, engine, prefix = self.record, self.engine, self.engine.prefix
        self._clear(engine)
        old = engine.find(record.id)
        if old is None:
            raise TaskFailed(f"the old container {record.id[:12]} is not there any more", code="container")
        what = f"the old container {old.name} could not"
        if old.name != record.name:
            rename = docker.rename(prefix, record.id, record.name)
            engine.must(rename, record.id, f"{what} get its name back")
        if old.restart != record.restart:
            policy = docker.restart_policy(prefix, record.id, record.restart)
            engine.must(policy, record.id, f"{what} get its restart policy {record.restart} back")

    def revive(self) -> None:
        """The old container runs again, and its units are being started as they were.

        One that did not run before stays as it was. Raises :class:`KlopsError`; done again it does no harm.
        """
        record, engine = self.record, self.engine
        if not record.ran:
            return
        started = engine.ask(docker.start(engine.prefix, record.id), record.id)
        if started.rc:
            raise not_started(f"container {record.name} does not start", said(started), "container-start")
        if self._adopted():
            adopt.supervise(self.ctx, self.settings)
        elif record.units:
            WaitAgent(self.settings).carry_out(self.ctx)
        if record.units:
            patience = sum(stop_timeout(self.settings, name) for name in record.units) + MARGIN
            with _if_kept():
                self._verb("bring-back", patience)

    def forget(self) -> None:
        """Nothing of the recreation is left but the container that serves. Raises :class:`KlopsError`."""
        self._verb("forget-kept", MARGIN)
        self.drop()

    def drop(self) -> None:
        """Remove the record."""
        self._remove(records.recreation_path(self.settings.root))

    def finish(self) -> None:
        """The new container serves: remove the old one, or say where it is kept."""
        record = self.record
        if record.adopted:
            self.ctx.warn(
                f"the old container, not one of klops, is kept, stopped: {record.aside} "
                f"({record.id[:12]}); when nothing in it is needed: docker rm {record.aside}"
            )
            if self._adopted():
                self._remove(records.adoption_path(self.settings.root))
        else:
            try:
                self.remove()
            except TaskFailed as error:
                # stopped and under another name it is in nobody's way
                self.ctx.warn(f"{error.message}; the new one serves, so it is left behind: {error.hint}")
        self.forget()

    def remove(self) -> None:
        """Remove the old container. Raises :class:`TaskFailed`."""
        record, engine = self.record, self.engine
        removed = engine.ask(docker.remove(engine.prefix, record.id), record.id)
        if removed.rc and not docker.no_such_container(removed.error_text):
            raise TaskFailed(
                f"the old container {record.aside} could not be removed: {said(removed)}",
                code="container",
                hint=f"docker rm {record.aside}",
            )

    def _adopted(self) -> bool:
        """Whether the old container is the one on record as adopted."""
        reads = (hostreads.adopted(self.settings),)
        adoption = records.parse_adoption(hostview.reply(self.ctx.remote.read(reads), hostreads.ADOPTED))
        return adoption is not None and adoption.id == self.record.id

    def _stop(self) -> None:
        record, engine = self.record, self.engine
        what = f"the old container {record.name} could not be stopped"
        grace = int(self.settings.container.stop_timeout)
        if record.adopted:
            if self._adopted():
                # in a container of klops docker stop reaches the supervisor, which does the same
                self._verb("quit", _QUIT + MARGIN)
            old = engine.find(record.id)
            # what is left there is not klops', and has the time that its maker gave it
            grace = old.stop_timeout if old is not None else 0
        engine.must(docker.stop(engine.prefix, record.id, grace), record.id, what, grace + LIMIT)

    def _clear(self, engine: Engine) -> None:
        """Take away what has the name, if that is what this recreation has made."""
        record, holder = self.record, engine.find(self.record.name)
        if holder is None or holder.id == record.id:
            return
        if not record.run or holder.labels.get(RUN_LABEL) != record.run:
            raise TaskFailed(
                f"the name {record.name} was taken by another container: {described(holder)}",
                code="container-conflict",
            )
        # else they would come up in the old container as the settings of the new one want them
        for name in record.units if holder.state == "running" else ():
            with contextlib.suppress(AgentError):
                self._verb("stop", stop_timeout(self.settings, name) + MARGIN, name)
        remove_new(engine, holder.id, int(self.settings.container.stop_timeout))

    def _verb(self, name: str, timeout: float, *args: str) -> None:
        argv = hostreads.agent_argv(self.settings, name, *args)
        done = self.ctx.remote.run(argv, check=False, timeout=timeout)
        answer(done, f"the agent's {' '.join((name, *args))}")

    def _remove(self, path: str) -> None:
        self.ctx.remote.run(["rm", "-f", "--", path])


@contextlib.contextmanager
def _if_kept() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        if error.code != _NOTHING_KEPT:
            raise


def by_hand(record: Recreation) -> str:
    """The commands that put the old container back, for a hint."""
    return (
        f"docker rename {record.aside} {record.name}; "
        f"docker update --restart {record.restart} {record.name}; docker start {record.name}"
    )
