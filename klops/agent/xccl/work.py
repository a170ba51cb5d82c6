"""One diagnosis: ranks are started, the plan is driven, everything is ended, and all of it is told."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import devices, identity
from klops.agent.processes.procs import Process
from klops.agent.units import environment, quarantine
from klops.agent.units.lineage import Lineage
from klops.agent.xccl import refusal, run
from klops.agent.xccl.ranks.leavings import Leavings
from klops.agent.xccl.ranks.pool import Pool, Setting
from klops.agent.xccl.request import Request
from klops.agent.xccl.runner import Runner
from klops.agent.xccl.settling import Settling
from klops.cards.record import quarantine as notes_on_cards

#: Share of the time, and the least and most seconds of it, that are kept for the end of the ranks.
_RESERVE, _LEAST_RESERVE, _LONGEST_RESERVE = 0.05, 1.0, 10.0
#: Makes collectives hang (p800.md 2.2: 16 of 18 runs), so that it set is said; klops leaves it as it is.
_EVENTS = "XPU_EVENT_KL3_ENABLE"
#: Seconds between two looks, while a script runs, whether all is to end.
_LOOK = 0.3
#: Writes one object; False when nobody reads.
Emit = Callable[[Mapping[str, Any]], bool]


class Gone(Exception):
    """Nobody waits for the result any more."""


class Work:
    """One diagnosis."""

    def __init__(
        self,
        paths: store.Paths,
        package: str,
        request: Request,
        audit: Audit,
        check: Callable[[], None],
        emit: Emit,
        *,
        present: Sequence[str],
    ) -> None:
        """``present``: names of all card nodes that are here."""
        self._paths = paths
        self._package = package
        self._request = request
        self._audit = audit
        self._check = check
        self._emit = emit
        self._present = present
        self._notes: list[str] = []
        self._left: list[dict[str, Any]] = []

    def _progress(self, what: str, percent: float) -> None:
        if not self._emit({"progress": what, "percent": percent}):
            raise Gone

    def result(self, begun: float) -> Mapping[str, Any]:
        """All of it. Nothing of a rank lives afterwards, but what KILL doesn't end."""
        request = self._request
        reserve = min(_LONGEST_RESERVE, max(_LEAST_RESERVE, request.budget * _RESERVE))
        end = begun + request.budget - reserve
        refusal.in_use(self._paths, request.cards, request.device_dir, self._check)
        env = self._environment(end)
        setting = Setting(self._package, env, self._paths.ranks_folder, request.device_dir, request.backend)
        settling = Settling(request.smi, request.cards, self._audit, end, self._check)
        leavings = Leavings(self._paths, self._audit)
        pool = Pool(setting, Lineage(self._paths.ranks), self._audit, leavings.note)
        runner = Runner(
            pool,
            request.seated,
            request.limits,
            end,
            absent=request.absent,
            check=self._check,
            settle=settling.wait,
        )
        try:
            settling.begin()
            found, order = self._asked(runner, pool)
        finally:
            settling.close()
            living = pool.close()
            leavings.close()
            self._note_stuck(pool, runner, living)
        if runner.seats.note:
            self._notes.append(runner.seats.note)
        card = {place: card for card, place in runner.seats.places.items()}
        return {
            **found,
            "collectives_run": runner.collectives,
            "rounds": runner.rounds,
            "rank_processes": pool.started,
            "renewed": runner.renewed,
            "seconds": round(time.monotonic() - begun, 3),
            "backend": runner.facts.get("backend"),
            "device": runner.facts.get("device"),
            "torch": runner.facts.get("torch"),
            "sizes": list(runner.sizes),
            "order": order,
            "sure": runner.seats.sure,
            "killed": [
                {"index": card[one["place"]], "pid": one["pid"], "why": one["why"]} for one in pool.killed
            ],
            "left": self._left,
            "notes": [*self._notes, *settling.notes, *leavings.notes],
        }

    def _asked(self, runner: Runner, pool: Pool) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        request = self._request
        self._progress(f"starting {len(request.seated)} ranks", 0.0)
        meant = {os.path.basename(str(one["node"])) for one in request.cards}
        read = runner.start(self._card_of, others=not meant.issuperset(self._present))
        pool.names = {place: f"rank of card {card}" for card, place in runner.seats.places.items()}
        if runner.no_torch and not runner.facts:
            raise VerbError(
                "no-torch",
                f"{sys.executable} has no torch: {runner.no_torch}",
                "container.python names the interpreter that torch is installed with",
            )
        runner.sizes = request.sizes or run.SIZES[runner.facts.get("device", "cpu")]
        node = {one["index"]: one["node"] for one in request.cards}
        order = [
            {"index": index, "rank": place, "node": node[index], "read_back": read.get(place)}
            for place, index in enumerate(request.seated)
        ]
        if request.scan:
            return run.scan(runner, request.aim, self._progress), order
        from klops.cards.xccl.judging import unsure
        from klops.cards.xccl.planning import plan

        aim = request.aim.without(runner.seats.unknown)
        diagnosis = run.drive(plan.diagnose(aim), runner, aim, self._progress)
        if not runner.seats.sure:
            diagnosis = unsure.unsure(diagnosis)
        return {"diagnosis": diagnosis.as_json()}, order

    def _environment(self, end: float) -> Mapping[str, str]:
        """As a unit's: the container's own, what was given, the script, then the choice of cards.

        ``end``: monotonic seconds.
        """
        request = self._request
        env = {**os.environ, **request.env}
        if request.env_script:
            seconds = min(request.limits.start_timeout, end - time.monotonic())
            with _in_time(seconds, request.env_script, self._check):
                env = environment.run_script(request.env_script, env)
        if env.get(_EVENTS, "0") != "0":
            self._notes.append(
                f"{_EVENTS}={env[_EVENTS]} is set for ranks: with it others saw collectives hang on a P800"
            )
        if not request.chosen:
            self._notes.append("no card has a number in this container: none was chosen by a variable")
        return environment.compose(env, environment.selection(request.visible_env, request.chosen), {})

    def _card_of(self, numbers: Sequence[int]) -> Optional[int]:
        """The one card of these device numbers, None when they are of none, or of several."""
        names = {
            os.path.basename(str(one["node"])): one["index"] for one in self._request.cards if one["node"]
        }
        found = [
            names.get(os.path.basename(node.path))
            for node in devices.nodes(self._request.device_dir)
            if node.is_card and node.rdev in numbers
        ]
        return found[0] if len(found) == 1 else None

    def _note_stuck(self, pool: Pool, runner: Runner, living: Sequence[Process]) -> None:
        """Ranks that KILL doesn't end are named, and their cards kept out of service as those of a unit."""
        card = {place: card for card, place in runner.seats.places.items()}
        stuck = {rank.pid: card[place] for place, rank in pool.stuck.items()}
        known = {one["index"]: one for one in self._request.cards}
        boot, ns = identity.here()
        for one in living:
            index = stuck.get(one.pid)
            who = {"pid": one.pid, "start": one.start, "ns": ns, "name": one.name, "state": one.state}
            self._left.append({"index": index, **who})
            if index is None:
                continue
            if not runner.seats.sure:
                self._notes.append(f"pid {one.pid}, a rank, outlives KILL; which card it holds is not known")
                continue
            note = notes_on_cards.note(
                known[index],
                f"a diagnosis' rank of card {index}, pid {one.pid}, outlives KILL in state {one.state}",
                by=f"xccl {self._request.run}".rstrip(),
                at=round(time.time(), 3),
                boot_id=boot,
                process=who,
            )
            try:
                quarantine.add(self._paths.root, [note])
            except OSError as error:
                self._notes.append(f"card {index} could not be noted as out of service: {error}")


@contextlib.contextmanager
def _in_time(seconds: float, script: str, check: Callable[[], None]) -> Iterator[None]:
    """A script that doesn't come to its end is no reason to wait for ever, nor to miss what ends it all."""
    seconds = max(_LOOK, seconds)  # the least that a timer can be asked for is more than nothing
    until = time.monotonic() + seconds

    def end_if_due() -> None:
        check()
        if time.monotonic() >= until:
            raise VerbError(
                "env-script",
                f"env_script {script} did not end within {seconds:.3g} s",
                "it is to set variables only",
            )

    def look(*_: object) -> None:
        try:
            end_if_due()
        except BaseException:
            signal.setitimer(signal.ITIMER_REAL, 0)  # once is enough
            raise

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
