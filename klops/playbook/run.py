"""Run a playbook: task by task over all hosts of a play, the hosts side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Protocol

from klops.errors import KlopsError
from klops.playbook.events import (
    Event,
    HostDropped,
    PlayStarted,
    RunFinished,
    RunStarted,
    Sink,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.host import Host, Lock
from klops.playbook.model import Playbook, Task
from klops.playbook.options import RunOptions
from klops.playbook.outcome import unknown
from klops.playbook.prepare import Prepared, prepare
from klops.playbook.redaction import hidden, redacted, redacted_error
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from klops.playbook.selection import PlaySelection, plain, select
from klops.playbook.taskrun import HostPlay, Surroundings
from klops.remote.base import Remote
from klops.remote.lock import HostLock, LockOwner
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory import Inventory
    from klops.inventory.connection import Connection

__all__ = ["RunOptions", "run"]


class OpenRemote(Protocol):
    """How to get at a host; :func:`klops.remote.factory.open_remote`."""

    def __call__(self, connection: Connection, *, become: bool | None = None) -> Remote: ...


#: makes the lock of a host from its remote and the root of klops there
MakeLock = Callable[[Remote, str], Lock]


def run(
    playbook: Playbook,
    inventory: Inventory,
    options: RunOptions,
    *,
    sinks: Sequence[Sink],
    open_remote: OpenRemote,
    redactor: Redactor,
    make_lock: MakeLock | None = None,
) -> RunResult:
    """Run ``playbook``; what fails on a host is in the result.

    Raises :class:`UsageError` (all mistakes of all hosts at once) before anything runs anywhere. An interrupt
    ends what klops runs on the hosts, gives the locks back, and is noted in the result.
    """
    plays = select(playbook, inventory, options)
    prepared = prepare(plays, inventory, options.extra_vars, redactor)
    owner = LockOwner.here()
    own_locks = make_lock or (lambda remote, root: HostLock(remote, root, who=owner))
    return _Run(playbook, plays, prepared, options, sinks, open_remote, redactor, own_locks, owner.run).go()


def _opened(open_remote: OpenRemote, connection: Connection, become: bool | None) -> Remote:
    return open_remote(connection, become=become)


def _raise_first(futures: Sequence[Future[None]]) -> None:
    """Raise what a sink raised; what went wrong on a host is a result and no exception."""
    for future in futures:
        if future.done():
            future.result()


class _Busy:
    """Counts tasks that are at work; a context manager for each of them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def idle(self, seconds: float) -> bool:
        """Whether nothing is at work, at the latest after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)


class _Run:
    def __init__(
        self,
        playbook: Playbook,
        plays: Sequence[PlaySelection],
        prepared: Prepared,
        options: RunOptions,
        sinks: Sequence[Sink],
        open_remote: OpenRemote,
        redactor: Redactor,
        make_lock: MakeLock,
        run: str,
    ) -> None:
        self._plays = plays
        self._prepared = prepared
        self._options = options
        self._sinks = sinks
        self._redactor = redactor
        self._speaking = threading.Lock()
        self._cancelled = threading.Event()
        names = tuple(dict.fromkeys(host for selection in plays for host in selection.hosts))
        self._result = RunResult(str(playbook.path), check=options.check, hosts=names)
        self._around = Surroundings(
            playbook.path,
            options.check,
            run,
            plain(options.extra_vars),
            redactor,
            self._cancelled,
            self._progress,
        )
        self._hosts = {
            name: Host(name, partial(_opened, open_remote, prepared.connections[name]), make_lock)
            for name in names
        }
        self._forks = max(1, min(options.forks, len(names)))
        self._pool = ThreadPoolExecutor(max_workers=self._forks)
        self._busy = _Busy()

    def go(self) -> RunResult:
        began = time.monotonic()
        self._emit(RunStarted(self._result.playbook, self._result.hosts, self._options.check))
        try:
            for number, selection in enumerate(self._plays):
                self._play(number, selection)
        except KeyboardInterrupt:
            self._interrupt()
        finally:
            self._finish()
        self._result.seconds = time.monotonic() - began
        self._emit(RunFinished(self._result))
        return self._result

    # -- plays and tasks -------------------------------------------------------------------------------------

    def _play(self, number: int, selection: PlaySelection) -> None:
        living = [name for name in selection.hosts if self._hosts[name].error is None]
        if not living:
            return
        play = selection.play
        self._emit(PlayStarted(play.name, tuple(living)))
        record = PlayRun(play.name, tuple(living))
        self._result.plays.append(record)
        settings, variables = self._prepared.settings[number], self._prepared.variables[number]
        hosts = {
            name: HostPlay(self._hosts[name], play, settings[name], variables[name], self._around)
            for name in living
        }
        for place, task in enumerate(selection.tasks):
            now = {name: host for name, host in hosts.items() if host.host.error is None}
            if not now:
                return
            ahead = selection.tasks[place + 1 :]
            self._task(record, task, {name: partial(host.run, task, ahead) for name, host in now.items()})
        self._handlers(record, play.handlers, hosts)

    def _handlers(self, record: PlayRun, handlers: Sequence[Task], hosts: Mapping[str, HostPlay]) -> None:
        for place, handler in enumerate(handlers):
            work: dict[str, Callable[[], TaskResult]] = {}
            for name, host in hosts.items():
                notified = host.host.notified
                if host.host.error is not None or handler.name not in notified:
                    continue
                reason = notified.pop(handler.name)
                if reason:
                    work[name] = partial(unknown, reason)
                    continue
                ahead = [later for later in handlers[place + 1 :] if later.name in notified]
                work[name] = partial(host.run, handler, ahead)
            if work:
                self._task(record, handler, work, handler=True)

    def _task(
        self,
        record: PlayRun,
        task: Task,
        work: Mapping[str, Callable[[], TaskResult]],
        *,
        handler: bool = False,
    ) -> None:
        """One task on all its hosts, side by side."""
        entry = TaskRun(task.name, task.action.name)
        record.tasks.append(entry)
        self._emit(TaskStarted(task.name, task.action.name, handler))

        def one(name: str, job: Callable[[], TaskResult]) -> None:
            with self._busy:
                entry.hosts[name] = self._settle(self._hosts[name], task, job())

        futures = [self._pool.submit(one, name, job) for name, job in work.items()]
        # in short waits: a long one can't be interrupted on Windows, nor when another thread gets the signal
        while wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION).not_done:
            _raise_first(futures)
        _raise_first(futures)
        # in the order of the hosts, whoever was done first
        entry.hosts = {name: entry.hosts[name] for name in work}

    def _settle(self, host: Host, task: Task, result: TaskResult) -> TaskResult:
        """Show a result, keep it, and drop the host when it failed."""
        if task.no_log:
            result = hidden(result)
        result = redacted(result, self._redactor)
        self._result.values.setdefault(host.name, {})[task.action.name] = result.values
        self._emit(TaskFinished(host.name, task.name, task.action.name, result))
        for text in result.warnings:
            self._emit(Warned(host.name, text))
        if result.status in (Status.FAILED, Status.UNREACHABLE):
            error = result.error or KlopsError(result.message)
            host.error = error
            if not self._cancelled.is_set():
                self._result.errors[host.name] = error
                self._emit(HostDropped(host.name, error))
        return result

    # -- the end ---------------------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """End what tasks run on the hosts, and wait until no task is at work any more."""
        self._result.interrupted = True
        self._cancelled.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # again and again: a task may be between two commands just now
        while not self._busy.idle(0.2):
            for host in self._hosts.values():
                host.end_commands()

    def _finish(self) -> None:
        """Locks are given back, connections closed; a host that is gone by now is only worth a warning."""
        self._pool.shutdown()
        with ThreadPoolExecutor(max_workers=self._forks) as pool:
            list(pool.map(self._leave, self._hosts.values()))
        for name, host in self._hosts.items():
            self._result.remote_commands[name] = host.commands_run

    def _leave(self, host: Host) -> None:
        try:
            host.release()
        except KlopsError as error:
            text = f"the lock could not be given back: {redacted_error(error, self._redactor)}"
            self._emit(Warned(host.name, f"{text}; it expires by itself"))
        finally:
            host.close()

    def _emit(self, event: Event) -> None:
        with self._speaking:
            for sink in self._sinks:
                sink.handle(event)

    def _progress(self, host: str, task: str, message: str, elapsed: float, percent: float | None) -> None:
        self._emit(TaskProgress(host, task, self._redactor(message), elapsed, percent))
