"""The state machine of a unit. Pure: what was seen goes in, what is to be done comes out.

It is driven by levels, not by edges: each step looks at the record and at what lives now. So a supervisor
that takes over in the middle of anything goes on from there. States and what leads from one to another are
one thing: they are in one place, however long.

::

    stopped -> starting -> ready <-> unhealthy
                  |          |           |
                  |          +-----------+--> (rest of the lineage is ended) --> backoff --> starting
                  +--> backoff                                                        `--> failed

A unit whose cards are missing or can't be opened waits in backoff, for ever and without counting a failure;
whoever waits for it is told at once.

A little above the usual length: record, commands and step are one machine, and are read together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Mapping

from klops.agent.errors import VerbError
from klops.agent.units.progress import Counters

STOPPED = "stopped"
STARTING = "starting"
READY = "ready"
UNHEALTHY = "unhealthy"
BACKOFF = "backoff"
FAILED = "failed"
RUNNING = "running"
STATES = (STOPPED, STARTING, READY, UNHEALTHY, BACKOFF, FAILED)
DESIRED = (RUNNING, STOPPED)

#: What :func:`step` asks for.
NOTHING = "nothing"
END = "end"
LAUNCH = "launch"

#: Seconds between looks for cards that are missing or can't be opened.
LACKING = 3.0
#: Doublings of the delay between starts: any delay has long become the longest by then, and no number is too
#: large for a float.
_DOUBLINGS = 60

#: A check's kinds: answers as it should.
OK = "ok"
#: It may be busy: no reason to end it.
SLOW = "slow"
#: It answers, but no request progresses. A restart would lose those that run, and what stops them, a driver
#: or a sampler on the CPU (P1), would stop the next ones as well: it is reported, never ended for it alone.
STALLED = "stalled"
#: It can't come back by itself: engine dead, nobody listens, a stranger listens, another model, key refused.
LOST = "lost"


@dataclass(frozen=True)
class Policy:
    """The parts of a specification that the state machine needs. Seconds, and counts."""

    start_timeout: float = 1800.0
    failures: int = 3
    #: between checks
    interval: float = 5.0
    #: without any movement while requests run, until it counts as stalled
    stall: float = 120.0
    always: bool = True
    delay: float = 1.0
    max_delay: float = 60.0
    limit: int = 5
    window: float = 600.0

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Policy:
        """Read a specification; what it leaves out has its default."""
        health, restart = spec.get("health", {}), spec.get("restart", {})
        return cls(
            start_timeout=float(health.get("start_timeout", cls.start_timeout)),
            failures=int(health.get("failures", cls.failures)),
            interval=float(health.get("interval", cls.interval)),
            stall=float(health.get("stall_timeout", cls.stall)),
            always=restart.get("policy", "always") == "always",
            delay=float(restart.get("delay", cls.delay)),
            max_delay=float(restart.get("max_delay", cls.max_delay)),
            limit=int(restart.get("limit", cls.limit)),
            window=float(restart.get("window", cls.window)),
        )


def _like(name: str, default: Any, value: Any) -> Any:
    """A value of a record's file, if it is of the kind it has to be."""
    if name == "vital":
        if not isinstance(value, list) or any(
            [type(part) for part in one] != [int, int, str] for one in value
        ):
            raise TypeError(f"{name} is no list of pid, start and name")
        return value
    if name == "root":
        if value is not None and not (
            isinstance(value, list) and [type(part) for part in value] == [int, int]
        ):
            raise TypeError(f"{name} is no pid with its start")
    elif isinstance(default, float):
        return float(value)
    elif name == "crashes":
        return [float(at) for at in value]
    elif type(value) is not type(default):
        raise TypeError(f"{name} is no {type(default).__name__}")
    return value


