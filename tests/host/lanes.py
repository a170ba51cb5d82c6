"""A host under fire: its unit is hit by a schedule, and afterwards everything has to be as it should."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.processes.procs import HALTED, Process
from klops.agent.supervision import control
from klops.sim.engine import Engine
from klops.sim.layout import SERVED_NAME, SERVICE, RehearsalHost
from tests.host import crowd
from tests.host.bystanders import Bystanders, Visitor
from tests.host.crowd import Crowd
from tests.host.schedules import KEEPERS, MEMBERS, WHOLES, Event
from tests.host.watch import GenerationWatch, holders
from tests.waiting import until

#: Seconds that a completion may take: the stand-in answers at once, this machine may be busy.
_ANSWER = 8.0


#: Parts that no schedule hits by chance, and those that are none of the unit's.
NOT_HIT = (*KEEPERS, "visitor")
NO_MEMBERS = (*NOT_HIT, "child")


@dataclass
class Lane:
    """One host with one unit. ``python`` runs in its container; ``cards`` are the unit's device numbers."""

    host: RehearsalHost
    engine: Engine
    python: str
    cards: frozenset[int]
    watch: GenerationWatch
    bystanders: Bystanders
    inventory: Path
    unit: str = SERVICE
    #: seconds until all has to be well again after the last event
    patience: float = 120.0
    #: whether somebody else made the container: the scheduled pass brings back what docker doesn't
    adopted: bool = False
    #: whether a unit with a stopped member is restarted by hand
    restarts_stopped: bool = True
    #: what was done and seen in this schedule, with seconds since its begin
    diary: list[str] = field(default_factory=list)
    _begun: float = 0.0
    _init: Process | None = None
    _paused: list[int] = field(default_factory=list)
    _restarted: int = -1

    # -- looking

    @property
    def run(self) -> str:
        """Where the supervisor's socket is."""
        return str(self.host.root / "run")

    def note(self, text: str) -> None:
        """A line of the diary."""
        self.diary.append(f"{time.monotonic() - self._begun:6.2f} s  {text}")

    def status(self) -> dict[str, Any] | None:
        """What the supervisor says; None when none answers."""
        with contextlib.suppress(VerbError):
            return control.ask(self.run, {"verb": "status"}, timeout=3)
        return None

    def unit_status(self) -> dict[str, Any]:
        """What a supervisor says of the unit, as soon as one answers."""
        found: dict[str, Any] = until(self.status, what="a supervisor answers")["units"][self.unit]
        return found

    def crowd(self) -> Crowd:
        """Living processes of the container, by part; numbers are this machine's."""
        table = procs.table()
        return crowd.of(self._first(table), self.host.root, table)

    def _first(self, table: dict[int, Process]) -> Process | None:
        known = self._init
        if known is None or table.get(known.pid, known._replace(start=-1)).start != known.start:
            said = self.engine.docker("inspect", "--format", "{{.State.Pid}}", self.host.container)
            self._init = procs.read(int(said)) if int(said) else None
        return self._init

    # -- hitting

    def strike(self, event: Event) -> None:
        """Let it happen, and write down whom it hit."""
        paused = list(self._paused)
        try:
            if event.part in WHOLES:
                self._resume(paused)  # whoever asks for something wants it to hear that
                self.note(f"{event.part}: {self._whole(event)}")
            else:
                self._strike_parts(event)
        finally:
            self._resume(paused)

    def _whole(self, event: Event) -> str:
        if event.part == "container":
            return self.kill_container(event.pick)
        if event.part == "reap":
            return self.reap(grace=round(event.pick, 1))
        if event.part == "restart":
            return self.command("restart")
        said = self.command("stop")
        time.sleep(event.pick * 2)
        return f"{said}, {self.command('start')}"

    def kill_container(self, after: float) -> str:
        """``docker kill``, and ``docker start`` some seconds later."""
        self.engine.docker("kill", self.host.container, check=False)
        time.sleep(after)
        self.engine.docker("start", self.host.container)
        return "killed and started"

    def hit(self, part: str, what: str, *, every: bool = False) -> None:
        """One signal to a part that is there, or to all that are such a part."""
        found = self.crowd()[part]
        for process in found if every else found[:1]:
            self.note(f"{what} {part}: pid {process.pid} ({process.name})")
            crowd.send(process, what)

    def command(self, verb: str) -> str:
        """Ask the supervisor for something until one takes it."""

        def asked() -> bool:
            try:
                if control.ask(self.run, {"verb": verb, "name": self.unit}) is not None:
                    return True
            except VerbError as refusal:  # it is ending just now
                self.note(f"{verb}: {refusal.code}, {refusal.message}")
                return False
            if self.adopted:
                self.note(f"nobody takes {verb}{self._passed()}")
            return False

        until(asked, timeout=60, what=f"a supervisor takes {verb}")
        return verb

    def agent(self, *words: str) -> str:
        """One verb of the agent in the container; "" where none could run. Raises nothing of its own."""
        package = f"{self.host.root}/agent/current"
        argv = ["exec", self.host.container, self.python, "-IS", package, *words]
        return self.engine.docker(*argv, "--root", str(self.host.root), check=False)

    def reap(self, grace: float) -> str:
        """A clean-up inside the container; what it ended. Never anything of a generation that is wanted."""
        kind = "adopted" if self.adopted else "made"
        said = self.agent("reap", "--kind", kind, "--grace", str(grace))
        found: dict[str, Any] = json.loads(said) if said.startswith("{") else {"error": {"code": "not run"}}
        if "error" in found:
            return str(found["error"]["code"])
        ended = [one for one in found["processes"] if one["action"] != "none"]
        return ", ".join(f"{one['name']} {one['cpid']} ({one['reason']})" for one in ended) or "nothing to do"

    def _strike_parts(self, event: Event) -> None:
        there = self.crowd()
        # a stopped child that opens a node for the supervisor can't be told from a driver that is stuck
        spared = NO_MEMBERS if "STOP" in event.what else NOT_HIT
        anybody = [one for part, some in there.items() if part not in spared for one in some]
        found = there.get("worker" if event.part == "workers" else event.part) or []
        if event.part in MEMBERS and (event.part == "any" or not found):
            found = anybody
        if not found:
            self.note(f"{event.part}: nobody is there")
            return
        chosen = found if event.part == "workers" else [found[int(event.pick * len(found))]]
        for process in chosen:
            self.note(f"{event.what} {event.part}: pid {process.pid} ({process.name})")
            first, _, then = event.what.partition("+")
            if first == "STOP" and event.part in KEEPERS and not then:
                self._pause(process)
                continue
            crowd.send(process, first)
            parent = next((one for one in anybody if one.pid == process.ppid), process)
            if then:
                crowd.send(parent, then)

    def _pause(self, process: Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(process.pid)
            self._paused.append(handle)
            signal.pidfd_send_signal(handle, signal.SIGSTOP)

    def _resume(self, handles: Sequence[int]) -> None:
        """Nobody but who stopped a supervisor makes it go on."""
        for handle in [one for one in handles if one in self._paused]:
            self._paused.remove(handle)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGCONT)
            os.close(handle)

    # -- afterwards

    def fight(self, events: Sequence[Event]) -> None:
        """Run a schedule on a unit that is well; an AssertionError tells the story when it isn't after."""
        with self.trial("\n".join(map(str, events))):
            for event in events:
                time.sleep(event.after)
                self.strike(event)
            self._resume(list(self._paused))

    @contextmanager
    def trial(self, plan: str) -> Iterator[None]:
        """What is done to it in here is over when it is left: all has to be well then."""
        self.diary, self._begun = [], time.monotonic()
        try:
            self.settle()
            visitor, life = Visitor(self.engine, self.host.container, self.python), self._init
            self.note("ready; it begins")
            try:
                yield
                self.settle()
                if self._init == life:  # else it went with its container
                    assert visitor.harm() == ""
            finally:
                visitor.close()
            assert self.watch.doubles_on(self.cards) == [], "two generations at once"
            assert self.bystanders.harmed() == []
        except Exception as error:
            audit = Path(self.host.root / "audit.jsonl").read_text(errors="replace").splitlines()
            deeds = [line for line in audit if '"remove"' not in line][-25:]
            story = "\n".join([*self.diary, f"it says: {self.status()}", *deeds])
            raise AssertionError(
                f"{self.host.name}: {error!r}\nplanned:\n{plan}\nhappened:\n{story}"
            ) from error

    def settle(self) -> None:
        """Wait until nothing is wrong any more."""
        deadline, wrong, told = time.monotonic() + self.patience, "", ""
        while (wrong := self.wrong()) and time.monotonic() < deadline:
            if wrong != told:
                self.note(wrong)
                told = wrong
            time.sleep(0.1)
        assert not wrong, f"not within {self.patience:g} s: {wrong}"

    def wrong(self) -> str:
        """What isn't as it should be; "" when the unit is ready, and nobody else holds a card."""
        said = self.status()
        if said is None:
            return f"no supervisor answers{self._passed() if self.adopted else ''}"
        unit = said["units"][self.unit]
        there = self.crowd()
        members = [one for part, found in there.items() if part not in NO_MEMBERS for one in found]
        halted = [f"{one.name} {one.pid}" for one in members if one.state in HALTED]
        by_hand = self.restarts_stopped and halted
        if by_hand and unit["state"] != "failed" and unit["generation"] != self._restarted and unit["cpid"]:
            # a stopped member is somebody's will: whoever stopped it wants to look at it
            self.note(f"{', '.join(halted)} stopped: {self.command('restart')}")
            self._restarted = unit["generation"]
            return f"stopped: {halted}"
        if unit["state"] != "ready" or unit["health"]["ok"] is not True:
            return f"{unit['state']}, generation {unit['generation']}"
        if said["strays"]:
            return f"strays: {said['strays']}"
        known = {(one["cpid"], one["start"]) for one in unit["lineage"]}
        strangers = [
            f"{one.name} {one.pid}" for one in members if (crowd.inner(one.pid), one.start) not in known
        ]
        if strangers:
            return f"alive, and not of the running unit: {strangers}"
        held = holders(self.cards)
        if {one.pid for one in held} - {one.pid for one in members} or len(
            {one.session for one in held}
        ) != 1:
            return f"cards are held by others: {held}"
        if not self.all_held():
            return f"not all cards are held: {held}"
        return "" if self.answers() else "no completion comes back"

    def _passed(self) -> str:
        """What the scheduled pass does about it."""
        argv = ["sh", str(self.host.root / "pass")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        return f"; the pass: {done.returncode} {done.stdout.strip()} {done.stderr.strip()}"

    def all_held(self) -> bool:
        """Whether every card of the unit is held."""
        return {rdev for one in holders(self.cards) for rdev in one.rdevs} == self.cards

    def stale_after_reap(self) -> list[str]:
        """What a clean-up leaves of what nobody has any more."""
        self.note(f"reap: {self.reap(grace=0)}")
        first = self._first(procs.table())
        assert first is not None, "the container doesn't run"
        return crowd.stale(first.pid, self.crowd(), crowd.began(self.unit_status()["start"]))

    def answers(self) -> bool:
        """Whether a completion comes back."""
        connection = http.client.HTTPConnection("127.0.0.1", self.host.port, timeout=_ANSWER)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.host.api_key}"}
        body = json.dumps({"model": SERVED_NAME, "prompt": "1", "max_tokens": 1})
        try:
            connection.request("POST", "/v1/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False
        else:
            return answer.status == 200
        finally:
            connection.close()
