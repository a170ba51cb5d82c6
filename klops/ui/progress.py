"""Progress of long steps: a live line a host on a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from klops.playbook.events import TaskProgress

#: Seconds between two plain lines of one host where there is no terminal.
PLAIN_INTERVAL = 5.0
_SPINNER = "|/-\\"


def clock(seconds: float) -> str:
    """Elapsed time for people: ``9s``, ``2m05s``, ``1h02m``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def line(event: TaskProgress, elapsed: float) -> str:
    """One progress line: host, elapsed, percentage, message."""
    percent = "" if event.percent is None else f" {event.percent:3.0f}%"
    return f"{event.host}  {clock(elapsed)}{percent}  {event.message}"


@dataclass
class Progress:
    """Shows the steps that are still busy. ``say`` prints a plain line."""

    console: Console
    live: bool
    say: Callable[[str], None]
    now: Callable[[], float] = time.monotonic
    _busy: dict[str, tuple[TaskProgress, float]] = field(default_factory=dict)
    _said: dict[str, float] = field(default_factory=dict)
    _display: Live | None = None

    def update(self, event: TaskProgress) -> None:
        """A host reports how far it is."""
        at = self.now()
        self._busy[event.host] = (event, at)
        if not self.live:
            if at - self._said.get(event.host, float("-inf")) >= PLAIN_INTERVAL:
                self._said[event.host] = at
                self.say(line(event, event.elapsed))
            return
        if self._display is None:
            self._display = Live(
                self,
                console=self.console,
                transient=True,
                refresh_per_second=4,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._display.start(refresh=True)

    def done(self, host: str) -> None:
        """A host's step ended."""
        self._busy.pop(host, None)
        self._said.pop(host, None)
        if not self._busy:
            self.close()

    def close(self) -> None:
        """Take the live display away."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # the display refreshes in a thread of its own: take a copy first
        for event, at in list(self._busy.values()):
            since = self.now() - at
            spinner = _SPINNER[int(self.now() * 4) % len(_SPINNER)]
            yield Text(f"  {spinner} {line(event, event.elapsed + since)}", no_wrap=True, overflow="ellipsis")
