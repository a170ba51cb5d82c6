"""One unit in the supervisor's hands: its record, its lineage, its checks, its start and its end."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Mapping

from klops.agent import (
    devices,
    environment,
    gate,
    identity,
    launching,
    logs,
    procs,
    report,
    specification,
    store,
    unit,
)
from klops.agent.ending import LOADING, Ending
from klops.agent.errors import VerbError
from klops.agent.health import SMOKE_TIMEOUT, Checker, Target
from klops.agent.identity import Handle
from klops.agent.kept import Kept, Surroundings
from klops.agent.procs import Process
from klops.agent.trouble import reason
from klops.agent.unit import Seen
from klops.agent.vital import Vital

#: Seconds between looks at the length of a log.
_LOG_INTERVAL = 5.0
#: Seconds between looks for an answer while a unit starts.
_START_INTERVAL = 0.5
#: Seconds between looks at the models, with the key, of one that is ready.
_LISTING_INTERVAL = 60.0
#: Seconds that somebody else may hold a card or the port until it counts: xpu-smi, for one, opens all cards.
_PATIENCE = 3.0


class Managed(Kept):
    """A unit. All methods are called in the supervisor's one thread."""

    def __init__(self, name: str, around: Surroundings) -> None:
        super().__init__(name, around)
        self.living: list[Process] = []
        self.handles: dict[tuple[int, int], Handle] = {}
        self.health: dict[str, Any] = {"ok": None, "checked": None, "message": ""}
        self._ending: Ending | None = None
        self._checker: Checker | None = None
        self._vital = Vital()
        #: vital members that were gone when the newest check began: if a completion comes back, they aren't
        self._tried: frozenset[tuple[int, int]] = frozenset()
        self._next_check = self._next_log = self._next_listing = 0.0
        self._hindered_since: float | None = None
        self._log_size = -1
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
        """Remove the unit's files; its logs stay."""
        paths = self.around.paths
        for path in (
            paths.spec(self.name),
            paths.secret(self.name),
            paths.state(self.name),
            paths.lineage(self.name),
        ):
            store.remove(path)
            store.remove(path + store.ASIDE)
        self.close()

    def close(self) -> None:
        """Let go of all processes."""
        for handle in self.handles.values():
            handle.close()
        self.handles.clear()
        if self._checker is not None:
            self._checker.close()

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
        return report.unit(
            record, self.spec, self.secret, self.living, log, health, fault.message if fault else ""
        )

    # -- one look

    def look(self, processes: dict[int, Process]) -> None:
        """Bring the lineage up to date."""
        self.lineage.grow(processes, self.record.generation, self.around.never)
        self.living = self.lineage.living(processes)
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
            self.health = {"ok": check.kind == unit.OK, "checked": clock, "message": check.message}
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
            stuck=self._ending.stuck(self.living, now) if self._ending else "",
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
        self.save()
        return action

    def _entered(self, before: str) -> None:
        record, log = self.record, self.around.paths.log(self.name)
        self.around.audit.note(
            "state", self.name, state=record.state, was=before, why=record.error or record.ending
        )
        if record.state in (unit.BACKOFF, unit.FAILED):
            if not record.first_error:
                record.first_error = logs.first_error(log, record.log_from)
            record.tail = logs.tail_lines(log, 20, record.log_from)
        if record.state not in (unit.READY, unit.UNHEALTHY):
            self.health = {"ok": None, "checked": None, "message": ""}

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
                self.health = {"ok": None, "checked": None, "message": f"can't be checked: {error}"}
                return
        timeout = float(settings.get("timeout", 10))
        target = Target(
            port=int(spec["port"]),
            model=str(spec["model"]),
            key=str((self.secret or {}).get("secrets", {}).get("VLLM_API_KEY", "")),
            timeout=timeout,
            pids=[p.pid for p in self.living],
            was_ready=record.was_ready,
            listing=now >= self._next_listing or bool(missing),
            smoke=bool(missing) or (bool(settings.get("smoke", True)) and not record.smoked),
            smoke_timeout=timeout if missing else SMOKE_TIMEOUT,
        )
        if self._checker.ask(record.generation, target):
            self._tried = missing

    def _look_after_log(self) -> None:
        log, limits = self.around.paths.log(self.name), (self.spec or {}).get("log", {})
        length = logs.size(log)
        if length > int(limits.get("max_bytes", 64 << 20)):
            logs.rotate(log, int(limits.get("keep", 5)))
            self.record.log_from = length = 0
        if length != self._log_size:
            logs.mark(log, time.time())
            self._log_size = length

    # -- the end

    def _end(self, now: float) -> None:
        if self._ending is None:
            root = self.record.root[0] if self.record.root and self._root_alive() else None
            patience = float((self.spec or {}).get("stop", {}).get("timeout", 30))
            self._ending = Ending(now, root, patience if self.record.was_ready else min(patience, LOADING))
        why = self.record.ending or "left over from an earlier generation"
        for process, number, part in self._ending.due(self.living, now):
            handle = self.handles.get((process.pid, process.start))
            if handle is not None:
                self.around.audit.signal(self.name, handle, process.name, number, f"{why}: {part}")

    # -- the start

    def commanded(self) -> None:
        """Somebody asked for something: it begins anew."""
        self._hindered_since = None

    def launch(self, processes: Mapping[int, Process]) -> None:
        """Start the next generation: only called when nothing of the lineage lives."""
        now = Seen(now=time.monotonic(), clock=time.time())
        before = self.record.state
        lacking = final = False
        try:
            self.read_spec()
            if self.fault is not None:
                raise self.fault
            spec = specification.checked(self.spec, self.name)
            problem, lacking, undecided = launching.obstacle(spec, processes, self.around.access)
            in_the_way = bool(problem) and not lacking
            if not in_the_way:
                self._hindered_since = None
            if undecided or (in_the_way and self._patient(now.now)):
                return
            if not problem:
                self._spawn(spec, now)
        except VerbError as failure:
            problem, final = failure.message, failure.code != "unreadable"
        except OSError as error:
            problem = f"it can't be started: {reason(error)}"
        if problem:
            known = self.record.waits and self.record.error == problem
            if lacking:
                unit.lacking(self.record, problem, now)
            else:
                unit.refused(self.record, problem, final=final, policy=self.policy, seen=now)
            if not (known and lacking):  # one that waits for its cards asks again and again
                self.around.audit.note("start-refused", self.name, why=problem)
            if self.record.state != before:
                self.around.audit.note("state", self.name, state=self.record.state, was=before, why=problem)
        self.save()

    def _patient(self, now: float) -> bool:
        """Whether what is in the way may still go by itself."""
        if self._hindered_since is None:
            self._hindered_since = now
        return now - self._hindered_since < _PATIENCE

    def _spawn(self, spec: Mapping[str, Any], seen: Seen) -> None:
        """Raises ``OSError`` when there is no room for a process or its record; then no server runs."""
        paths, record = self.around.paths, self.record
        log = paths.log(self.name)
        self.attempt(f"{self.name}: its log can't be looked after", self._look_after_log)
        record.log_from = logs.size(log)
        self.lineage.forget()
        self._vital.clear()
        record.vital, self._confirmed = [], True
        chosen, _ = devices.resolve(spec["cards"], spec["device_dir"])
        select = environment.selection(spec["visible_env"], devices.ranks(chosen, spec["device_dir"]))
        generation = record.generation + 1
        record.running = report.launched_with(spec, self.secret)
        told = {
            "argv": environment.with_known_flags(spec["argv"], float(spec["stop"]["timeout"])),
            "env": spec["env"],
            "env_script": spec["env_script"],
            "select": select,
            "secrets": (self.secret or {}).get("secrets", {}),
            "umask": self.around.umask,
            "header": f"{self.name} generation {generation} cards {record.running['cards']}",
        }
        pid, instructions = launching.open_gate(self.around.package, self.name, log, generation)
        try:
            self.around.exits.pop(pid, None)  # of an earlier process of this number
            process = procs.read(pid)
            if process is None:
                raise OSError(errno.ESRCH, f"/proc/{pid} can't be read")
            # on disk first: a server that isn't on record never runs
            self.lineage.record(process, generation)
            unit.launched(record, [process.pid, process.start], seen)
            self.living = [process]
            self.write_state()
            self.around.audit.note("start", self.name, pid=pid, start=process.start, generation=generation)
            launching.write_all(instructions, gate.instructions(told))
        except BrokenPipeError:
            pass  # it has ended already: the next look sees that
        finally:
            os.close(instructions)
        self._next_check = seen.now + _START_INTERVAL

    def wants_before(self, now: float) -> float:
        """In how many seconds this unit wants to be looked at again."""
        record = self.record
        if record.ending or record.state == unit.STARTING or (self.living and record.desired == unit.STOPPED):
            return 0.1
        if record.state == unit.BACKOFF:
            return min(1.0, max(0.1, record.not_before - now))
        return 1.0 if self.living or self._hindered_since else 5.0

    def check_due(self, now: float) -> float:
        """In how many seconds the next check has to begin."""
        checked = self._root_alive() and self.spec and not self.fault and not self.record.ending
        return max(0.05, self._next_check - now) if checked else 60.0
