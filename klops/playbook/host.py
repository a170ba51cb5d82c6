"""One host in a run: its remotes, lock, variables, and what was read of it so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from klops.actions.base import Probe
from klops.errors import KlopsError
from klops.remote.base import ReadOnlyRemote, Remote, Reply

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.reads import Read

#: Seconds after which a host is asked again though klops changed nothing: it may have waited for others.
MAX_AGE = 60.0


class Lock(Protocol):
    """What the engine needs of a host's lock."""

    #: why it was lost, None while it wasn't
    lost: KlopsError | None

    def acquire(self) -> None: ...
    def release(self) -> None: ...


@dataclass
class Host:
    """A host of a run, from its first play to its last; used by one thread at a time.

    ``open_remote`` takes ``become`` (None: as the connection says). ``data`` holds registered results and
    facts.
    """

    name: str
    open_remote: Callable[[bool | None], Remote]
    #: from a remote and the root of klops there
    make_lock: Callable[[Remote, str], Lock]
    data: dict[str, Any] = field(default_factory=dict)
    #: why the host dropped out
    error: KlopsError | None = None
    #: what it still has to do of handlers: name -> the reason why that isn't certain, "" when it is
    notified: dict[str, str] = field(default_factory=dict)
    _remotes: dict[bool | None, Remote] = field(default_factory=dict)
    _working: dict[bool | None, Remote] = field(default_factory=dict)
    _lock: Lock | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def remote(self, become: bool | None) -> Remote:
        """Where tasks run; opened when first asked for.

        A clone, so that an interrupt can end what tasks run and the connection is still there for the lock.
        """
        with self._guard:
            if become not in self._working:
                self._remotes[become] = self.open_remote(become)
                self._working[become] = self._remotes[become].clone()
            return self._working[become]

    def lock(self, become: bool | None, settings: Settings) -> None:
        """Take the host's lock, once a run. Raises :class:`LockHeld`, also when it was lost meanwhile."""
        if self._lock is None:
            self.remote(become)
            lock = self.make_lock(self._remotes[become], settings.root)
            lock.acquire()
            self._lock = lock
        if self._lock.lost is not None:
            raise self._lock.lost

    def release(self) -> None:
        """Give the lock back, when it was taken."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            lock.release()

    def end_commands(self) -> None:
        """End what tasks run there just now. Any thread may call it, and again."""
        with self._guard:
            working = list(self._working.values())
        for remote in working:
            remote.close()

    def close(self) -> None:
        """Close what was opened."""
        self.end_commands()
        for remote in self._remotes.values():
            remote.close()

    @property
    def commands_run(self) -> int:
        """Remote commands so far."""
        with self._guard:
            return sum(remote.commands_run for remote in self._remotes.values())


@dataclass
class Replies:
    """What a host answered, by the script of the read: the same question of two tasks is asked once."""

    remote: Callable[[], Remote]
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[float, Reply]] = field(default_factory=dict)
    #: how often everything was forgotten
    forgotten: int = 0

    def forget(self) -> None:
        """Something happened on the host: what was read is no longer to be relied on."""
        self._known.clear()
        self.forgotten += 1

    def of(self, probe: Probe, ahead: Callable[[], Iterable[Read]]) -> Mapping[str, Reply]:
        """The replies to a probe by its own keys.

        What isn't known yet is read, and in the same remote command all that ``ahead`` names besides.
        """
        if any(self._get(read) is None for read in probe.reads):
            self._fetch([*probe.reads, *ahead()])
        found: dict[str, Reply] = {}
        for read in probe.reads:
            reply = self._get(read)
            assert reply is not None  # noqa: S101 - fetched just now
            found[read.key] = reply
        return found

    def _get(self, read: Read) -> Reply | None:
        when, reply = self._known.get(read.script, (0.0, None))
        return reply if reply is not None and self.clock() - when < MAX_AGE else None

    def _fetch(self, reads: Sequence[Read]) -> None:
        missing = {read.script: read for read in reads if self._get(read) is None}
        keyed = {f"r{number}": read for number, read in enumerate(missing.values())}
        remote = ReadOnlyRemote(self.remote())
        replies = remote.read([replace(read, key=key) for key, read in keyed.items()])
        now = self.clock()
        for key, read in keyed.items():
            self._known[read.script] = (now, replies[key])
