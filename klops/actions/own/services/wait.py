"""Waiting for a service to get ready, through lost connections too."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.agentverbs import MARGIN
from klops.actions.own.hostreads import agent_argv
from klops.errors import AgentError, HostUnreachable, Interrupted, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds beyond a service's own start timeout until klops stops waiting: the agent's verdict comes first.
GRACE = 30.0
#: Exit statuses of the agent's ``wait``.
_READY, _FAILED, _TIMEOUT = 0, 1, 3
#: Seconds for which a host that is away is tried again, and between two tries at most.
_AWAY, _PAUSE = 120.0, 5.0
#: Lines of a service's log that an error shows.
_TAIL = 12
_WHOLE = 100


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _restarted(known: Mapping[str, Any]) -> str:
    count = known.get("restarts")
    return f", restarted {_times(int(count))}" if count else ""


class Lines:
    """Whole lines of JSON out of pieces of output; ``last`` is the newest object, noise is passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self.last: Mapping[str, Any] = {}

    def feed(self, piece: bytes) -> list[Mapping[str, Any]]:
        """The objects that this piece completes."""
        *whole, self._rest = (self._rest + piece).split(b"\n")
        found: list[Mapping[str, Any]] = []
        for line in whole:
            try:
                value = json.loads(line.decode("utf-8", "replace"))
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
                self.last = value
        return found


#: How the agent says that a unit was ended for taking too long: nothing in it failed by itself.
_TOO_LONG = "(start_timeout)"
#: What is wrong with a unit that isn't ready by its state, where that isn't that it failed.
_NOT_FAILED = {"backoff": "can't be started yet", "unhealthy": "stalls"}


@dataclass(frozen=True)
class WaitReady(Step):
    """Wait until a unit is ready, failed, or out of time: that of its settings, and some grace."""

    changes: ClassVar[bool] = False

    settings: Settings
    host: str
    unit: str
    #: of a unit that was started with other settings than those of now
    timeout: float | None = None

    def change(self) -> Change:
        """What is waited for."""
        return Change(f"wait until {self.unit} is ready")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Follow the agent's ``wait``. It only reads, so after a lost connection it is simply asked again."""
        try:
            return self._follow(ctx)
        except Interrupted as error:
            raise Interrupted(
                f"interrupted; {self.unit} goes on starting there", hint=f"klops status {self.host}"
            ) from error

    def _follow(self, ctx: Context) -> Mapping[str, Any]:
        deadline = time.monotonic() + self._start_timeout + GRACE
        away_since: float | None = None
        while True:
            left = max(deadline - time.monotonic(), 1.0)
            lines = Lines()
            errors: list[bytes] = []

            def show(piece: bytes, lines: Lines = lines) -> None:
                for known in lines.feed(piece):
                    ctx.progress(self._progress(known))

            try:
                # docker exec doesn't end what it started: the verb ends by itself when its input does
                args = (self.unit, "--timeout", f"{left:.0f}", "--while-stdin")
                rc = ctx.remote.stream(
                    agent_argv(self.settings, "wait", *args, stdin=True),
                    on_stdout=show,
                    on_stderr=errors.append,
                    timeout=left + MARGIN,
                    keep_stdin=True,
                )
            except HostUnreachable as error:
                now = time.monotonic()
                if lines.last or away_since is None:
                    away_since = now
                if not error.retryable or now - away_since > _AWAY:
                    raise
                ctx.progress(Progress(f"{self.unit}: the connection is lost, trying again"))
                time.sleep(min(_PAUSE, 0.5 + now - away_since))
                continue
            if rc == _READY:
                return {"waited": self.unit}
            # an interrupt ends the command on the host too, and then this raises
            ctx.progress(self._progress(lines.last))
            raise self._error(rc, lines.last, b"".join(errors))

    def _progress(self, known: Mapping[str, Any]) -> Progress:
        text = f"{self.unit} {known.get('state', '')}".rstrip() + _restarted(known)
        if known.get("line"):
            text += f": {known['line']}"
        percent = known.get("percent")
        # a log that has come to 100 % of something is not a service that is ready
        if not isinstance(percent, (int, float)) or percent >= _WHOLE:
            return Progress(text)
        return Progress(text, float(percent))

    @property
    def _start_timeout(self) -> float:
        return self.settings.services[self.unit].start_timeout if self.timeout is None else self.timeout

    @property
    def _cards_hint(self) -> str:
        """For one that hangs: so does a service whose cards no longer work together. "" on one card."""
        service = self.settings.services.get(self.unit)
        if service is None:
            return ""  # it is no longer in the settings
        most = len(service.cards or self.settings.cards.indexes) if service.tp == "auto" else service.tp
        look = f"klops down {self.host}; klops doctor xccl {self.host}"
        return f"; cards that no longer work together make it hang as well: {look}" if most > 1 else ""

    def _out_of_time(self, last: Mapping[str, Any]) -> str:
        """What was waited for how long, and that the agent doesn't give up with klops."""
        own, service = self._start_timeout, self.settings.services.get(self.unit)
        line = f"; its last line: {last['line']}" if last.get("line") else ""
        goes_on = "the agent lets it be, for restart.policy is never"
        if service is None:
            goes_on = "the agent goes on with it as it was told then"
        elif service.restart.policy == "always":
            most = f"at most {_times(service.restart.limit)} in a row"
            goes_on = f"the agent restarts what isn't ready after {own:g} s, {most}"
        waited = f"{own + GRACE:g} s (start_timeout {own:g} s, {GRACE:g} s of grace)"
        state = f"{last.get('state', 'unknown')}{_restarted(last)}{line}"
        return f"{self.unit} is not ready after {waited}: {state}; {goes_on}"

    def _error(self, rc: int, last: Mapping[str, Any], stderr: bytes) -> Exception:
        hint = f"klops logs {self.host} -s {self.unit}"
        longer = f"; a large model may need a longer klops.services.{self.unit}.start_timeout"
        if rc == _TIMEOUT:
            hint += self._cards_hint + longer
            return TaskFailed(self._out_of_time(last), code="service-timeout", hint=hint)
        if rc == _FAILED and last:
            error = last.get("error")
            message = error.get("message") if isinstance(error, dict) else error
            # one that waits for its cards, or whose requests stall, has not failed: the agent goes on with it
            what = _NOT_FAILED.get(str(last.get("state")), "failed")
            text = f"{self.unit} {what}: {message or 'no reason was recorded'}"
            for title, key in (("lines of its first failure", "first_log"), ("its last lines", "log")):
                log = [str(line) for line in last.get(key) or ()][-_TAIL:]
                if log:
                    text += f"\n{title}:\n" + "\n".join(log)
            if last.get("state") == "unhealthy":
                hint = f"klops restart {self.host} -s {self.unit}, if what it has begun may be lost"
                hint += self._cards_hint
            elif _TOO_LONG in str(message):
                hint += self._cards_hint + longer
            return TaskFailed(text, code="service-failed", hint=hint)
        said = stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {rc}"]
        return AgentError(f"waiting for {self.unit} ended: {said[-1]}", hint=hint)
