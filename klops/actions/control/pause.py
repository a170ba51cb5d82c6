"""``pause``: wait for some time, or until somebody presses return; once for all hosts.

.. code-block:: yaml

    - pause: {minutes: 2}
    - pause: {prompt: "Cable plugged in? Press return"}
      register: answer
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Progress, Seen, Step, View
from klops.actions.control.asking import ask
from klops.actions.programs.programs import clock

#: Seconds between two signs of progress; an interrupt is heeded then.
_TICK = 0.2


class PauseParams(Params):
    """How long; without a time, until a line is typed."""

    seconds: int | None = Field(default=None, ge=0)
    minutes: int | None = Field(default=None, ge=0)
    prompt: str | None = None
    echo: bool = True

    @model_validator(mode="after")
    def _one_time(self) -> PauseParams:
        if self.seconds is not None and self.minutes is not None:
            raise ValueError("give one of seconds and minutes")
        return self

    @property
    def duration(self) -> int | None:
        """Seconds, one at least; None: until a line is typed."""
        if self.seconds is None and self.minutes is None:
            return None
        return max(self.seconds if self.seconds is not None else 60 * (self.minutes or 0), 1)


@dataclass(frozen=True)
class Pause(Step):
    """Wait; ``seconds`` None: for a line. ``unit`` is that of what is registered."""

    changes: ClassVar[bool] = False
    on_host: ClassVar[bool] = False

    seconds: int | None
    prompt: str
    echo: bool
    unit: str

    def change(self) -> Change:
        """``wait N seconds``, or ``ask: PROMPT``."""
        return Change(f"ask: {self.prompt}" if self.seconds is None else f"wait {self.seconds} seconds")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Wait."""
        start, began = clock(), time.monotonic()
        typed = ""
        if self.seconds is None:
            typed = ask(
                self.prompt, echo=self.echo, look=lambda: ctx.progress(Progress("waiting for a line"))
            )
        else:
            self._wait(ctx, began, self.seconds)
        took = time.monotonic() - began
        shown = round(took / 60, 2) if self.unit == "minutes" else round(took, 2)
        return {
            "start": str(start),
            "stop": str(clock()),
            "delta": int(took),
            "stdout": f"Paused for {shown} {self.unit}",
            "user_input": typed,
        }

    def _wait(self, ctx: Context, began: float, seconds: int) -> None:
        while (left := began + seconds - time.monotonic()) > 0:
            text = self.prompt or "paused"
            ctx.progress(Progress(f"{text}, {left:.0f} s left", 100 * (1 - left / seconds)))
            time.sleep(min(left, _TICK))


class PauseAction(Action[PauseParams]):
    """Wait; touches no host. Check mode doesn't wait."""

    name = "pause"
    params = PauseParams
    once: ClassVar[bool] = True

    def probe(self, params: PauseParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: PauseParams, view: View, seen: Seen) -> Plan:
        """One step that changes nothing."""
        seconds = params.duration
        prompt = params.prompt or ("" if seconds is not None else "Press return to go on:")
        unit = "seconds" if params.seconds is not None else "minutes"
        step = Pause(seconds, prompt, params.echo, unit)
        result = {"echo": params.echo, "rc": 0, "stdout": "", "stderr": ""}
        return Plan(
            (step,),
            result,
            unknown="what is typed only shows when it is asked for" if seconds is None else "",
        )
