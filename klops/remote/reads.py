"""Typed reads: the closed set of things a probe may ask of a host.

Each is rendered to a fragment of POSIX shell that leaves nothing behind. That set, not good will, is what
makes check mode unable to write: a :class:`CommandRead` takes only argv that
:func:`klops.commands.readonly.refusal` lets through.
"""

from __future__ import annotations

import abc
import shlex
from dataclasses import dataclass, field

from klops.commands.agent import PYTHON_FLAGS
from klops.commands.readonly import refusal

#: Bytes of a file that a probe takes.
FILE_LIMIT = 1024 * 1024
#: Exit status of a read that found nothing at its path.
ABSENT = 44


@dataclass(frozen=True)
class Read(abc.ABC):
    """One thing to read. ``key`` names the reply within its task; two tasks may use the same key."""

    key: str

    @property
    @abc.abstractmethod
    def script(self) -> str:
        """The fragment of POSIX shell that reads it; its standard input is empty unless it brings its own."""


@dataclass(frozen=True)
class FileRead(Read):
    """The content of a file, at most ``limit`` bytes; status ``ABSENT`` when it isn't there.

    A folder, or what could be waited for (a pipe, a device), is not read; that is status 1.
    """

    path: str
    limit: int = FILE_LIMIT

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -e {path} ] || exit {ABSENT}; [ -f {path} ] || {{ echo 'not a regular file' >&2; exit 1; }}; "
            f"head -c {self.limit} -- {path}"
        )


@dataclass(frozen=True)
class ListRead(Read):
    """``ls -lnd`` of paths, in the C locale: type, mode, owner, size or device numbers.

    Missing paths are missing in the output and make the status non-zero. ``follow`` looks through links.
    """

    paths: tuple[str, ...]
    follow: bool = False

    @property
    def script(self) -> str:
        flags = "-lndL" if self.follow else "-lnd"
        return f"LC_ALL=C ls {flags} -- " + " ".join(shlex.quote(p) for p in self.paths)


@dataclass(frozen=True)
class DigestRead(Read):
    """sha256 of a file as 64 hex digits; status ``ABSENT`` when it isn't there."""

    path: str

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -f {path} ] || exit {ABSENT}; "
            f"if command -v sha256sum >/dev/null; then sha256sum < {path}; else shasum -a 256 < {path}; fi"
            " | cut -c1-64"
        )


@dataclass(frozen=True)
class CommandRead(Read):
    """A command known to read only. Any other argv is refused here, before it can be sent anywhere."""

    argv: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        why = refusal(self.argv)
        if why:
            raise ValueError(f"not a read: {shlex.join(self.argv)}: {why}")

    @property
    def script(self) -> str:
        return shlex.join(self.argv)


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
    VERBS = frozenset({"status", "ps", "holders", "about"})

    def __post_init__(self) -> None:
        if self.verb not in self.VERBS:
            raise ValueError(f"not a read: agent verb {self.verb}")

    @property
    def script(self) -> str:
        run = (*self.docker, "exec", self.container, self.python, *PYTHON_FLAGS)
        return shlex.join((*run, self.agent, self.verb, *self.args))


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
class FirstRead(Read):
    """The first of several reads that succeeds and says something; its key is the answer's first line."""

    options: tuple[Read, ...]

    @property
    def script(self) -> str:
        found = """&& [ -n "$out" ]; then printf '%s\\n' {key} "$out"; exit 0; fi; """
        tries = [
            f"if out=$({option.script}) " + found.format(key=shlex.quote(option.key))
            for option in self.options
        ]
        return "".join(tries) + "exit 1"
