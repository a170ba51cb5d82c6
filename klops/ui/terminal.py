"""The sink that people read: what runs, what each host made of it, progress, recap, what to try next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, cast

from rich.console import Console
from rich.text import Text

from klops.actions.base import Change
from klops.errors import KlopsError
from klops.playbook.events import (
    Event,
    HostDropped,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.results import Status, TaskResult
from klops.ui.colour import is_terminal, wants_colour
from klops.ui.diff import unified
from klops.ui.faults import next_command, unsaid
from klops.ui.outlet import Outlet
from klops.ui.plain import printable
from klops.ui.progress import Progress
from klops.ui.prose import Prose, Trimmed
from klops.ui.recap import recap_table, summary

#: Columns where there is no terminal: tables in a file or a pipe are never folded.
WIDTH = 10_000
#: Lines shown of each stream of a command that failed.
OUTPUT_LINES = 20
STYLES: Mapping[Status, str] = {
    Status.OK: "dim",
    Status.CHANGED: "yellow",
    Status.SKIPPED: "cyan dim",
    Status.FAILED: "bold red",
    Status.UNREACHABLE: "bold red",
    Status.RESCUED: "magenta",
    Status.UNKNOWN: "blue",
}


def make_console(stream: IO[str] | Outlet) -> Console:
    """A console that never guesses: no markup, no highlighting, colour only where it is wanted."""
    terminal = is_terminal(stream)
    return Console(
        # an outlet has of a stream what rich uses of it
        file=cast("IO[str]", stream),
        width=None if terminal else WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
        no_color=not wants_colour(stream),
        force_terminal=None if terminal else False,
        # bold and dim are left out with the colours
        color_system="auto" if wants_colour(stream) else None,
    )


class TerminalSink:
    """Prints events as they come. ``redactor`` masks secrets in every line, whatever it came from."""

    def __init__(
        self,
        console: Console,
        redactor: Callable[[str], str],
        *,
        origin: str = "",
        diff: bool = False,
        verbose: int = 0,
    ) -> None:
        self._console = console
        self._redactor = redactor
        self._origin = origin
        self._diff = diff
        self._verbose = verbose
        self._progress = Progress(
            console, live=console.is_terminal, say=lambda text: self._say("  ... " + text)
        )
        self._width = 0
        self._failures: list[tuple[str, KlopsError]] = []

    def handle(self, event: Event) -> None:
        """Print one event."""
        if isinstance(event, TaskProgress):
            self._progress.update(
                TaskProgress(
                    event.host,
                    event.task,
                    printable(self._redactor(event.message)),
                    event.elapsed,
                    event.percent,
                )
            )
        elif isinstance(event, TaskFinished):
            self._progress.done(event.host)
            self._finished(event.host, event.action, event.result)
        elif isinstance(event, TaskStarted):
            kind = "HANDLER" if event.handler else "TASK"
            self._say(f"{kind} {event.task}", "bold")
        elif isinstance(event, PlayStarted):
            self._width = max((len(host) for host in event.hosts), default=0)
            self._say(f"PLAY {event.play}", "bold")
        elif isinstance(event, RunStarted):
            origin = f" ({self._origin})" if self._origin else ""
            check = ", check mode: nothing is written" if event.check else ""
            count = len(event.hosts)
            self._say(f"{event.playbook}{origin} on {count} host{'s' if count != 1 else ''}{check}")
        elif isinstance(event, HostDropped):
            self._progress.done(event.host)
            self._failures.append((event.host, event.error))
        elif isinstance(event, Warned):
            self._tell(f"  warning  {event.host}  {event.message}", "yellow")
        elif isinstance(event, RunFinished):
            self._end(event)

    def close(self) -> None:
        """Take down what is still shown live (an interrupted run)."""
        self._progress.close()

    def _say(self, text: str, style: str = "") -> None:
        """Exactly this, however long: people copy commands and diffs."""
        self._console.print(Text(printable(self._redactor(text)), style=style))

    def _tell(self, text: str, style: str = "") -> None:
        """What is read: long lines are broken between words."""
        self._console.print(Prose(printable(self._redactor(text)), style))

    def _finished(self, host: str, action: str, result: TaskResult) -> None:
        style = STYLES[result.status]
        took = f"  {result.seconds:.1f}s" if result.seconds >= 0.05 else ""
        lines = result.message.splitlines() or [""]
        # what a debug task says is what it is for
        quiet = result.status is Status.OK and not self._verbose and action != "debug"
        first = "" if quiet or result.error is not None else "  " + lines[0]
        self._say(f"  {result.status.value:<11} {host:<{self._width}}{first.rstrip()}{took}", style)
        if result.error is not None:
            self._error(result.error)
            for stream, text in unsaid(result.error).items():
                self._output(stream, text.splitlines())
        elif not quiet:
            for text in lines[1:]:
                self._tell(f"      {text}", style)
        for change in result.changes:
            self._change(change)

    def _error(self, error: KlopsError) -> None:
        for text in error.message.splitlines():
            self._tell(f"      {text}", "red")
        if error.hint:
            self._say(f"      fix: {error.hint}")

    def _output(self, stream: str, lines: Sequence[str]) -> None:
        self._say(f"      {stream}:")
        if len(lines) > OUTPUT_LINES:
            self._say(f"        ... {len(lines) - OUTPUT_LINES} more lines before", "dim")
        for text in lines[-OUTPUT_LINES:]:
            self._say(f"        {text}")

    def _change(self, change: Change) -> None:
        self._say(f"      + {change.what}", "yellow")
        if not self._diff:
            return
        for text in unified(change):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(text[:1], "")
            self._say(f"        {text}", style)

    def _end(self, event: RunFinished) -> None:
        self._progress.close()
        result = event.result
        self._console.print()
        if result.hosts:
            self._console.print(Trimmed(recap_table(result, self._redactor)))
            self._console.print()
        for host, error in self._failures or list(result.errors.items()):
            first, *more = (error.message or error.code).splitlines()
            self._tell(f"{host}: {first.removeprefix(f'{host}: ')}", "red")
            for text in more:
                self._tell(f"  {text}", "red")
            command = next_command(error, host)
            if command:
                self._say(f"  next: {command}")
            elif error.hint:
                self._say(f"  fix: {error.hint}")
        self._say(summary(result), "bold red" if not result.ok else "bold")
