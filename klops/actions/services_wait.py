"""Waiting for a service to get ready, through lost connections too."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.services_steps import MARGIN, Place
from klops.errors import AgentError, HostUnreachable, TaskFailed

#: Exit statuses of the agent's ``wait``.
_READY, _FAILED, _TIMEOUT = 0, 1, 3
#: Seconds for which a host that is away is tried again, and between two tries at most.
_AWAY, _PAUSE = 120.0, 5.0
#: Lines of a service's log that an error shows.
_TAIL = 12


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


@dataclass(frozen=True)
class WaitReady(Step):
    """Wait until a unit is ready, failed, or out of time (seconds)."""

    changes: ClassVar[bool] = False

    place: Place
    host: str
    unit: str
    timeout: float

    def change(self) -> Change:
        """What is waited for."""
        return Change(f"wait until {self.unit} is ready")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Follow the agent's ``wait``. It only reads, so after a lost connection it is simply asked again."""
        deadline = time.monotonic() + self.timeout
        away_since: float | None = None
        while True:
            left = max(deadline - time.monotonic(), 1.0)
            lines = Lines()
            errors: list[bytes] = []

            def show(piece: bytes, lines: Lines = lines) -> None:
                for known in lines.feed(piece):
                    ctx.progress(self._progress(known))

            try:
                argv = self.place.argv("wait", self.unit, "--timeout", f"{left:.0f}")
                rc = ctx.remote.stream(argv, on_stdout=show, on_stderr=errors.append, timeout=left + MARGIN)
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
            raise self._error(rc, lines.last, b"".join(errors))

    def _progress(self, known: Mapping[str, Any]) -> Progress:
        text = f"{self.unit} {known.get('state', '')}"
        if known.get("restarts"):
            text += f", restarted {known['restarts']} times"
        if known.get("line"):
            text += f": {known['line']}"
        percent = known.get("percent")
        return Progress(text, float(percent) if isinstance(percent, (int, float)) else None)

    def _error(self, rc: int, last: Mapping[str, Any], stderr: bytes) -> Exception:
        hint = f"klops logs {self.host} -s {self.unit}"
        if rc == _TIMEOUT:
            line = f"; its last line: {last['line']}" if last.get("line") else ""
            return TaskFailed(
                f"{self.unit} not ready within {self.timeout:.0f} s: {last.get('state', 'unknown')}{line}",
                code="service-timeout",
                hint=f"{hint}; a large model may need a longer klops.services.{self.unit}.start_timeout",
            )
        if rc == _FAILED and last:
            error = last.get("error")
            message = error.get("message") if isinstance(error, dict) else error
            text = f"{self.unit} failed: {message or 'no reason was recorded'}"
            log = [str(line) for line in last.get("log") or ()][-_TAIL:]
            if log:
                text += "\nits last lines:\n" + "\n".join(log)
            return TaskFailed(text, code="service-failed", hint=hint)
        said = stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {rc}"]
        return AgentError(f"waiting for {self.unit} ended: {said[-1]}", hint=hint)
