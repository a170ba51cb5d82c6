"""Runs playbooks given as text on fake hosts."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.actions.catalog import GENERIC, catalog
from klops.errors import KlopsError
from klops.inventory import Inventory, load
from klops.inventory.connection import Connection
from klops.playbook.events import Event, Sink, TaskFinished
from klops.playbook.load.plays import load_playbook
from klops.playbook.model import Playbook
from klops.playbook.options import RunOptions
from klops.playbook.plays.run import run
from klops.playbook.results import RunResult, TaskResult
from klops.remote.base import Remote
from klops.remote.fake import Call, FakeRemote, reply
from klops.secret import Redactor

GENERIC_ACTIONS: dict[str, Action[Any]] = {name: catalog()[name] for name in GENERIC}

#: what a host answers to the listing of a path that isn't there
ABSENT = reply(rc=2, stderr="ls: cannot access")


@dataclass
class Recorder:
    """A sink that keeps what it hears."""

    events: list[Event] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)

    def finished(self, host: str = "h1") -> list[TaskFinished]:
        """Ends of tasks on a host, in order."""
        return [e for e in self.events if isinstance(e, TaskFinished) and e.host == host]


class FakeLock:
    """A lock that notes what is done with it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.lost: KlopsError | None = None
        #: raised when it is to be given back
        self.stuck: KlopsError | None = None

    def acquire(self) -> None:
        """Note it."""
        self.log.append("acquire")

    def pause(self, seconds: float) -> None:
        """Note it."""
        self.log.append("pause")

    def resume(self) -> None:
        """Note it."""
        self.log.append("resume")

    def release(self) -> None:
        """Note it."""
        self.log.append("release")
        if self.stuck is not None:
            raise self.stuck


@dataclass
class Ran:
    """A run and all that can be seen of it."""

    result: RunResult
    sink: Recorder
    hosts: Mapping[str, FakeRemote]
    locks: list[str]

    def task(self, place: int, host: str = "h1") -> TaskResult:
        """The result of a task by its place in the first play."""
        return self.result.plays[0].tasks[place].hosts[host]

    def statuses(self, host: str = "h1") -> list[str]:
        """Statuses of all tasks that a host came to."""
        return [
            task.hosts[host].status.value
            for play in self.result.plays
            for task in play.tasks
            if host in task.hosts
        ]

    @property
    def batches(self) -> int:
        """Remote commands of h1."""
        return self.hosts["h1"].commands_run


@dataclass
class Lab:
    """Fake hosts and files for playbooks."""

    folder: Path
    inventory: str = "all: {hosts: {h1: }}"
    hosts: dict[str, FakeRemote] = field(default_factory=dict)
    actions: Mapping[str, Action[Any]] = field(default_factory=lambda: GENERIC_ACTIONS)
    redactor: Redactor = field(default_factory=Redactor)
    #: wraps the fake host where a test needs another kind of remote
    wrap: Callable[[FakeRemote], Remote] = field(default=lambda remote: remote)
    sink: Recorder = field(default_factory=Recorder)
    #: of all hosts
    lock: FakeLock = field(default_factory=FakeLock)
    more_sinks: list[Sink] = field(default_factory=list)

    def host(self, name: str = "h1") -> FakeRemote:
        """The fake host of that name."""
        return self.hosts.setdefault(name, FakeRemote(name))

    def load(self, text: str) -> Playbook:
        """The playbook in ``text``."""
        path = self.folder / "play.yml"
        path.write_text(textwrap.dedent(text))
        return load_playbook(path, self.actions)

    def load_inventory(self) -> Inventory:
        """The inventory of the lab."""
        path = self.folder / "inventory.yml"
        path.write_text(textwrap.dedent(self.inventory))
        return load([str(path)])

    def play(self, text: str, **options: Any) -> Ran:
        """Run a playbook."""

        def opened(connection: Connection, **_: Any) -> Remote:
            return self.wrap(self.host(connection.name))

        result = run(
            self.load(text),
            self.load_inventory(),
            RunOptions(**options),
            sinks=[self.sink, *self.more_sinks],
            open_remote=opened,
            redactor=self.redactor,
            make_lock=lambda remote, root: self.lock,
            registry=self.actions,
        )
        return Ran(result, self.sink, self.hosts, self.lock.log)

    def tasks(self, text: str, **options: Any) -> Ran:
        """Run a play over all hosts with the tasks in ``text``."""
        return self.play(
            "- hosts: all\n  tasks:\n" + textwrap.indent(textwrap.dedent(text), "    "), **options
        )


class Files:
    """Files of a fake host that commands of steps really change; serves listings, digests and contents."""

    def __init__(self, host: FakeRemote, **files: str) -> None:
        self.content: dict[str, str] = dict(files)
        self.host = host
        host.on(lambda call: call.kind == "read", self._read)
        host.on(lambda call: call.kind == "put", self._put)

    def _put(self, call: Call) -> str:
        self.content[call.text] = call.stdin.decode()
        return ""

    def _read(self, call: Call) -> Any:
        import hashlib

        from klops.remote.filereads import GlobRead
        from klops.remote.reads import DigestRead, FileRead, ListRead, RealPathRead

        read = call.read
        if isinstance(read, ListRead):
            path = read.paths[0]
            if path not in self.content:
                return ABSENT
            return f"-rw-r--r-- 1 0 0 {len(self.content[path])} Nov 29 15:26 {path}\n"
        if isinstance(read, RealPathRead):
            return f"{read.path}\n"
        if isinstance(read, GlobRead):
            return read.pattern if read.pattern in self.content else reply(rc=44)
        assert isinstance(read, (DigestRead, FileRead))
        if read.path not in self.content:
            return reply(rc=44)
        data = self.content[read.path]
        return hashlib.sha256(data.encode()).hexdigest() + "\n" if isinstance(read, DigestRead) else data
