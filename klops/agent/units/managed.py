"""One unit in the supervisor's hands: its record, its lineage, its checks, its start and its end."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from klops.agent import store
from klops.agent.processes import identity, procs
from klops.agent.processes.identity import Handle
from klops.agent.processes.procs import Process
from klops.agent.units import (
    logs,
    quarantine,
    readback,
    report,
    unit,
)
from klops.agent.units.ending import LOADING, Ending, unkillable
from klops.agent.units.health import SMOKE_TIMEOUT, Checker, Target
from klops.agent.units.kept import Surroundings
from klops.agent.units.launches import Launched
from klops.agent.units.liveness import Liveness, unchecked
from klops.agent.units.readback import ReadBack
from klops.agent.units.unit import Check, Seen
from klops.agent.units.vital import Vital

#: Seconds between looks at the length of a log.
_LOG_INTERVAL = 5.0
#: Seconds between looks for an answer while a unit starts.
_START_INTERVAL = 0.5
#: Seconds between looks at the models, with the key, of one that is ready.
_LISTING_INTERVAL = 60.0
#: Lines of a log that are kept of a failure.
_LINES = 20


class Managed(Launched):
    """A unit. All methods are called in the supervisor's one thread."""

    def __init__(self, name: str, around: Surroundings) -> None:
        super().__init__(name, around)
        self.handles: dict[tuple[int, int], Handle] = {}
        self.health: dict[str, Any] = unchecked()
        self._liveness = Liveness(around.memory)
        self._ending: Ending | None = None
        self._checker: Checker | None = None
        self._vital = Vital()
        self._cards = ReadBack(name, around.audit, around.package)
        #: vital members that were gone when the newest check began: if a completion comes back, they aren't
        self._tried: frozenset[tuple[int, int]] = frozenset()
        self._next_check = self._next_log = self._next_listing = 0.0
        #: members that had to be killed at the newest end
        self._killed: list[dict[str, Any]] = []
        #: members that outlive KILL and whose cards are on record for it
        self._kept_out: set[tuple[int, int]] = set()
        #: all that lives outlives KILL
        self._hopeless = False
        #: a check has gone well since this supervisor began or this generation was launched
        self._confirmed = False
        self.read_spec()
        self.read_state()

    # -- what is on disk

    def read_state(self) -> None:
        """Take the state from disk, and what it says of the engine's parts."""
        super().read_state()
        self._vital.restore(self.record.vital)

    def forget(self) -> None:
        """Remove the unit's files; its logs stay, and the record of members in other namespaces."""
        paths = self.around.paths
        files = [paths.spec(self.name), paths.secret(self.name), paths.state(self.name)]
        if self.lineage.elsewhere:
            self.lineage.forget()
        else:
            files.append(paths.lineage(self.name))
        for path in files:
            store.remove(path)
            store.remove(path + store.ASIDE)
        self._remains.leave()
        self.close()

    def close(self) -> None:
        """Let go of all processes."""
        for handle in self.handles.values():
            handle.close()
        self.handles.clear()
        if self._checker is not None:
            self._checker.close()
        self._cards.close()

    def report(self) -> dict[str, Any]:
        """The UNIT object of ``status``."""
        log, record, fault = self.around.paths.log(self.name), self.record.dump(), self.fault or self.refusal
        health = self.health
        if record["state"] == unit.READY and not self._confirmed:
            # an earlier supervisor's word: meanwhile the engine may have died
            record["state"] = unit.UNHEALTHY
            if health["ok"] is None:
                health = {**health, "message": "not checked yet by this supervisor"}
        if record["desired"] == unit.STOPPED:
            fault = None
            if self.unwritten:
                record["error"] = (
                    record["error"]
                    or f"that it is to be stopped can't be written down ({self.unwritten}):"
                    " a restart of the container would start it again"
                )
        return {
            **report.unit(
                record, self.spec, self.secret, self.living, log, health, fault.message if fault else ""
            ),
            "escalated": self._killed,
            **self._read_back(record),
        }

    def _read_back(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Which cards it really has, while it is ready; as it was read, a status reads nothing."""
        ready = record["state"] == unit.READY and self._readable()
        return self._cards.of(self._root_key()) if ready else readback.nothing()

    def _readable(self) -> bool:
        """Whether its root lives and was launched with the specification that is at hand."""
        same = self.spec is not None and self.record.running.get("digest") == self.spec.get("digest")
        return same and self._root_alive()

    def _root_key(self) -> tuple[int, int]:
        pid, start = self.record.root or (0, 0)
        return pid, start

    @property
    def readers(self) -> set[int]:
        """Children that read from its processes and were not seen to end."""
        return self._cards.pids

    def hear(self) -> None:
        """Take in what they say."""
        self._cards.hear()

    # -- one look

    def look(self, processes: dict[int, Process]) -> None:
        """Bring the lineage up to date."""
        self.lineage.grow(processes, self.record.generation, self.around.never)
        # whatever a damaged record says: who keeps units is no member of one
        self.living = [p for p in self.lineage.living(processes) if p.pid not in self.around.never]
        alive = {(p.pid, p.start) for p in self.living}
        for process in self.living:
            key = (process.pid, process.start)
            if key not in self.handles:
                handle = identity.hold(identity.of(process))
                if handle is not None:
                    self.handles[key] = handle
        for key in set(self.handles) - alive:
            self.handles.pop(key).close()

    def _root_alive(self) -> bool:
        root = self.record.root
        return root is not None and any([p.pid, p.start] == root for p in self.living)

    def root_gone(self) -> bool:
        """Whether its API server has ended by now, which the next look may be the first to see."""
        if self.record.root is None:
            return False
        pid, start = self.record.root
        process = procs.read(pid)
        return process is None or process.start != start or not process.alive

    def _exit_text(self) -> str:
        root = self.record.root
        status = self.around.exits.pop(root[0], None) if root and not self._root_alive() else None
        if status is None:
            return ""
        if os.WIFSIGNALED(status):
            return f"was killed by signal {os.WTERMSIG(status)}"
        return f"ended with status {os.WEXITSTATUS(status)}"

    def step(self, processes: dict[int, Process], now: float, closing: bool) -> str:
        """One step of the state machine; ends what has to end. A launch is left to the caller."""
        clock = time.time()
        if self.refusal is not None and not closing and self.record.desired != unit.STOPPED:
            self.record.enter(unit.UNHEALTHY if self.living else unit.FAILED, now, clock)
            self.save()
            return unit.NOTHING
        check = self._checker.take(self.record.generation) if self._checker else None
        if check is not None:
            check = self._judged(check, now, clock)
            if check.kind == unit.OK and check.smoked:
                self._vital.drop(self._tried)
        lost = self._vital.lost(self.living)
        before = self.record.state
        seen = Seen(
            now=now,
            clock=clock,
            root_alive=self._root_alive(),
            living=len(self.living),
            exit=self._exit_text(),
            check=check,
            part_lost=lost,
            tried=check is not None and bool(self._tried),
            stuck=self._stuck(now),
            closing=closing,
        )
        action = unit.step(self.record, self.policy, seen)
        if self.record.state != before:
            self._entered(before)
        if self.fault is not None and self.record.state in (unit.STARTING, unit.READY) and self._root_alive():
            self.record.enter(unit.UNHEALTHY, now, clock)  # nobody can check it
        if check is not None and check.kind == unit.OK:
            self._confirmed = self._confirmed or not lost
            root = self.record.root[0] if self.record.root else 0
            self._vital.learn(self.living, processes, root, self.spec or {})
            self.record.vital = self._vital.known()
            if check.listed:
                self._next_listing = now + _LISTING_INTERVAL
        if action == unit.END:
            self._end(now)
        else:
            self._ending = None
        self._watch(now)
        self._remains.watch(self.living, now, ready=self.record.state == unit.READY)
        if self.record.state == unit.READY and not closing and self.spec is not None and self._readable():
            self._cards.look(self._root_key(), self.living, self.spec)
        self.save()
        return action

    def _judged(self, check: Check, now: float, clock: float) -> Check:
        """A check that ended, seen together with what its server did before; a change of that is told."""
        live = self._liveness
        check = live.judge(check, now, self.policy.stall, self.spec or {})
        self.health = {
            "ok": check.kind == unit.OK,
            "checked": clock,
            "message": check.message,
            **live.shown(check.kind),
        }
        if live.turned:
            kind, why = self.health["progress"], live.trouble or "requests progress"
            self.around.audit.note("progress", self.name, progress=kind, why=why)
        return check

    def _entered(self, before: str) -> None:
        record, log = self.record, self.around.paths.log(self.name)
        self.around.audit.note(
            "state", self.name, state=record.state, was=before, why=record.error or record.ending
        )
        if record.state in (unit.BACKOFF, unit.FAILED):
            if record.failures <= 1:  # what comes after the first is often but its consequence
                found = logs.first_failure(log, record.log_from, _LINES)
                record.first_error, record.first_tail = found
            record.tail = logs.tail_lines(log, _LINES, record.log_from)
        if record.state not in (unit.READY, unit.UNHEALTHY):
            self.health = unchecked()

    def _watch(self, now: float) -> None:
        record, spec = self.record, self.spec
        if now >= self._next_log and self.living:
            self._next_log = now + _LOG_INTERVAL
            self.attempt(f"{self.name}: its log can't be looked after", self._look_after_log)
        missing = self._vital.missing(self.living)
        due = now >= self._next_check or not missing <= self._tried
        if spec is None or self.fault or record.ending or not self._root_alive() or not due:
            return
        settings = spec.get("health", {})
        often = record.state == unit.STARTING or missing
        self._next_check = now + (_START_INTERVAL if often else float(settings.get("interval", 5)))
        if self._checker is None:
            try:
                self._checker = Checker(self.name, self.around.wake)
            except RuntimeError as error:  # no more threads: what runs is left alone, and not called ready
                self.health = unchecked(f"can't be checked: {error}")
                return
        timeout = float(settings.get("timeout", 10))
        asks, insist = self._liveness.asks(now)
        target = Target(
            port=int(spec["port"]),
            model=str(spec["model"]),
            key=str((self.secret or {}).get("secrets", {}).get("VLLM_API_KEY", "")),
            timeout=timeout,
            pids=[p.pid for p in self.living],
            was_ready=record.was_ready,
            listing=now >= self._next_listing or bool(missing),
            smoke=bool(missing) or (bool(settings.get("smoke", True)) and not record.smoked),
            canary=asks and bool(settings.get("smoke", True)),
            insist=insist,
            smoke_timeout=timeout if missing else SMOKE_TIMEOUT,
        )
        if self._checker.ask(record.generation, target):
            self._tried = missing

    # -- the end

    def _end(self, now: float) -> None:
        if self._ending is None:
            self._remains.watch(self.living, now, ready=self.record.was_ready, ending=True)
            root = self.record.root[0] if self.record.root and self._root_alive() else None
            patience = float((self.spec or {}).get("stop", {}).get("timeout", 30))
            self._ending = Ending(now, root, patience if self.record.was_ready else min(patience, LOADING))
            self._killed = self._ending.killed
        why = self.record.ending or "left over from an earlier generation"
        for process, number, part in self._ending.due(self.living, now):
            handle = self.handles.get((process.pid, process.start))
            if handle is not None:
                self.around.audit.signal(self.name, handle, process.name, number, f"{why}: {part}")

    def _stuck(self, now: float) -> str:
        """Which members outlive KILL, once that is certain; their cards are kept out of service then."""
        stuck = self._ending.stuck(self.living, now) if self._ending else []
        self._hopeless = bool(stuck) and len(stuck) == len(self.living)
        if not stuck:
            return ""
        spec = self.spec or {}
        cards = quarantine.held_by(stuck, spec)
        said = unkillable(stuck, cards)

        def keep_out() -> None:
            new = [p for p in stuck if (p.pid, p.start) not in self._kept_out]
            notes = quarantine.notes(new, cards, spec, said, f"supervisor, unit {self.name}")
            if notes:
                quarantine.add(self.around.paths.root, notes)
            self._kept_out |= {(p.pid, p.start) for p in new}
            for one in notes:
                self.around.audit.note("quarantine", self.name, card=one["card"]["index"], why=one["reason"])

        self.attempt(f"{self.name}: that its cards are kept out of service can't be written", keep_out)
        return said

    # -- the start

    def begin(self, seen: Seen) -> None:
        """A generation is launched: what was known of the one before doesn't count."""
        self._vital.clear()
        self.record.vital, self._confirmed = [], True
        self._liveness = Liveness(self.around.memory)
        self._next_check = seen.now + _START_INTERVAL

    def wants_before(self, now: float) -> float:
        """In how many seconds this unit wants to be looked at again."""
        record = self.record
        if self._hopeless or self.fallen:
            return 1.0  # nothing is sent, it can only go by itself
        if record.ending or record.state == unit.STARTING or (self.living and record.desired == unit.STOPPED):
            return 0.1
        if record.state == unit.BACKOFF:
            return min(1.0, max(0.1, record.not_before - now))
        return 1.0 if self.living or self.hindered else 5.0

    def check_due(self, now: float) -> float:
        """In how many seconds the next check has to begin."""
        watched = not self.fault and not self.fallen and not self.record.ending
        checked = self._root_alive() and self.spec and watched
        return max(0.05, self._next_check - now) if checked else 60.0