@dataclass
class Record:
    """What is known of a unit and outlives the supervisor. Times without ``at`` are monotonic seconds."""

    name: str
    desired: str = STOPPED
    state: str = STOPPED
    #: epoch seconds at which the state began, and the same by the monotonic clock
    since_at: float = 0.0
    since: float = 0.0
    generation: int = 0
    #: starts that nobody asked for
    restarts: int = 0
    #: pid and start of this generation's root; None while there is none
    root: list[int] | None = None
    launched: float = 0.0
    was_ready: bool = False
    smoked: bool = False
    #: why this generation is being ended; "" while it isn't
    ending: str = ""
    #: somebody asked for the end and a new start, so it is no failure
    again: bool = False
    failed_starts: int = 0
    crashes: list[float] = field(default_factory=list)
    not_before: float = 0.0
    #: checks in a row that failed, and how many of them were ``LOST``
    failing: int = 0
    lost: int = 0
    #: when the first of these ``LOST`` was seen
    lost_since: float = 0.0
    error: str = ""
    #: failures that count against the limit, the newest included; 0 while there are none
    failures: int = 0
    #: epoch seconds of the first failure or stall since it was last ready; 0 while there is none. A start by
    #: hand doesn't forget it: what was found of the cards before it is not to be relied on
    failed_at: float = 0.0
    #: of the first of them: what happened, the first error in its log, and the lines that show it
    first_why: str = ""
    first_error: str = ""
    first_tail: list[str] = field(default_factory=list)
    #: the end of the log of the newest
    tail: list[str] = field(default_factory=list)
    #: where in the log this generation begins
    log_from: int = 0
    #: what this generation was launched with: digest, secret, cards, tp, port, model
    running: dict[str, Any] = field(default_factory=dict)
    #: the release that this generation was launched on; "" for none
    release: str = ""
    #: digest of what klops had changed of the packages by then; "" for nothing
    packages: str = ""
    #: pid, start and name of members without which this generation can't serve, once they are known
    vital: list[list[Any]] = field(default_factory=list)
    #: this life of the container
    home: str = ""
    #: forget the unit as soon as nothing of it lives
    removing: bool = False
    #: it waits for its cards; ``error`` names what is missing
    waits: bool = False
    #: MiB used on its cards just before the launch, by PCI address; empty where that isn't known
    idle: dict[str, Any] = field(default_factory=dict)
    #: stopped by who was to start it again: true for long where that never came
    resumes: bool = False
    #: requests stalled, and nothing has shown since that they don't: another supervisor knows it too
    stalled: bool = False

    @classmethod
    def load(cls, value: Mapping[str, Any]) -> Record:
        """From JSON; keys of another version are left out. Raises :class:`VerbError` for damaged ones."""
        try:
            made = cls(name=str(value["name"]))
            for item in fields(cls):
                if item.name in value:
                    setattr(made, item.name, _like(item.name, getattr(made, item.name), value[item.name]))
        except (KeyError, TypeError, ValueError) as error:
            raise VerbError(
                "damaged",
                f"the state of unit {value.get('name', '?')} can't be read: {error}",
                "run klops up: it is written anew",
            ) from error
        return made

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def enter(self, state: str, now: float, clock: float) -> None:
        """Change the state; the same state again keeps its age."""
        if state != self.state:
            self.state, self.since, self.since_at = state, now, clock

    def fails(self, clock: float) -> None:
        """What ran has failed, or goes on without serving."""
        self.failed_at = self.failed_at or clock


@dataclass(frozen=True)
class Check:
    """The outcome of one health check."""

    kind: str
    message: str = ""
    #: a completion came back
    smoked: bool = False
    #: key and model were looked at
    listed: bool = False
    #: whether a completion came back that was asked of one that seems idle; None: none was asked
    answered: bool | None = None
    #: requests progress, or there are none; None: not known
    live: bool | None = None
    #: what /metrics said, and why it said nothing
    counters: Counters | None = None
    unmeasured: str = ""


@dataclass(frozen=True)
class Seen:
    """What the supervisor sees of a unit at one moment."""

    now: float
    #: epoch seconds
    clock: float
    root_alive: bool = False
    #: living members of the lineage, the root too
    living: int = 0
    #: how the root ended, when that is known
    exit: str = ""
    #: the newest check that ended since the last step
    check: Check | None = None
    #: a process without which the server could not serve, as far as is known, and which is gone
    part_lost: str = ""
    #: the check was begun after that, and asked for a completion
    tried: bool = False
    #: members that outlive KILL
    stuck: str = ""
    #: the supervisor itself is ending: stop, but keep what is desired
    closing: bool = False


