"""The verb ``reap``: look, judge, end, tidy, and say what came of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from typing import Any, Callable, Iterator, TypeVar

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError, system_error
from klops.agent.options import Options
from klops.agent.processes import accounts, devices, openfiles
from klops.agent.processes.procs import HALTED
from klops.agent.reaping import act, judge, keepout, known, records, sight
from klops.agent.reaping.act import Ender, Outcome
from klops.agent.reaping.hostlock import RUN, HostLock
from klops.agent.reaping.judge import Case, Verdict
from klops.agent.reaping.known import Asked
from klops.agent.reaping.sight import Seen, Sight
from klops.agent.trouble import Troubles, reason
from klops.agent.units import leftovers

#: Seconds that a candidate must have lived: a unit that starts has its first processes on record at once.
GRACE = 60.0
BUSY = "reap-busy"
#: Seconds for all of it: the rounds of signals take some twenty, and looks that hang must not pile up.
DEADLINE = 120
TIMEOUT = "reap-timeout"
#: Lists of those who are told of and not ended.
_OTHERS = ("unowned", "foreign", "unsupervised", "unknown", "observers")
_T = TypeVar("_T")


def reap(options: Options) -> dict[str, Any]:
    """The object that the verb prints. Raises :class:`VerbError` when it could not do its work."""
    paths, run = store.Paths(options.root), str(options.values.get("--run", ""))
    by = run or f"{RUN}{os.getpid()}"
    audit = Audit(paths.audit, f"reap {by}", Troubles())
    work = _Work(options, paths, audit, by)
    if work.check or work.lift:
        with _failing_as_said():
            return work.look_only()
    begun = time.monotonic()
    try:
        with _failing_as_said():
            paths.make()
            with _alone(paths), HostLock(paths.root, run, audit) as lock:
                result = work.clean(lock)
    except VerbError as failure:
        _record(paths, work.view, by, begun, {"error": failure.as_json()})
        raise
    unrecorded = _record(paths, work.view, by, begun, result)
    return {**result, "trouble": [*result["trouble"], unrecorded]} if unrecorded else result


class _LateError(Exception):
    """The time is over. No :class:`VerbError`: those the rounds of signals get over."""


@contextlib.contextmanager
def _failing_as_said() -> Iterator[None]:
    """What the system refuses, and what takes too long, ends as a :class:`VerbError`."""
    try:
        with _in_time():
            yield
    except OSError as error:
        raise system_error(error) from error
    except _LateError as error:
        raise VerbError(
            TIMEOUT,
            f"it was not done in {DEADLINE} s",
            "something it reads doesn't answer: look for processes in state D; what it has ended is in the"
            " audit file",
        ) from error


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Raise :class:`_LateError` inside once the time is over; only the main thread can have it so."""

    def late(*_: object) -> None:
        raise _LateError

    try:
        before = signal.signal(signal.SIGALRM, late)
    except ValueError:
        yield
        return
    timer = signal.setitimer(signal.ITIMER_REAL, DEADLINE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


@contextlib.contextmanager
def _alone(paths: store.Paths) -> Iterator[None]:
    """One clean-up at a time. The lock goes with its holder, and no child gets it."""
    fd = os.open(paths.run + "/reap.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise VerbError(
                BUSY, "another clean-up is at work", "it does the same; look again later"
            ) from None
        yield
    finally:
        os.close(fd)


def _record(paths: store.Paths, view: str, by: str, begun: float, result: dict[str, Any]) -> str:
    """Leave the line and the metrics; returns why that failed, "" when it didn't."""
    try:
        records.keep(paths.root, records.line(result, view, by, time.monotonic() - begun))
    except OSError as error:
        return f"{error.filename or paths.root}: {reason(error)}"
    return ""


class _Work:
    """One clean-up, as the options want it."""

    def __init__(self, options: Options, paths: store.Paths, audit: Audit, by: str) -> None:
        self.paths = paths
        self.audit = audit
        self.by = f"reap {by}"
        self.check = "--check" in options.flags
        #: nothing but notes on cards is dealt with, and that takes no lock of the host
        self.lift = "--lift" in options.flags and not self.check
        self.host = "--host" in options.flags
        self.view = "host" if self.host else "container"
        self.container = str(options.values.get("--container", ""))
        self.shared_ipc = "--shared-ipc" in options.flags
        self.shared_tmp = "--shared-tmp" in options.flags
        kind = str(options.values.get("--kind", judge.OTHER if self.host else judge.ADOPTED))
        if kind not in judge.KINDS or (self.host and self.container and "--kind" not in options.values):
            raise VerbError("usage", f"--kind {'|'.join(judge.KINDS)} is needed with --container")
        named = [_named(text) for text in options.lists.get("--include", [])]
        self.asked = Asked(kind, float(options.values.get("--grace", GRACE)), named)
        self.nodes = [
            node for node in devices.nodes(str(options.values.get("--device-dir", "/dev"))) if node.is_card
        ]
        self.begun = time.monotonic()
        #: what could not be done, none of which is a reason not to tell the rest
        self.trouble: list[str] = []
        #: names of users by pid and start of whoever was found
        self._users: dict[tuple[int, int], str] = {}

    def _attempt(self, what: str, do: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return do()
        except OSError as error:
            self.trouble.append(f"{what}: {reason(error)}")
            return otherwise

    def look(self) -> tuple[Sight, Case, Verdict]:
        """Look, and judge."""
        files, faults = known.files(self.paths) if self.asked.kind == judge.MADE else (set(), [])
        seen = sight.look(
            self.paths.root,
            self.paths.owner(),
            self.nodes,
            host=self.host,
            container=self.container,
            files=files,
        )
        case = known.case(known.inside(self.paths, seen), seen, self.asked)
        sight.with_users(seen, case.members)
        self.trouble += [text for text in (*faults, *case.faults) if text not in self.trouble]
        verdict = judge.judge(seen, case)
        for one in [one for name in ("orphans", *_OTHERS) for one in getattr(verdict, name)]:
            # now: of one that is gone nobody can tell any more where it lived
            self._users.setdefault(one.seen.key, self._user(one.seen))
        return seen, case, verdict

    def _user(self, who: Seen) -> str:
        """Whose it is, "" where that isn't known. A helper has the accounts of its image, not the host's."""
        if who.uid < 0:
            return ""
        if not self.host:
            return accounts.name(who.uid)
        # whoever looks at one that is stuck may wait with it
        settled = openfiles.settled(who.process, 0.0)
        return accounts.name_there(who.process.pid, who.uid) if settled else str(who.uid)

    def look_only(self) -> dict[str, Any]:
        """The same list, and nobody is ended."""
        seen, case, verdict = self.look()
        back = self._let_back(known.inside(self.paths, seen), seen)
        would = [
            Outcome(one, "none" if one.spared else _first(one.seen), act.SKIPPED) for one in verdict.orphans
        ]
        return self._result(seen, case, verdict, would, back)

    def clean(self, lock: HostLock) -> dict[str, Any]:
        """End what is to be ended, and put away what it leaves."""
        seen, case, verdict = self.look()

        def again() -> Verdict:
            lock.confirm()
            return self.look()[2]

        ender = Ender(verdict, {one.key for one in seen.processes.values()}, again, self.audit)
        ender.run()
        done = list(ender.outcomes.values())
        inside = known.inside(self.paths, seen)
        self._attempt(
            "the cards could not be noted as out of service",
            lambda: keepout.keep_out(inside, done, self.by),
            None,
        )
        done += [Outcome(one, "none", act.SKIPPED) for one in verdict.orphans if one.spared]
        after = seen
        if ender.outcomes:
            # what has been done is told whatever this says
            after, case, _ = self._attempt("it was not looked at again", self.look, (seen, case, verdict))
        self._attempt(
            "who belongs to which unit could not be written down",
            lambda: known.keep_up(inside, after, case),
            None,
        )
        self._attempt(
            "earlier lives of the container could not be closed",
            lambda: known.close_earlier(inside, after),
            None,
        )
        return self._result(after, case, verdict, done, self._let_back(inside, after))

    def _let_back(self, paths: store.Paths, seen: Sight) -> list[dict[str, Any]]:
        """Cards whose stuck process is gone serve again; they are returned."""
        if not self.host:
            return []
        nothing: list[dict[str, Any]] = []
        what = "notes on cards could not be taken away"
        try:
            lifted = self._attempt(what, lambda: keepout.let_back(paths, seen, check=self.check), nothing)
        except VerbError as failure:
            self.trouble.append(f"{what}: {failure.message}")
            return []
        for note in () if self.check else lifted:
            self.audit.note("card-back", "", card=note["card"], process=note["process"])
        return [note["card"] for note in lifted]

    def _result(
        self,
        seen: Sight,
        case: Case,
        verdict: Verdict,
        done: list[Outcome],
        back: list[dict[str, Any]],
    ) -> dict[str, Any]:
        nothing: list[dict[str, Any]] = []
        lists = {
            name: [self._row(Outcome(one, "none", act.SKIPPED), seen) for one in getattr(verdict, name)]
            for name in _OTHERS
        }
        return {
            "schema": store.SCHEMA,
            "view": self.view,
            "check": self.check,
            # cards that are kept out of service for a process that is gone, by now or by what was done
            "back": back,
            "processes": [self._row(one, seen) for one in done],
            **lists,
            "zombies": [{"cpid": pid, "name": name, "count": count} for pid, name, count in verdict.zombies],
            "shm": self._attempt(
                "what is left in shared memory could not be dealt with",
                lambda: self._tidied(seen, case),
                nothing,
            ),
            "supervisor": case.supervisor == judge.ANSWERS,
            "trouble": self.trouble,
            "seconds": round(time.monotonic() - self.begun, 3),
        }

    def _tidied(self, seen: Sight, case: Case) -> list[dict[str, Any]]:
        """Shared memory is the container's: the host's view has nothing to say of it."""
        if self.host or case.kind == judge.OTHER:
            return []
        made = case.kind == judge.MADE
        place = leftovers.Place(
            self.paths, self.audit, made, shared_ipc=self.shared_ipc, shared_tmp=self.shared_tmp
        )
        # now, not when it was looked: a unit may have begun meanwhile
        running = known.running(self.paths)
        own = {*case.keepers, *seen.mine}
        return leftovers.tidy(place, running, check=self.check or self.lift, own=own, grace=case.grace)

    def _row(self, one: Outcome, seen: Sight) -> dict[str, Any]:
        who = one.finding.seen
        inside = not self.host or bool(who.container) or who.inner != who.process
        notes = [one.finding.reason, one.finding.spared, one.note]
        return {
            "pid": who.process.pid if self.host else None,
            "cpid": who.inner.pid if inside else None,
            "start": who.process.start,
            "name": who.process.name,
            "user": self._users[who.key],
            "container": who.container,
            "unit": one.finding.unit or None,
            "cards": list(who.cards),
            "state": who.process.state,
            "age": round(seen.age(who.process), 1),
            "reason": "; ".join(note for note in notes if note),
            "action": one.action,
            "outcome": one.outcome,
        }


def _first(seen: Seen) -> str:
    """The signal that would come first."""
    return "kill" if seen.process.state in HALTED else "term"


def _named(text: str) -> tuple[int, int]:
    pid, _, start = text.partition(":")
    if not pid.isdecimal() or not start.isdecimal():
        raise VerbError("usage", f"--include takes PID:START, not {text!r}")
    return int(pid), int(start)
