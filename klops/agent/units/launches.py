"""A unit's start: what is in its way is waited out, lacked or refused; then a generation is launched."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Mapping

from klops.agent.errors import VerbError
from klops.agent.processes import devices, procs
from klops.agent.processes.procs import Process
from klops.agent.trouble import reason
from klops.agent.units import (
    environment,
    gate,
    launching,
    logs,
    memory,
    quarantine,
    released,
    report,
    specification,
    unit,
)
from klops.agent.units.kept import Kept, Surroundings
from klops.agent.units.remains import Remains
from klops.agent.units.unit import Seen

#: Seconds that somebody else may hold a card or the port until it counts: xpu-smi, for one, opens all cards.
_PATIENCE = 3.0


class Launched(Kept):
    """The part of a unit that starts it."""

    def __init__(self, name: str, around: Surroundings) -> None:
        super().__init__(name, around)
        self.living: list[Process] = []
        self._hindered_since: float | None = None
        self._admission = memory.Admission(around.memory)
        self._remains = Remains(name, around)
        #: what the control side read of its cards' memory, for where it can't be asked here
        self.given_idle: dict[str, Any] = {}
        self._log_size = -1

    def commanded(self) -> None:
        """Somebody asked for something: it begins anew."""
        self._hindered_since = None
        self._admission.again()

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
            self._remains.clear()
            problem = quarantine.obstacle(self.around.paths.root, spec) or launching.missing(spec)
            lacking, undecided, room = bool(problem), False, memory.Room()
            if not problem:
                # before the nodes are opened for a test, at each look anew: that costs more
                room = self._admission.look(spec, now.now)
                if room.undecided:
                    return
                problem, lacking, undecided = launching.obstacle(spec, processes, self.around.access)
            in_the_way = bool(problem) and not lacking
            if not in_the_way:
                self._hindered_since = None
            if undecided or (in_the_way and self._patient(now.now)):
                return
            if not problem and room.problem:
                if self._admission.patient(now.now):
                    return
                problem = room.problem
            if not problem:
                self._admission.again()
                self._know_idle(spec, room.idle)
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

    def begin(self, seen: Seen) -> None:
        """A generation is launched."""
        raise NotImplementedError

    @property
    def hindered(self) -> bool:
        """Whether somebody is in the way of its start, who may go by himself."""
        return self._hindered_since is not None

    def _know_idle(self, spec: Mapping[str, Any], idle: dict[str, int] | None) -> None:
        """Put on record what its cards' memory is before it runs."""
        known = set(memory.indexes(spec))
        for one in (idle, self.given_idle, self.record.idle):
            # what was there before an earlier generation is still what a stop is judged by, if nobody knows
            if one is not None and known and set(one) == known:
                # in the order of its cards, as they are on record
                self.record.idle = {bdf: one[bdf] for bdf in memory.indexes(spec)}
                return
        self.record.idle = {}

    def _patient(self, now: float) -> bool:
        """Whether what is in the way may still go by itself."""
        if self._hindered_since is None:
            self._hindered_since = now
        return now - self._hindered_since < _PATIENCE

    def _spawn(self, spec: Mapping[str, Any], seen: Seen) -> None:
        """Raises ``OSError`` when there is no room for a process or its record; then no server runs."""
        paths, record = self.around.paths, self.record
        release = released.chosen(paths.root, spec)
        log = paths.log(self.name)
        self.attempt(f"{self.name}: its log can't be looked after", self._look_after_log)
        record.log_from = logs.size(log)
        self._remains.begin()
        self.lineage.forget()
        self.begin(seen)
        chosen, _ = devices.resolve(spec["cards"], spec["device_dir"])
        select = environment.selection(spec["visible_env"], devices.ranks(chosen, spec["device_dir"]))
        generation = record.generation + 1
        record.release = release["name"] if release else ""
        record.packages = released.packages(paths.root)
        record.running = report.launched_with(spec, self.secret)
        told = {
            "argv": environment.with_known_flags(spec["argv"], float(spec["stop"]["timeout"])),
            "env": spec["env"],
            "env_script": spec["env_script"],
            "select": select,
            "release": release,
            "secrets": (self.secret or {}).get("secrets", {}),
            "umask": self.around.umask,
            "header": f"{self.name} generation {generation} cards {record.running['cards']}"
            + (f" release {record.release}" if record.release else ""),
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

    def _look_after_log(self) -> None:
        log, limits = self.around.paths.log(self.name), (self.spec or {}).get("log", {})
        length = logs.size(log)
        if length > int(limits.get("max_bytes", 64 << 20)):
            logs.rotate(log, int(limits.get("keep", 5)))
            self.record.log_from = length = 0
        if length != self._log_size:
            logs.mark(log, time.time())
            self._log_size = length
