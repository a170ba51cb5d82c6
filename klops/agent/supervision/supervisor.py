"""The supervisor: an event loop over all units. It starts, watches, ends and starts again.

What it does for a unit is in ``units``; the loop, its signals and its requests share their state, and are one
class.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import time
from typing import Any, Iterable

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import SYSTEM, VerbError, system_error
from klops.agent.processes import devices, identity, procs, subreaper
from klops.agent.processes.access import FRESH, Access
from klops.agent.processes.procs import Process
from klops.agent.supervision import serving
from klops.agent.supervision.barrier import Barrier
from klops.agent.supervision.launcher import HAND_OVER, SECOND
from klops.agent.trouble import Troubles, reason, say
from klops.agent.units import quarantine, report, strays, unit
from klops.agent.units.kept import Surroundings
from klops.agent.units.managed import Managed
from klops.agent.units.memory import Memory
from klops.agent.units.zombies import Zombies

#: Seconds for the end of all units when the container is stopped.
_CLOSING = 100.0
#: Seconds after a look that failed.
_LOOK_AGAIN = 0.5
#: While nothing happens looking at the process table takes at most one part in this of a core. Checks of
#: health take about as much, and all of it is to stay below half a percent.
_IDLE_SHARE = 500
_LONGEST_REST = 10.0


class Supervisor:
    """All units of one root."""

    def __init__(
        self,
        paths: store.Paths,
        agent: str,
        package: str,
        launcher: int,
        umask: int,
        *,
        beside: bool = False,
    ) -> None:
        """``launcher`` is its pid, 0 for none; ``beside``: it is not the container's main command."""
        self.paths = paths
        self.beside = beside
        self._launcher = identity.of_pid(launcher) if launcher else None
        self.agent = agent
        self.package = package
        self.troubles = Troubles()
        self.audit = Audit(paths.audit, f"supervisor {os.getpid()}", self.troubles)
        self.selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        self.selector.register(self._woken, selectors.EVENT_READ, self._drain)
        self.closing_since: float | None = None
        self._watched: dict[int, tuple[int, int]] = {}
        self.adopters = [os.getpid()] + ([launcher] if launcher else [])
        init = identity.of_pid(1)
        self.around = Surroundings(
            paths=paths,
            audit=self.audit,
            package=package,
            umask=umask,
            never={0, 1, os.getpid(), launcher},
            wake=self.wake,
            exits={},
            home=":".join(str(part) for part in init) if init else "",
            troubles=self.troubles,
            access=Access(self.audit),
            memory=Memory(self.audit),
            made=not beside,
        )
        self.zombies = Zombies()
        self.barrier = Barrier(self.audit, self.troubles)
        self.units: dict[str, Managed] = {}
        self.broken: dict[str, VerbError] = {}
        self.strays: list[Process] = []
        self.server = serving.Server(paths.run, self.selector, self.answer)

    # -- waking up

    def wake(self) -> None:
        """Make the loop look now. Called from checking threads and signal handlers."""
        try:
            os.write(self._waker, b".")
        except BlockingIOError:
            return  # it is awake already

    def _drain(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            return

    def _on_term(self, *_: Any) -> None:
        if self.closing_since is None:
            self.closing_since = time.monotonic()
        self.wake()

    def _watch_ends(self) -> None:
        """Have the end of every member wake the loop: its pidfd becomes readable."""
        wanted = {}
        for one in self.units.values():
            for key, handle in one.handles.items():
                if handle.fd >= 0:
                    wanted[handle.fd] = key
        for fd, key in list(self._watched.items()):
            if wanted.get(fd) != key:
                # its handle has closed the descriptor, so the kernel has forgotten it already
                with contextlib.suppress(KeyError, ValueError, OSError):
                    self.selector.unregister(fd)
                del self._watched[fd]
        for fd, key in wanted.items():
            if fd not in self._watched:
                self.selector.register(fd, selectors.EVENT_READ, self._drain)
                self._watched[fd] = key

    # -- requests

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of a verb."""
        verb = request.get("verb")
        if verb == "status":
            access = self._access(request["access"]) if request.get("access") else None
            return {
                "supervisor": report.supervisor(os.getpid(), self.agent),
                "units": self.reports(),
                "strays": [{"cpid": p.pid, "start": p.start, "name": p.name} for p in self.strays],
                "access": access,
                # whether it is worth while to ask again
                "undecided": access is None and self.around.access.undecided,
                "defunct": self.zombies.lasting(),
            }
        if verb == "quit":
            return self._quit()
        if self.closing_since is not None:
            raise VerbError(
                "closing",
                "the supervisor is ending: its container is being stopped, or it was told to quit",
                "klops up starts it again",
            )
        name = store.check_name(str(request.get("name")))
        if verb == "start" and name not in self.paths.names():
            raise VerbError("no-unit", f"there is no unit {name}", "give its specification on standard input")
        if name in self.broken or (verb == "start" and name not in self.units):
            self._take(name)
        one = self.units.get(name)
        if one is None:
            raise VerbError("no-unit", f"there is no unit {name}", "see the verb status")
        return self.barrier.answer(one, self._command, one, verb, request)

    def _command(self, one: Managed, verb: Any, request: dict[str, Any]) -> dict[str, Any]:
        now, clock = time.monotonic(), time.time()
        if verb == "start":
            return self._start(one, now, clock, request.get("idle"))
        if verb == "restart":
            self._read_again(one)
            unit.command_restart(one.record, now, clock)
        elif verb in ("stop", "remove"):
            if one.refusal is not None:
                one.read_state()  # it may have been mended; a stop works either way
            unit.command_stop(one.record, request.get("resumes") is True)
            one.record.removing = verb == "remove"
        else:
            raise VerbError("bad-request", f"unknown verb {verb}")
        return self._commanded(one, str(verb))

    def _access(self, asked: Any) -> list[dict[str, Any]] | None:
        """Nodes that can't be opened; None when that can't be tested.

        Those that units use, by tests of the last seconds; or, ``asked`` for ``{"max_age": SECONDS}``, all
        that are listed, by tests no older than that.
        """
        known = [one for one in self.units.values() if one.spec and one.fault is None]
        if isinstance(asked, dict):
            return self._all_access([one.spec or {} for one in known], float(asked["max_age"]))
        return self._used_access(known)

    def _all_access(self, specs: list[dict[str, Any]], max_age: float) -> list[dict[str, Any]] | None:
        """Of all but those kept out of service: a driver that is stuck would take one more process."""
        nodes: set[devices.Node] = set()
        for folder in {str(spec["device_dir"]) for spec in specs} or {"/dev"}:
            nodes.update(devices.nodes(folder))
        try:
            kept_out = [one["card"] for one in quarantine.in_force(self.around.paths.root)]
        except VerbError:
            return None
        names = {os.path.basename(str(card.get("node") or "")) for card in kept_out}
        tested = sorted(node for node in nodes if os.path.basename(node.path) not in names)
        refused = self.around.access.refusals(tested, max_age=max_age)
        return None if refused is None else [one.as_json() for one in refused]

    def _used_access(self, known: list[Managed]) -> list[dict[str, Any]] | None:
        """Of units that are wanted, or, when none is, of all."""
        wanted = [one for one in known if one.record.desired == unit.RUNNING] or known
        nodes: set[devices.Node] = set()
        for one in wanted:
            chosen, control, _ = devices.used(one.spec or {})
            nodes.update(chosen, control)
        if not nodes:
            return None
        refused = self.around.access.refusals(sorted(nodes), max_age=FRESH)
        return None if refused is None else [one.as_json() for one in refused]

    def _quit(self) -> dict[str, Any]:
        """End all units as a stop of the container does, then supervisor and launcher; says who these are."""
        if not self.beside:
            raise VerbError(
                "main-process",
                "the launcher is this container's main command: it ends with the container",
                "docker stop the container, or stop the units one by one",
            )
        launcher = identity.hold(self._launcher) if self._launcher else None
        if launcher is not None:
            try:
                # it starts no other supervisor from now on, whatever happens
                self.audit.signal("", launcher, "launcher", signal.SIGTERM, "told to quit")
            finally:
                launcher.close()
        if self.closing_since is None:
            self.audit.note("command", "", verb="quit")
        self._on_term()
        who = [identity.of_pid(os.getpid()), self._launcher]
        return {"ending": [[one.pid, one.start] for one in who if one is not None]}

    def _start(self, one: Managed, now: float, clock: float, idle: Any) -> dict[str, Any]:
        self._read_again(one)
        if one.spec is None:
            raise VerbError("no-spec", f"unit {one.name} has no specification", "give it on standard input")
        one.given_idle = dict(idle) if isinstance(idle, dict) else {}
        changed = bool(one.living) and one.changed
        unit.command_start(one.record, changed, now, clock, gone=one.root_gone())
        return self._commanded(one, "start")

    def _read_again(self, one: Managed) -> None:
        """Files may have been mended. Raises :class:`VerbError` when something can't begin with them."""
        one.read_spec()
        if one.refusal is not None:
            one.read_state()
        failure = one.fault or one.refusal
        if failure is not None:
            raise failure

    def _commanded(self, one: Managed, verb: str) -> dict[str, Any]:
        self.audit.note("command", one.name, verb=verb)
        one.commanded()
        self.wake()
        try:
            one.write_state()
        except OSError as error:
            if one.record.desired == unit.STOPPED:
                return {"unit": one.report()}  # no room is no reason to go on; the report says it
            raise VerbError(
                "not-written",
                f"{verb} of {one.name} is under way, but not written down: {reason(error)}",
                "make room on the host (df -h), then repeat it: a restart of the container would forget it",
            ) from error
        return {"unit": one.report()}

    def reports(self) -> dict[str, Any]:
        """UNIT by name, units whose files can't be read too."""
        found = {name: one.report() for name, one in self.units.items()}
        for name, failure in self.broken.items():
            found[name] = report.unit(
                {"state": unit.FAILED, "error": failure.message},
                None,
                None,
                [],
                self.paths.log(name),
                {"ok": None},
            )
        return found

    # -- the loop

    def _take(self, name: str) -> Managed:
        try:
            one = Managed(name, self.around)
        except OSError as error:
            raise system_error(error) from error
        self.units[name] = one
        self.broken.pop(name, None)
        return one

    def take_over(self) -> None:
        """Read what is on disk; running units are found by identity and left as they are."""
        for name in self.paths.names():
            self._try_to_take(name)
            one = self.units.get(name)
            if one is not None and one.removed:
                self.units.pop(name).forget()

    def _try_to_take(self, name: str) -> None:
        try:
            self._take(name)
        except VerbError as failure:
            # one damaged file must not keep the others from being served
            known = self.broken.get(name)
            self.broken[name] = failure
            if known is None or known.message != failure.message:
                say(f"{name}: {failure.message}")

    def _try_again(self) -> None:
        """Take those that the system refused: descriptors, memory or the disk may be back."""
        for name, failure in list(self.broken.items()):
            if failure.code == SYSTEM:
                self._try_to_take(name)

    def reap(self) -> None:
        """Wait for children that ended: roots, and orphans that came here."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            roots = [one.record.root[0] for one in self.units.values() if one.record.root]
            if pid in roots:
                self.around.exits[pid] = status

    def look(self) -> float:
        """One look at everything; returns in how many seconds the next is due."""
        begun = time.monotonic()
        # before the table: whoever opens nodes or asks xpu-smi is in it only if it still does
        self.around.access.hear()
        self.around.memory.hear()
        for one in self.units.values():
            self.barrier.hold(one, one.hear)
        processes = procs.table()
        self.reap()  # after the table: how a process ended is known as soon as it is seen to have ended
        self.zombies.look(processes, begun)
        self._try_again()
        try:
            self._step(processes)
        finally:
            # whatever went wrong: a descriptor that was closed may be a client's by the next accept
            self._watch_ends()
        now = time.monotonic()
        self.server.expire(now)
        if self.closing_since is not None and (
            not any(one.living for one in self.units.values()) or now - self.closing_since > _CLOSING
        ):
            self._leave(0, "told to stop")
        soonest = min((one.wants_before(now) for one in self.units.values()), default=5.0)
        return rest(soonest, [one.check_due(now) for one in self.units.values()], now - begun)

    def _step(self, processes: dict[int, Process]) -> None:
        seen = [one for one in self.units.values() if self.barrier.hold(one, one.look, processes)]
        self._adopt(processes)
        for one in seen:
            self.barrier.hold(one, self._step_one, one, processes)

    def _step_one(self, one: Managed, processes: dict[int, Process]) -> None:
        if self.barrier.rests(one, time.monotonic()):
            one.save()  # who is new in its lineage
            return
        action = one.step(processes, time.monotonic(), self.closing_since is not None)
        if action == unit.LAUNCH:
            if self._outdated() and not any(other.living for other in self.units.values()):
                self._leave(HAND_OVER, "agent/current is another version")
            one.launch(processes)
        elif one.record.removing and not one.living and one.record.state == unit.STOPPED:
            one.forget()
            del self.units[one.name]
        self.barrier.well(one)

    def _adopt(self, processes: dict[int, Process]) -> None:
        never = {*self.around.never, *self.around.access.pids, *self.around.memory.pids}
        never.update(*(one.readers for one in self.units.values()))
        units = list(self.units.values())
        found, nobodys = strays.adopt(processes, units, self.adopters, never, all_known=not self.broken)
        for name in found:
            self.barrier.hold(self.units[name], self.units[name].look, processes)
        known = {(p.pid, p.start) for p in self.strays}
        for process in nobodys:
            if (process.pid, process.start) not in known:
                say(f"pid {process.pid} ({process.name}) is a unit's, but it can't be told which one's")
        self.strays = nobodys

    def _outdated(self) -> bool:
        current = os.path.realpath(self.paths.current)
        return current != self.package and os.path.exists(current)

    def _leave(self, status: int, why: str) -> None:
        for one in self.units.values():
            one.save()
            one.close()
        self.around.access.close()
        self.around.memory.close()
        self.server.close()
        say(f"leaving: {why}")
        raise SystemExit(status)

    def run(self) -> None:
        """Until told to stop."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self.take_over()
        while True:
            try:
                pause = self.look()
            except OSError as error:
                # no descriptors, no memory: nothing is concluded from a look that saw nothing
                self.troubles.met("the processes can't be looked at", error)
                pause = 0.0
                time.sleep(
                    _LOOK_AGAIN
                )  # whoever wants an answer can't have it now, and must not keep this busy
            else:
                self.troubles.over("the processes can't be looked at")
            for key, _ in self.selector.select(pause):
                key.data()


def rest(soonest: float, checks: Iterable[float], cost: float) -> float:
    """Seconds until the next look, of what units want, when their checks are due, and what a look costs."""
    idle = soonest if soonest < 1.0 else max(soonest, _IDLE_SHARE * cost)
    return min([_LONGEST_REST, idle, *checks])


def lock(path: str) -> int:
    """The lock that one supervisor of a root holds; it goes with its process. -1: another has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return -1
    return fd


def main(root: str, agent: str, package: str, launcher: int, *, beside: bool = False) -> int:
    """Run the supervisor of a root."""
    umask = os.umask(0o077)
    paths = store.Paths(root)
    paths.make()
    if lock(paths.lock) < 0:
        say("another supervisor serves this root")
        return SECOND
    subreaper.become()
    Supervisor(paths, agent, package, launcher, umask, beside=beside).run()
    return 0
