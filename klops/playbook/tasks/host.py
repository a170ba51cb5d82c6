"""One host in a run: its remotes, its lock, and what tasks registered for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from klops.errors import KlopsError
from klops.playbook.tasks.foresight import Foreseen
from klops.playbook.tasks.replies import MAX_AGE, Replies
from klops.remote.base import Remote

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

__all__ = ["MAX_AGE", "Host", "Lock", "Replies"]


class Lock(Protocol):
    """What the engine needs of a host's lock."""

    #: why it was lost, None while it wasn't
    lost: KlopsError | None

    def acquire(self) -> None: ...
    def release(self) -> None: ...
    def pause(self, seconds: float) -> None: ...
    def resume(self) -> None: ...


#: ``become`` (None: as the connection says) and the user to become ("": as the connection says)
Identity: TypeAlias = "tuple[bool | None, str]"


@dataclass
class Host:
    """A host of a run, from its first play to its last.

    One thread at a time works through its tasks; others may look at ``data`` and ``facts``, and run what was
    delegated to the host over remotes of their own. ``open_remote`` takes ``become`` (None: as the connection
    says), and the user to become where a task names one. ``data`` holds registered results and variables set
    by tasks.
    """

    name: str
    open_remote: Callable[..., Remote]
    #: from a remote and the root of klops there
    make_lock: Callable[[Remote, str], Lock]
    data: dict[str, Any] = field(default_factory=dict)
    #: what was read of the host itself, by short name; None: not asked for yet
    facts: Mapping[str, Any] | None = None
    #: facts that modules gave, which are laid over those
    given_facts: Mapping[str, Any] = field(default_factory=dict)
    #: held while facts are read, so that of several who want them one asks
    reading_facts: threading.RLock = field(default_factory=threading.RLock)
    #: why the host dropped out
    error: KlopsError | None = None
    #: what it still has to do of handlers: name -> the reason why that isn't certain, "" when it is
    notified: dict[str, str] = field(default_factory=dict)
    #: a dry run: what its tasks would have made of the host so far
    foreseen: Foreseen = field(default_factory=Foreseen)
    #: how often a task of this run may have changed something there
    changes: int = 0
    #: what the last of these told, nothing where it failed; None: there was none
    told: Mapping[str, Any] | None = None
    _remotes: dict[Identity, Remote] = field(default_factory=dict)
    #: of before a reset
    _former: list[Remote] = field(default_factory=list)
    #: by who works with them and as whom
    _working: dict[tuple[str, Identity], Remote] = field(default_factory=dict)
    #: of before a reset, with which tasks of other hosts may still be at work
    _parked: list[Remote] = field(default_factory=list)
    _lock: Lock | None = None
    #: the lock is not renewed, since the host restarts
    _paused: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _locking: threading.Lock = field(default_factory=threading.Lock)

    def remote(self, become: bool | None, become_user: str = "", *, by: str = "") -> Remote:
        """Where tasks run; opened when first asked for. ``by``: the host whose task was delegated here.

        A clone, so that an interrupt can end what tasks run and the connection is still there for the lock;
        one for each who works here, because a remote serves one thread at a time.
        """
        identity = (become, become_user)
        with self._guard:
            if (by, identity) not in self._working:
                self._working[by, identity] = self._opened(identity).clone()
            return self._working[by, identity]

    def lock(self, become: bool | None, settings: Settings) -> None:
        """Take the host's lock, once a run. Raises :class:`LockHeld`, also when it was lost meanwhile."""
        with self._locking:
            if self._lock is None:
                with self._guard:
                    remote = self._opened((become, ""))
                lock = self.make_lock(remote, settings.root)
                lock.acquire()
                self._lock = lock
            self._resume()
        self.still_ours()

    def still_ours(self) -> None:
        """Raise :class:`LockHeld` when the lock was lost; nothing where none was taken. Asks nobody."""
        lock = self._lock
        if lock is not None and lock.lost is not None:
            raise lock.lost

    def forget_facts(self) -> None:
        """Have all facts read anew when a template next asks for one."""
        with self.reading_facts:
            self.facts = None
            self.given_facts = {}

    def touched(self) -> None:
        """Something may have been changed there: who remembers what it answered has to ask again."""
        with self._guard:
            self.changes += 1
            self.told = {}

    def release(self) -> None:
        """Give the lock back, when it was taken."""
        with self._locking:
            lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    @contextmanager
    def restarting(self, seconds: float) -> Iterator[None]:
        """Around a restart that takes at most so many seconds: the lock is left alone, and then taken anew.

        Raises :class:`LockHeld` when somebody else has it by then. After a restart that went wrong it is
        taken when the next task changes something.
        """
        with self._locking:
            if self._lock is not None and self._lock.lost is None:
                self._lock.pause(seconds)
                self._paused = True
        yield
        with self._locking:
            self._resume()

    def end_commands(self) -> None:
        """End what tasks run there just now. Any thread may call it, and again."""
        with self._guard:
            working = [*self._working.values(), *self._parked]
        for remote in working:
            remote.close()

    def reset(self) -> None:
        """Have later tasks open connections of their own; that of the lock stays until the run ends.

        So do those that other hosts' tasks have here: nobody knows when these are done with them.
        """
        with self._guard:
            own = [remote for (by, _), remote in self._working.items() if not by]
            self._parked += [remote for (by, _), remote in self._working.items() if by]
            self._working = {}
            self._former += self._remotes.values()
            self._remotes = {}
        for remote in own:
            remote.close()

    def close(self) -> None:
        """Close what was opened."""
        self.end_commands()
        for remote in (*self._remotes.values(), *self._former):
            remote.close()

    @property
    def commands_run(self) -> int:
        """Remote commands so far."""
        with self._guard:
            opened = (*self._remotes.values(), *self._former)
            return sum(remote.commands_run for remote in opened)

    def _resume(self) -> None:
        if self._paused and self._lock is not None:
            self._lock.resume()
            self._paused = False

    def _opened(self, identity: Identity) -> Remote:
        if identity not in self._remotes:
            become, user = identity
            opened = self.open_remote(become, user) if user else self.open_remote(become)
            self._remotes[identity] = opened
        return self._remotes[identity]
