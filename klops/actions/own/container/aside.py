"""The old container of a recreation: put aside, put back, or given up for the new one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from klops.actions.base import Context, Progress
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.agentverbs import MARGIN, answer, quit_beside
from klops.actions.own.container.calm import calm
from klops.actions.own.container.engine import LIMIT, Engine, described, not_started, said
from klops.actions.own.container.making import remove_new
from klops.actions.own.records import Recreation
from klops.actions.own.services.stop import stop_timeout
from klops.actions.own.supervision import WaitAgent, supervise
from klops.commands import docker
from klops.commands.containerspec import RUN_LABEL
from klops.commands.docker import Container, Image
from klops.errors import AgentError, Interrupted, KlopsError, LockHeld, TaskFailed
from klops.remote.lock import read_lock

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: What the agent says where nothing was kept: it could not be asked before the old container was stopped.
_NOTHING_KEPT = "nothing-kept"
#: Seconds for packages of a Python in a volume, which the new container had changed.
_RESTORING = 1800.0
#: Seconds for which a container is seen to end whose supervisor couldn't be ended.
_ENDING = 5.0
_PAUSE = 0.2


def aside_name(container: Container) -> str:
    """What a container is called while another one has its name."""
    return records.aside_name(container.name, container.id)


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
            argv = docker.commit(prefix, record.id, commit, self._like())
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
        """The old container runs again, and its units are being started as they were, on what they ran on.

        One that did not run before stays as it was. Raises :class:`KlopsError`; done again it does no harm.
        """
        record, engine = self.record, self.engine
        if not record.ran:
            return
        started = engine.ask(docker.start(engine.prefix, record.id), record.id)
        if started.rc:
            raise not_started(f"container {record.name} does not start", said(started), "container-start")
        adopted = self._adopted()
        if adopted:
            supervise(self.ctx, self.settings)
        try:
            if not adopted:
                WaitAgent(self.settings).carry_out(self.ctx)
            patience = sum(stop_timeout(self.settings, name) for name in record.units) + MARGIN + _RESTORING
            with _if_kept():
                self._verb("bring-back", patience)
        except AgentError as error:
            if record.units:
                raise
            # nothing is to serve: what the new one was given is told of this one until the next klops up
            self.ctx.warn(f"container {record.name} is back, but not what it ran on: {error.message}")

    def forget(self) -> None:
        """Nothing of the recreation is left but the container that serves. Raises :class:`KlopsError`."""
        self._verb("forget-kept", MARGIN)
        self.drop()

    def drop(self) -> None:
        """Remove the record, and what was kept beside it: there are secrets in that."""
        root = self.settings.root
        self._remove(records.kept_path(root), records.recreation_path(root))

    def finish(self) -> None:
        """The new container serves: remove the old one, or say where it is kept.

        Raises :class:`LockHeld` where somebody else may be about to put the old one back.
        """
        record = self.record
        self._sure()
        if record.adopted:
            self.ctx.warn(
                f"the old container, not one of klops, is kept, stopped: {record.aside} "
                f"({record.id[:12]}). docker container prune would take it with all that was written in "
                f"it; when nothing of that is needed: docker rm {record.aside}"
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

    def _sure(self) -> None:
        """Look at the lock itself: what was said of it last may be older than a renewal."""
        self.ctx.still_ours()
        found = read_lock(self.ctx.remote.read((hostreads.lock(self.settings),))[hostreads.LOCK])
        if found is None or found.run != self.ctx.view.run:
            host, record = self.ctx.view.host, self.record
            raise LockHeld(
                f"{host}: the lock was lost while container {record.name} was made anew; the old one is "
                f"still there as {record.aside}",
                hint=f"klops lock status {host} shows who has it; the next klops up completes this",
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
        # in a container of klops docker stop reaches the supervisor, which does the same
        if record.adopted and (not self._adopted() or self._quit()):
            old = engine.find(record.id)
            # what is left there is not klops', and has the time that its maker gave it
            grace = old.stop_timeout if old is not None else 0
        engine.must(docker.stop(engine.prefix, record.id, grace), record.id, what, grace + LIMIT)

    def _quit(self) -> bool:
        """End its supervisor, or see the container end: the engine may be stopping it for a lost run."""
        try:
            return quit_beside(self.ctx, self.settings)
        except AgentError:
            deadline = time.monotonic() + _ENDING
            while (old := self.engine.find(self.record.id)) is not None and not old.at_rest:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)
        return True

    def _like(self) -> Image | None:
        """The image whose command one of the old container has; None for its own: klops' is of no use there.

        What somebody else's container runs is their own choice.
        """
        if self.record.adopted:
            return None
        reply = self.ctx.remote.read((hostreads.container_image(self.settings),))[hostreads.CONTAINER_IMAGE]
        return docker.parse_image(reply.text) or Image("")

    def _clear(self, engine: Engine) -> None:
        """Take away what has the name, if that is what this recreation has made."""
        record, holder = self.record, engine.find(self.record.name)
        if holder is None or holder.id == record.id:
            return
        if not record.run or holder.labels.get(RUN_LABEL) != record.run:
            raise TaskFailed(
                f"the name {record.name} was taken by another container: {described(holder)}",
                code="container-conflict",
                hint=f"docker rename {record.name} {record.name}.other frees the name",
            )
        # else they would come up in the old container as the settings of the new one want them
        for name in record.units if holder.state == "running" else ():
            with contextlib.suppress(AgentError):
                self._verb("stop", stop_timeout(self.settings, name) + MARGIN, name)
        remove_new(engine, holder.id, int(self.settings.container.stop_timeout))

    def _verb(self, name: str, timeout: float, *args: str) -> None:
        self.ctx.still_ours()
        argv = hostreads.agent_argv(self.settings, name, *args)
        done = self.ctx.remote.run(argv, check=False, timeout=timeout)
        answer(done, f"the agent's {' '.join((name, *args))}")

    def _remove(self, *paths: str) -> None:
        self.ctx.still_ours()
        self.ctx.remote.run(["rm", "-f", "--", *paths])


@contextlib.contextmanager
def _if_kept() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        if error.code != _NOTHING_KEPT:
            raise


def way_back(record: Recreation, host: str, error: KlopsError) -> str:
    """What puts the old container back where klops couldn't for that error, for a hint."""
    first = f"{error.hint}; then " if error.hint else ""
    return (
        f"{first}klops up {host} tries it again; by hand: docker rename {record.aside} {record.name}; "
        f"docker update --restart {record.restart} {record.name}; docker start {record.name}"
    )
