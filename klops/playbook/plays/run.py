"""Run a playbook: its plays one after the other, and what has to be done before and after them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from klops.actions.base import Action
from klops.errors import Interrupted, KlopsError
from klops.playbook.events import RunFinished, RunStarted, Sink, Warned
from klops.playbook.model import Playbook
from klops.playbook.noting import HostNotes
from klops.playbook.options import RunOptions
from klops.playbook.plays.fleet import MakeLock, OpenRemote, RunFleet
from klops.playbook.plays.includes import Includes
from klops.playbook.plays.playrun import PlayRunner
from klops.playbook.plays.prepare import Prepared, prepare
from klops.playbook.plays.selection import plain, select
from klops.playbook.plays.tally import Tally
from klops.playbook.plays.workers import Workers
from klops.playbook.results import RunResult
from klops.playbook.tasks.host import Host, Lock
from klops.playbook.tasks.redaction import redacted_error
from klops.playbook.tasks.surroundings import Surroundings
from klops.remote.base import Remote
from klops.remote.lock import HostLock, LockOwner
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory import Inventory

__all__ = ["RunOptions", "run"]


def run(
    playbook: Playbook,
    inventory: Inventory,
    options: RunOptions,
    *,
    sinks: Sequence[Sink],
    open_remote: OpenRemote,
    redactor: Redactor,
    make_lock: MakeLock | None = None,
    registry: Mapping[str, Action[Any]] | None = None,
) -> RunResult:
    """Run ``playbook``; what fails on a host is in the result.

    ``registry``: the modules of included tasks (None: all that klops has). Raises :class:`UsageError` (all
    mistakes of all hosts at once) before anything runs anywhere. An interrupt ends what klops runs on the
    hosts, gives the locks back, and is noted in the result.
    """
    if registry is None:
        from klops.actions.catalog import catalog

        registry = catalog()
    plays = select(playbook, inventory, options)
    prepared = prepare(plays, inventory, options.extra_vars, redactor)
    owner = LockOwner.here()
    notes = HostNotes(str(playbook.path))
    own_locks = make_lock or (
        lambda remote, root: HostLock(
            remote, root, who=owner, notes=notes.of(remote.name), cancelled=lambda: notes.interrupted
        )
    )

    begun = threading.Event()

    def lock(remote: Remote, root: str) -> Lock:
        # nothing is changed before the run could be told of
        begun.wait()
        if notes.interrupted:
            raise Interrupted("interrupted")
        return own_locks(remote, root)

    beside = inventory.beside(playbook.path.parent)
    fleet = RunFleet(beside, prepared.connections, options.extra_vars, open_remote, lock, redactor)
    includes = Includes(registry, options.tags, options.skip_tags)
    return _Run(playbook, prepared, options, sinks, fleet, includes, redactor, owner.run, notes, begun).go()


class _Run:
    def __init__(
        self,
        playbook: Playbook,
        prepared: Prepared,
        options: RunOptions,
        sinks: Sequence[Sink],
        fleet: RunFleet,
        includes: Includes,
        redactor: Redactor,
        run: str,
        notes: HostNotes,
        begun: threading.Event,
    ) -> None:
        self._name = run
        self._notes = notes
        self._plays = prepared.plays
        self._options = options
        self._fleet = fleet
        self._includes = includes
        names = tuple(dict.fromkeys(host for play in prepared.plays for host in play.selection.hosts))
        self._result = RunResult(str(playbook.path), check=options.check, hosts=names)
        notes.errors = self._result.errors
        self._tally = Tally(self._result, [notes, *sinks], redactor, begun)
        self._around = Surroundings(
            playbook.path,
            options.check,
            run,
            plain(options.extra_vars),
            redactor,
            self._tally.stop,
            self._tally.progress,
            fleet,
            options,
        )
        self._workers = Workers(max(1, min(options.forks, len(names))))

    def go(self) -> RunResult:
        began = time.monotonic()
        runner = PlayRunner(self._fleet, self._around, self._workers, self._tally, self._includes)
        check = self._options.check
        self._tally.emit(RunStarted(self._result.playbook, self._result.hosts, check, self._name))
        try:
            for number, play in enumerate(self._plays, start=1):
                if not runner.run(play):
                    for later in self._plays[number:]:
                        runner.left_out(later.selection.play.name, later.selection.hosts)
                    break
            self._tally.speak()
        except KeyboardInterrupt:
            self._result.interrupted = True
            self._interrupt()
        except BaseException:
            # a fault, as of a sink: what waits for a thread must not change hosts that nobody hears of
            self._interrupt()
            raise
        finally:
            self._finish()
        self._result.seconds = time.monotonic() - began
        self._tally.emit(RunFinished(self._result))
        # of a run that was interrupted before it came to a task
        self._tally.speak()
        return self._result

    # -- the end ---------------------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """End what tasks run on the hosts, and wait until no task is at work any more."""
        self._tally.stop.set()
        self._notes.interrupted = True
        self._tally.begun.set()

        def end_commands() -> None:
            # again and again: a task may be between two commands just now
            for host in self._fleet.known:
                # one that fails at it must not keep those of the others going
                with suppress(Exception):
                    host.end_commands()

        _to_the_end(partial(self._workers.interrupt, end_commands))

    def _finish(self) -> None:
        """Locks are given back, connections closed; a host that is gone by now is only worth a warning."""
        _to_the_end(self._workers.close)
        with ThreadPoolExecutor(max_workers=self._workers.forks) as pool:
            leaving = [pool.submit(self._leave, host) for host in self._fleet.known]
            _to_the_end(partial(wait, leaving))
        self._result.remote_commands = dict.fromkeys(self._result.hosts, 0)
        for host in self._fleet.known:
            if host.name in self._result.hosts or host.commands_run:
                self._result.remote_commands[host.name] = host.commands_run

    def _leave(self, host: Host) -> None:
        lock = ("the lock could not be given back", "; it expires by itself", host.release)
        for wrong, after, leave in (lock, ("its connections could not be closed", "", host.close)):
            try:
                leave()
            except Exception as error:
                # whatever it is, the other hosts are left as well, and the run ends as it should
                if not isinstance(error, KlopsError):
                    error = KlopsError(f"{type(error).__name__}: {error}")
                text = f"{wrong}: {redacted_error(error, self._around.redactor)}{after}"
                with suppress(Exception):
                    self._tally.emit(Warned(host.name, text))


def _to_the_end(work: Callable[[], object]) -> None:
    """Do ``work``, which may be done again, however often somebody interrupts it.

    Who is impatient would leave locks and commands of klops behind on the hosts.
    """
    while True:
        try:
            work()
        except KeyboardInterrupt:
            continue
        return
