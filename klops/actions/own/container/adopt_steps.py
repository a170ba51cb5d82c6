"""Steps of an adoption. Each can be repeated; none writes into the container but below klops' root."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import records
from klops.actions.own.agent import FOLDERS
from klops.actions.own.agentverbs import quit_beside
from klops.actions.own.container.engine import LIMIT, Engine
from klops.actions.own.image import python
from klops.actions.own.services.steps import Verb
from klops.actions.own.services.stop import stop_timeout
from klops.actions.own.supervision import supervise
from klops.commands import docker
from klops.commands.agent import package_path
from klops.commands.docker import Container
from klops.errors import AgentError, TaskFailed
from klops.remote import agentpackage
from klops.remote.whoami import user

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: What the agent says where nobody answers to the socket of its supervisor.
_NO_SUPERVISOR = "no-supervisor"

#: ``sh -c MAKE sh MODE PATH ...``: folders that are missing, with their modes whatever the umask.
_MAKE = (
    'while [ $# -gt 1 ]; do [ -d "$2" ] || { mkdir -p -- "$2" && chmod "$1" "$2"; } || exit 73; shift 2; done'
)
#: ``sh -c SWITCH sh NEW PACKAGE SIZE CURRENT KEEP``: the copied file gets its name, then ``current`` leads to
#: it. Both by rename, so that whoever starts meanwhile finds the old agent or the new one. All others go, but
#: not the one whose digest is KEEP.
_SWITCH = r"""
n=$(wc -c <"$1") && [ "$n" -eq "$3" ] || { echo "$n of $3 bytes arrived" >&2; rm -f -- "$1"; exit 74; }
chmod 0644 "$1" && mv -f -- "$1" "$2" && ln -sf -- "${2##*/}" "$4.new" && mv -f -- "$4.new" "$4" || exit 73
for p in "${2%/*}"/*.pyz; do
  case $p in "$2"|*/"$5".pyz) ;; *) rm -rf -- "$p" "${p%.pyz}".*; esac
done
"""


@dataclass(frozen=True)
class CheckInside(Step):
    """Ask whether the interpreter of the settings is one that klops and vLLM can use."""

    changes: ClassVar[bool] = False

    docker: tuple[str, ...]
    name: str
    id: str
    python: str
    #: whether the step before this one has started it
    started: bool = False

    def change(self) -> Change:
        """The interpreter and the container."""
        return Change(f"check {self.python} of container {self.name}")

    def carry_out(self, ctx: Context) -> None:
        """Before anything is written there. Raises what :func:`klops.actions.own.image.python.judge` says.

        A container that did not run is stopped again then: it is somebody else's. Of one whose main process
        has ended meanwhile that is told: the interpreter is not to blame.
        """
        argv = docker.execute(self.docker, self.id, self.python, *python.ARGS)
        done = ctx.remote.run(argv, check=False)
        where = f"the container {self.name}"
        error = python.judge(done.rc, done.text, done.error_text, python=self.python, where=where)
        if error is None:
            return
        engine = Engine(ctx, self.docker)
        found = engine.find(self.id)
        if found is None or found.at_rest or found.state == "restarting":
            error = self._ended(found)
        if self.started and found is not None and not found.at_rest:
            stop = docker.stop(self.docker, self.id, found.stop_timeout)
            engine.ask(stop, self.id, found.stop_timeout + LIMIT)
        raise error

    def _ended(self, found: Container | None) -> TaskFailed:
        if found is None:
            gone = f"container {self.name} ({self.id[:12]}) has ended, and docker has removed it"
            return TaskFailed(gone, code="container-start", hint="docker ps -a shows what is there")
        return TaskFailed(
            f"container {self.name} does not stay up: its main process ended with status {found.exit_code}",
            code="container-start",
            hint=f"docker logs {self.name} shows what it said; klops runs services only in a container whose "
            "main process goes on",
        )


@dataclass(frozen=True)
class PlaceAgent(Step):
    """Put the agent into the container's own layer: it has no folder of the host for it."""

    docker: tuple[str, ...]
    name: str
    id: str
    root: str
    digest: str
    #: digest of the package that a living supervisor starts gates from; "" for none
    in_use: str

    def change(self) -> Change:
        """The agent and where it goes."""
        return Change(f"put the agent {self.digest} into container {self.name} ({self.root}/agent)")

    def carry_out(self, ctx: Context) -> None:
        """Make klops' folders, copy the package of the host beside its place, rename it, switch the link."""
        paths = [(mode, f"{self.root}/{name}" if name else self.root) for name, mode in FOLDERS]
        pairs = [word for mode, path in paths for word in (f"{mode:04o}", path)]
        ctx.remote.run(docker.execute(self.docker, self.id, "sh", "-c", _MAKE, "sh", *pairs))
        package = package_path(self.root, self.digest)
        new = f"{self.root}/agent/.{self.digest}.new"
        copied = ctx.remote.run(docker.copy_in(self.docker, package, self.id, new), check=False)
        if copied.rc != 0:
            raise TaskFailed(
                f"the agent could not be copied into container {self.name}: {copied.error_text.strip()}",
                code="agent-placing",
                hint="klops.agent puts it on the host first: is that task in the playbook?",
            )
        size = len(agentpackage.build().data)
        words = ("sh", new, package, str(size), f"{self.root}/agent/current", self.in_use)
        ctx.remote.run(docker.execute(self.docker, self.id, "sh", "-c", _SWITCH, *words))


