"""Reads by way of the container engine: the agent's verbs that only look, pids, the engine's disk."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from klops.commands import reapcalls, reaping
from klops.commands.agent import PYTHON_FLAGS
from klops.commands.reaping import Place
from klops.remote.reads import ABSENT, Read


@dataclass(frozen=True)
class AgentRead(Read):
    """A verb of the agent that only reads, run by the Python inside a container.

    ``agent`` is the path of the agent in the container.
    """

    docker: tuple[str, ...]
    container: str
    python: str
    agent: str
    verb: str
    args: tuple[str, ...] = ()

    #: verbs that change nothing
    VERBS = frozenset({"status", "ps", "holders", "about", "releases", "packages", "generations"})

    def __post_init__(self) -> None:
        if self.verb not in self.VERBS:
            raise ValueError(f"not a read: agent verb {self.verb}")

    @property
    def started(self) -> tuple[str, ...]:
        """The command line up to the verb."""
        return (*self.docker, "exec", self.container, self.python, *PYTHON_FLAGS, self.agent)

    @property
    def script(self) -> str:
        return shlex.join((*self.started, self.verb, *self.args))


@dataclass(frozen=True)
class ReapRead(Read):
    """What was left behind on a host, from a helper container that can write nothing and goes at once; or in
    the container, as the agent in it sees it.

    Its reply is for :func:`klops.actions.own.reap.findings.read`.
    """

    beside: ClassVar[bool] = True

    place: Place
    #: further options of the verb
    args: tuple[str, ...] = ()
    #: of all of the host, by a helper; else of the container alone
    whole: bool = True
    #: further options for the helper alone: they name processes by the host's pids
    named: tuple[str, ...] = ()

    @property
    def engine(self) -> tuple[str, ...]:
        return self.place.docker

    @property
    def script(self) -> str:
        args = ("--check", *self.args)
        if not self.whole:
            return reaping.container(self.place, args)
        return reaping.whole(self.place, (*args, *self.named), inside=args, writable=False)


@dataclass(frozen=True)
class PidMapRead(Read):
    """Host pids of a container's processes: ``/proc/PID/status:NSpid: HOST ... INNER`` lines.

    Only of processes whose cgroup names the container; needs no rights beyond those of any user.
    """

    docker: tuple[str, ...]
    container: str

    @property
    def script(self) -> str:
        inspect = shlex.join(
            (*self.docker, "inspect", "--type", "container", "--format", "{{.Id}}", self.container)
        )
        return (
            f"id=$({inspect}) || exit $?; "
            'for f in $(grep -ls -- "$id" /proc/[0-9]*/cgroup); do d=${f%/cgroup}; '
            "echo \"$d/status\"; done | xargs grep -Hs '^NSpid:' -- ; true"
        )


@dataclass(frozen=True)
class DockerDiskRead(Read):
    """``df -Pk`` of the engine's data root, wherever that is."""

    docker: tuple[str, ...]

    @property
    def script(self) -> str:
        info = shlex.join((*self.docker, "info", "--format", "{{.DockerRootDir}}"))
        return f'root=$({info}) || exit $?; LC_ALL=C df -Pk -- "$root"'


@dataclass(frozen=True)
class ContainerImageRead(Read):
    """The image of a container, inspected by its id: a JSON list of one."""

    docker: tuple[str, ...]
    container: str

    @property
    def script(self) -> str:
        inspect = (*self.docker, "inspect", "--type", "container", "--format", "{{.Image}}", self.container)
        image = shlex.join((*self.docker, "image", "inspect", "--"))
        return f'id=$({shlex.join(inspect)}) || exit $?; {image} "$id"'


@dataclass(frozen=True)
class RecordedRead(Read):
    """The container that a record on the host names by its id, inspected; ``ABSENT`` without a record."""

    docker: tuple[str, ...]
    #: the record: JSON, a key a line
    path: str

    @property
    def script(self) -> str:
        path, inspect = shlex.quote(self.path), shlex.join((*self.docker, "inspect", "--type", "container"))
        return (
            f"[ -e {path} ] || exit {ABSENT}; "
            f'id=$({reapcalls.recorded(self.path)}); [ -n "$id" ] || exit 1; '
            f'{inspect} "$id"'
        )


@dataclass(frozen=True)
class DeviceLinksRead(Read):
    """Where the paths that a container's devices were given by lead to on the host: ``PATH<TAB>REAL`` lines.

    A path that leads nowhere has an empty second field. ``nodes``: paths looked up as well, where they exist.
    """

    docker: tuple[str, ...]
    container: str
    nodes: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        form = "{{range .HostConfig.Devices}}{{println .PathOnHost}}{{end}}"
        inspect = shlex.join(
            (*self.docker, "inspect", "--type", "container", "--format", form, self.container)
        )
        return (
            f"paths=$({inspect}) || exit $?; "
            f'for p in {shlex.join(self.nodes)}; do [ ! -e "$p" ] || paths="$paths\n$p"; done; '
            'printf "%s\n" "$paths" | sort -u | while IFS= read -r p; do [ -z "$p" ] || '
            'printf "%s\t%s\n" "$p" "$(readlink -e -- "$p")"; done; true'
        )