def command_start(unit: Record, changed: bool, now: float, clock: float, *, gone: bool = False) -> None:
    """``start``: nothing to do for one that runs with these settings; failed and waiting ones go at once.

    ``gone``: its API server is, though no look has seen that yet.
    """
    unit.desired, unit.removing, unit.resumes = RUNNING, False, False
    goes_on = unit.again if unit.ending else not gone
    if unit.state in (STARTING, READY, UNHEALTHY) and not changed and goes_on:
        return
    _anew(
        unit, "a start was asked for with other settings" if changed else "a start was asked for", now, clock
    )


def command_restart(unit: Record, now: float, clock: float) -> None:
    """``restart``: end what runs, forget all failures, start."""
    unit.desired, unit.removing, unit.resumes = RUNNING, False, False
    _anew(unit, "a restart was asked for", now, clock)


def _anew(unit: Record, why: str, now: float, clock: float) -> None:
    unit.failed_starts, unit.crashes, unit.not_before, unit.restarts = 0, [], 0.0, 0
    _forgive(unit)
    unit.ending, unit.again = why, True
    unit.enter(STARTING, now, clock)
    unit.since, unit.since_at = now, clock


def _forgive(unit: Record) -> None:
    """Forget what went wrong."""
    unit.failures, unit.error, unit.tail = 0, "", []
    unit.first_why, unit.first_error, unit.first_tail = "", "", []


def command_stop(unit: Record, resumes: bool = False) -> None:
    """``stop``: whatever is going on ends, a start in progress too. ``resumes``: only to be started again.

    One that was to run no more stays so.
    """
    unit.resumes = resumes and (unit.resumes or unit.desired == RUNNING)
    unit.desired = STOPPED
    unit.ending, unit.again = "a stop was asked for", False


def new_home(unit: Record, home: str, now: float, clock: float) -> None:
    """Container or host were restarted: no process of before lives, failures of before don't count."""
    unit.home = home
    if unit.desired == RUNNING:
        _anew(unit, "the container was started", now, clock)
    elif not _kept_failed(unit):
        unit.enter(STOPPED, now, clock)
    _no_generation(unit)


def taken_over(unit: Record) -> None:
    """By another supervisor: that something is missing is what the one before saw, so it looks at once."""
    if unit.waits and unit.state == BACKOFF:
        unit.waits, unit.error, unit.not_before = False, "", 0.0


def _kept_failed(unit: Record) -> bool:
    """Whether it is failed though nobody wants it to run: its state was lost, and no stop came since.

    What was wanted is not known then, so it stays failed, with the reason, until somebody says.
    """
    return unit.state == FAILED and unit.desired == STOPPED and not unit.ending


def launched(unit: Record, root: list[int], seen: Seen) -> None:
    """A generation was started: its root is on record."""
    unit.generation += 1
    unit.root, unit.launched = root, seen.now
    unit.was_ready = unit.smoked = unit.stalled = False
    unit.failing = unit.lost = 0
    if unit.waits:
        unit.error = ""  # what was missing is there
    unit.waits = False
    unit.enter(STARTING, seen.now, seen.clock)


def refused(unit: Record, message: str, *, final: bool, policy: Policy, seen: Seen) -> None:
    """A generation can't be started. ``final``: trying again would not help."""
    _no_generation(unit)
    unit.waits = False
    if final:
        _forgive(unit)
        unit.error = message
        unit.enter(FAILED, seen.now, seen.clock)
        return
    _failed(unit, message, policy, seen)


def lacking(unit: Record, message: str, seen: Seen) -> None:
    """Its cards are missing or can't be opened, so no generation is started.

    It waits for them, for ever: after a boot they may come late, and that is no failure of the unit.
    """
    _no_generation(unit)
    unit.error = message
    unit.waits = True
    unit.not_before = seen.now + LACKING
    unit.enter(BACKOFF, seen.now, seen.clock)


def _no_generation(unit: Record) -> None:
    unit.root, unit.ending, unit.again, unit.stalled = None, "", False, False
    unit.failing = unit.lost = 0