@dataclass(frozen=True)
class Record(Step):
    """Write down on the host, by its id, that the container is adopted."""

    root: str
    name: str
    id: str
    #: id of the container that the record names so far; "" for none
    before: str

    def change(self) -> Change:
        """The container; another one that was adopted before it is told."""
        what = f"adopt container {self.name} ({self.id[:12]}), which klops did not make"
        if self.before:
            what += f"; another one ({self.before[:12]}) was adopted before"
        return Change(what)

    def carry_out(self, ctx: Context) -> None:
        """Write it."""
        record = records.Adoption(self.id, self.name, user(), round(time.time(), 3))
        ctx.remote.put(records.text(record), records.adoption_path(self.root))


@dataclass(frozen=True)
class EndSupervisor(Step):
    """Have the supervisor end its units and itself; what is desired of them stays on record.

    One that is the container's main process can't leave it: it only has its units stop.
    """

    settings: Settings
    #: units that don't rest
    units: tuple[str, ...] = ()

    def change(self) -> Change:
        """What ends where."""
        return Change(f"end the agent's supervisor in container {self.settings.container.name}")

    def carry_out(self, ctx: Context) -> None:
        """Ask for it; the agent answers when nothing of it lives."""
        ctx.progress(Progress("ending the supervisor"))
        try:
            ended = quit_beside(ctx, self.settings)
        except AgentError as error:
            if error.code != _NO_SUPERVISOR:
                raise
            # processes of units live that nobody looks after: a supervisor takes them up, and ends them
            supervise(ctx, self.settings)
            ended = quit_beside(ctx, self.settings)
        if ended:
            return
        for name in self.units:
            Verb(self.settings, "stop", name, "", stop_timeout(self.settings, name)).carry_out(ctx)
        ctx.warn(
            f"the agent's supervisor is the main process of container {self.settings.container.name}, so it "
            "stays there, with no unit running"
        )


@dataclass(frozen=True)
class Forget(Step):
    """Remove the record of an adoption."""

    root: str
    name: str
    id: str

    def change(self) -> Change:
        """The container, and that nothing happens to it."""
        return Change(f"forget that container {self.name} ({self.id[:12]}) was adopted; it stays as it is")

    def carry_out(self, ctx: Context) -> None:
        """Remove the file."""
        ctx.remote.run(["rm", "-f", "--", records.adoption_path(self.root)])
