"""Ending orphans: TERM, wait, KILL. Before each round everybody is looked at and judged anew."""

from __future__ import annotations

import select
import signal
import time
from typing import Callable, NamedTuple

from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import identity, procs
from klops.agent.processes.identity import Handle
from klops.agent.processes.procs import HALTED
from klops.agent.reaping.judge import Finding, Verdict
from klops.agent.trouble import reason

GONE, ALIVE, UNKILLABLE, SKIPPED = "gone", "alive", "unkillable", "skipped"
#: Signal and the seconds for its effect. An engine that was asked needs about six to put its memory away.
ROUNDS = ((signal.SIGTERM, 8.0), (signal.SIGKILL, 2.0), (signal.SIGKILL, 3.0), (signal.SIGKILL, 5.0))
#: Seconds between looks where there are no pidfds to wait for.
_LOOK = 0.1


class Outcome(NamedTuple):
    """What became of one candidate."""

    finding: Finding
    #: ``none``, ``term`` or ``kill``: the last that was sent
    action: str
    outcome: str
    #: more than the finding says; "" for nothing
    note: str = ""


class Ender:
    """Ends what a first look has found to be due, and what that has begotten since."""

    def __init__(
        self, first: Verdict, present: set[tuple[int, int]], again: Callable[[], Verdict], audit: Audit
    ) -> None:
        """``present`` are pid and start of all that the first look has shown.

        ``again`` looks and judges anew; it raises :class:`VerbError` when no signal may be sent any more.
        """
        self._verdict = first
        self._present = present
        self._again = again
        self._audit = audit
        self._units = {one.unit for one in first.due().values() if one.unit}
        self._handles: dict[tuple[int, int], Handle] = {}
        self.outcomes: dict[tuple[int, int], Outcome] = {}
        for key, one in first.due().items():
            self.outcomes[key] = Outcome(one, "none", ALIVE)

    def run(self) -> None:
        """All rounds, as far as they are needed."""
        try:
            for turn, (number, patience) in enumerate(ROUNDS):
                due = self._due(first=turn == 0)
                if not due:
                    return
                for finding in due.values():
                    self._send(finding, number)
                self._wait(patience)
        except VerbError as failure:
            self._stop(failure.message)
        except OSError as error:
            self._stop(f"it could not be gone on with: {reason(error)}")
        finally:
            self._settle()

    def _due(self, *, first: bool) -> dict[tuple[int, int], Finding]:
        """Whom this round is for. What has been taken over meanwhile is spared."""
        # also the first time: the first look is as old as it took to get here
        self._verdict = self._again()
        still = {one.seen.key: one for one in self._verdict.orphans}
        due = {}
        for key, one in still.items():
            begotten = not first and one.unit in self._units and key not in self._present
            if begotten and key not in self.outcomes:
                self.outcomes[key] = Outcome(one, "none", ALIVE)
            if key in self.outcomes and (begotten or not one.spared):
                due[key] = one
        for key, known in self.outcomes.items():
            if key not in still and known.outcome == ALIVE and _lives(key):
                self.outcomes[key] = known._replace(outcome=SKIPPED, note="no longer left behind")
        return due

    def _send(self, finding: Finding, number: int) -> None:
        key, process = finding.seen.key, finding.seen.process
        handle = self._handles.get(key)
        if handle is None:
            try:
                handle = identity.hold(identity.of(process))
            except OSError as error:
                # not a word on the process: the others have their turn, and it has its own in the next round
                self.outcomes[key] = self.outcomes[key]._replace(note=f"no hold on it: {reason(error)}")
                return
            if handle is None:
                return
            self._handles[key] = handle
        if number == signal.SIGTERM and process.state in HALTED:
            number = signal.SIGKILL  # stopped, it can't act on anything else
        outcome = self._audit.signal(finding.unit, handle, process.name, number, finding.reason)
        if outcome == "sent":
            action = "kill" if number == signal.SIGKILL else "term"
            # what was noted of it in an earlier round is over
            self.outcomes[key] = self.outcomes[key]._replace(action=action, outcome=ALIVE, note="")
        elif outcome != "gone":
            self.outcomes[key] = self.outcomes[key]._replace(note=outcome)

    def _wait(self, patience: float) -> None:
        """Until nobody lives to whom a signal was sent, or the time is over."""
        deadline = time.monotonic() + patience
        poll = select.poll()
        waiting = {key: handle for key, handle in self._handles.items() if _lives(key)}
        for handle in waiting.values():
            if handle.fd >= 0:
                poll.register(handle.fd, select.POLLIN)
        blind = any(handle.fd < 0 for handle in waiting.values())
        while waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for fd, _ in poll.poll(1000 * (min(left, _LOOK) if blind else left)):
                poll.unregister(fd)
            waiting = {key: handle for key, handle in waiting.items() if _lives(key)}

    def _stop(self, why: str) -> None:
        for key, known in self.outcomes.items():
            if known.outcome == ALIVE:
                self.outcomes[key] = known._replace(note=why)

    def _settle(self) -> None:
        for key, known in self.outcomes.items():
            try:
                lives = _lives(key)
            except OSError as error:
                self.outcomes[key] = known._replace(note=f"it could not be looked at: {reason(error)}")
                continue
            if not lives:
                self.outcomes[key] = known._replace(outcome=GONE, note="")
            elif known.outcome == ALIVE and known.action == "kill" and not known.note:
                self.outcomes[key] = known._replace(outcome=UNKILLABLE, note=_stuck(known.finding))
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()


def _lives(key: tuple[int, int]) -> bool:
    boot, ns = identity.here()
    return identity.alive(identity.Identity(boot, ns, *key))


def _stuck(finding: Finding) -> str:
    process = procs.read(finding.seen.process.pid)
    state = process.state if process is not None else "?"
    return f"it outlives KILL in state {state}: it sits in the driver; only a reset or a reboot ends it"