def _failed(unit: Record, why: str, policy: Policy, seen: Seen) -> None:
    unit.error = why
    unit.crashes = [at for at in unit.crashes if seen.now - at < policy.window] + [seen.now]
    unit.failed_starts = 0 if unit.was_ready else unit.failed_starts + 1
    unit.was_ready = False
    count = unit.failures = max(unit.failed_starts, len(unit.crashes))
    if count == 1:
        unit.first_why, unit.first_error, unit.first_tail = why, "", []
    if not policy.always:
        unit.error += " (restart policy: never)"
        unit.enter(FAILED, seen.now, seen.clock)
    elif count > policy.limit:
        unit.error += f" ({count} failure(s); no further tries until it is started by hand)"
        unit.enter(FAILED, seen.now, seen.clock)
    else:
        unit.restarts += 1
        doublings = min(count - 1, _DOUBLINGS)
        unit.not_before = seen.now + min(policy.max_delay, policy.delay * 2.0**doublings)
        unit.enter(BACKOFF, seen.now, seen.clock)


def _look(unit: Record, policy: Policy, seen: Seen) -> str:
    """Take a look at a running generation; returns why it has to be ended, or ""."""
    if not seen.root_alive:
        return f"the API server {seen.exit or 'is gone'}"
    check = seen.check
    if check is not None and check.kind == OK:
        unit.failing = unit.lost = 0
        unit.smoked = unit.smoked or check.smoked
        unit.stalled = unit.stalled and not (check.live or check.smoked or check.answered)
        if not seen.part_lost and not unit.stalled:
            unit.was_ready, unit.failed_starts = True, 0
            unit.error, unit.tail = "", []  # the first failure of a series is kept: it may go on failing
            unit.failed_at = 0.0
            unit.enter(READY, seen.now, seen.clock)
    elif check is not None:
        unit.failing += 1
        unit.lost = unit.lost + 1 if check.kind == LOST else 0
        if check.kind == STALLED:
            # it took long enough to find out: no second opinion
            unit.error, unit.stalled = check.message, True
            unit.fails(seen.clock)  # one that is only slow may be busy
            if unit.state == READY:
                unit.enter(UNHEALTHY, seen.now, seen.clock)
        if unit.state == READY and unit.failing >= policy.failures:
            unit.enter(UNHEALTHY, seen.now, seen.clock)
        if unit.lost == 1:
            unit.lost_since = seen.now
        # a starting unit is checked more often, but judged no faster than one that runs
        hasty = not unit.was_ready and seen.now - unit.lost_since < policy.interval * (policy.failures - 1)
        if unit.lost >= policy.failures and not hasty:
            return check.message
    # no answer in time may also mean that it is busy
    without = check is not None and (check.kind == LOST or unit.failing >= max(1, policy.failures))
    if seen.part_lost and unit.was_ready and seen.tried and without:
        return seen.part_lost
    if unit.state == STARTING and seen.now - unit.launched > policy.start_timeout:
        return f"not ready after {policy.start_timeout:g} s (start_timeout)" + (
            f"; last check: {check.message}" if check and check.message else ""
        )
    return ""


def step(unit: Record, policy: Policy, seen: Seen) -> str:
    """One step: changes the record and says what is to be done (``NOTHING``, ``END``, ``LAUNCH``)."""
    if seen.stuck and seen.living:
        unit.error = seen.stuck
        unit.enter(FAILED, seen.now, seen.clock)
        return END
    if unit.desired == STOPPED or seen.closing:
        if seen.living:
            if unit.state in (STARTING, READY):
                unit.enter(UNHEALTHY, seen.now, seen.clock)
            if not _kept_failed(unit):
                unit.ending = unit.ending or "the supervisor is stopping"
            return END
        if (unit.desired == RUNNING and unit.state == FAILED) or _kept_failed(unit):
            return NOTHING  # the end of the supervisor is no pardon
        _no_generation(unit)
        if unit.desired == STOPPED:
            _forgive(unit)
        unit.enter(STOPPED, seen.now, seen.clock)
        return NOTHING
    if unit.state == FAILED and not unit.ending:
        return END if seen.living else NOTHING
    if not unit.ending and unit.root is not None:
        unit.ending = _look(unit, policy, seen)
        if not unit.ending:
            return NOTHING
        if unit.state == READY:
            unit.enter(UNHEALTHY, seen.now, seen.clock)
    if seen.living:
        return END
    if unit.ending and not unit.again:
        why = unit.ending
        _no_generation(unit)
        unit.fails(seen.clock)
        _failed(unit, why, policy, seen)
        return NOTHING
    _no_generation(unit)
    if unit.state == BACKOFF and seen.now < unit.not_before:
        return NOTHING
    return LAUNCH
