"""What a place answered so far: the same question of two tasks is asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from klops.actions.base import Probe
from klops.errors import CommandFailed, CommandTimeout
from klops.remote.base import DEFAULT_TIMEOUT, ReadOnlyRemote, Remote, Reply

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: Seconds after which a host is asked again though klops changed nothing: it may have waited for others.
MAX_AGE = 60.0


def _never() -> int:
    return 0


@dataclass
class Replies:
    """Answers by the script of the read.

    ``changes`` counts what was changed on the host by whomever in this run: another host's task may have been
    delegated to it.
    """

    remote: Callable[[], Remote]
    clock: Callable[[], float] = time.monotonic
    changes: Callable[[], int] = _never
    _known: dict[str, tuple[float, Reply]] = field(default_factory=dict)
    _seen: int = field(init=False)
    #: how often everything was forgotten
    forgotten: int = 0

    def __post_init__(self) -> None:
        self._seen = self.changes()

    def forget(self) -> None:
        """Something happened on the host: what was read is no longer to be relied on."""
        self._known.clear()
        self.forgotten += 1

    def of(self, probe: Probe, ahead: Callable[[], Iterable[Read]]) -> Mapping[str, Reply]:
        """The replies to a probe by its own keys.

        What isn't known yet is read, and in the same remote command all that ``ahead`` names besides.
        """
        changes = self.changes()
        if changes != self._seen:
            self._seen = changes
            self.forget()
        # one moment for the whole probe: what is fresh now is not too old because the rest took long to read
        now = self.clock()
        if any(self._get(read, now) is None for read in probe.reads):
            self._fetch_with(probe.reads, tuple(ahead()), now)
        found: dict[str, Reply] = {}
        for read in probe.reads:
            reply = self._get(read, now)
            assert reply is not None  # noqa: S101 - fetched just now
            found[read.key] = reply
        return found

    def _get(self, read: Read, now: float) -> Reply | None:
        when, reply = self._known.get(read.script, (0.0, None))
        return reply if reply is not None and now - when < MAX_AGE else None

    def _fetch_with(self, reads: Sequence[Read], ahead: Sequence[Read], now: float) -> None:
        try:
            self._fetch([*reads, *ahead], now)
        except CommandFailed as error:
            if error.code != "output-limit" or not ahead:
                raise
            # together they were more than one answer may hold: those of later tasks wait
            self._fetch(reads, now)

    def _fetch(self, reads: Sequence[Read], now: float) -> None:
        missing = {read.script: read for read in reads if self._get(read, now) is None}
        keyed = {f"r{number}": read for number, read in enumerate(missing.values())}
        batch = [replace(read, key=key) for key, read in keyed.items()]
        slow = [read for read in batch if read.slow]
        quick = [read for read in batch if not read.slow]
        if slow and quick:
            try:
                self._ask(batch, DEFAULT_TIMEOUT)
            except CommandTimeout:
                # mostly one command is enough; else what takes its time gets it, and the rest keeps its limit
                self._ask(quick, DEFAULT_TIMEOUT)
                self._ask(slow, None)
        else:
            self._ask(batch, None if slow else DEFAULT_TIMEOUT)

    def _ask(self, batch: Sequence[Read], timeout: float | None) -> None:
        replies = ReadOnlyRemote(self.remote()).read(batch, timeout=timeout)
        when = self.clock()
        for read in batch:
            self._known[read.script] = (when, replies[read.key])
