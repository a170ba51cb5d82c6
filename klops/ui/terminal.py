"""The sink that people read: what runs, what each host made of it, progress, recap, what to try next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from klops.actions.base import Change
from klops.errors import KlopsError
from klops.playbook.events import (
    Event,
    HostDropped,
    PlayEnded,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.results import Status, TaskResult, TurnResult
from klops.ui.closing import closing_lines
from klops.ui.colour import is_terminal, wants_colour
from klops.ui.diff import unified
from klops.ui.faults import unsaid
from klops.ui.outlet import Outlet
from klops.ui.plain import printable
from klops.ui.progress import Progress
from klops.ui.prose import Prose
from klops.ui.recap import recap_lines, summary

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
        self._plain = not console.is_terminal and console.no_color
        self._width = 0
        self._failures: dict[str, KlopsError] = {}
        #: by host and message where failures arose that were shown in full
        self._told: dict[tuple[str, str], str] = {}
        #: headings of tasks by their numbers, and the number under whose heading results stand just now
        self._headings: dict[int, str] = {}
        self._free = False
        self._last = -1

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
            self._head(event.number)
            self._finished(event.host, event.action, event.result)
        elif isinstance(event, TaskStarted):
            kind = "HANDLER" if event.handler else "TASK"
            self._headings[event.number] = f"{kind} {event.task}"
            if not self._free:
                self._head(event.number)
        elif isinstance(event, PlayStarted):
            self._free, self._last = event.free, -1
            self._width = max(map(cell_len, event.hosts), default=0)
            batch = f" (batch {event.batch}/{event.batches})" if event.batches > 1 else ""
            self._say(f"PLAY {event.play}{batch}", "bold")
        elif isinstance(event, PlayEnded):
            self._tell(f"PLAY {event.play} ends here: {event.reason}", "bold red")
        elif isinstance(event, RunStarted):
            origin = f" ({self._origin})" if self._origin else ""
            check = ", check mode: nothing is written" if event.check else ""
            count = len(event.hosts)
            self._say(f"{event.playbook}{origin} on {count} host{'s' if count != 1 else ''}{check}")
        elif isinstance(event, HostDropped):
            self._progress.done(event.host)
            self._failures[event.host] = event.error
        elif isinstance(event, Warned):
            about = f"{event.host}  " if event.host else ""
            self._tell(f"  warning  {about}{event.message}", "yellow")
        elif isinstance(event, RunFinished):
            self._end(event)

    def close(self) -> None:
        """Take down what is still shown live (an interrupted run)."""
        self._progress.close()

    def _say(self, text: str, style: str = "") -> None:
        """Exactly this, however long: people copy commands and diffs."""
        self._print(Text(printable(self._redactor(text)), style=style))

    def _print(self, line: Text) -> None:
        if self._plain:
            # what the console would write too, without its hundred steps: a fleet has thousands of lines
            self._console.file.write(line.plain + "\n")
            self._console.file.flush()
        else:
            self._console.print(line)

    def _tell(self, text: str, style: str = "") -> None:
        """What is read: long lines are broken between words."""
        self._console.print(Prose(printable(self._redactor(text)), style))

    def _head(self, number: int) -> None:
        """The heading of a task, again where results of another one stand before."""
        if number != self._last and number in self._headings:
            self._say(self._headings[number], "bold")
        self._last = number

    def _finished(self, host: str, action: str, result: TaskResult) -> None:
        style = STYLES[Status.SKIPPED] if result.ignored else STYLES[result.status]
        took = f"  {result.seconds:.1f}s" if result.seconds >= 0.05 else ""
        lines = result.message.splitlines() or [""]
        # what a debug task says is what it is for
        quiet = result.status is Status.OK and not self._verbose and action != "debug"
        listed = bool(result.items) and (self._verbose > 0 or result.error is not None)
        first = "" if quiet or listed or result.error is not None else "  " + lines[0]
        ignored = "  (ignored)" if result.ignored else ""
        where = host + " " * (self._width - cell_len(host)) + (f" -> {result.place}" if result.place else "")
        status = f"{result.status.value:<11} {where}"
        self._say(f"  {status}{ignored}{first.rstrip()}{took}", style)
        # a failure that is taken care of needs no advice
        lost = not result.ignored and result.status is not Status.RESCUED
        if listed:
            self._turns(result, advice=lost)
        elif result.error is not None:
            self._error(host, result.error, advice=lost)
        elif not quiet:
            for text in lines[1:]:
                self._tell(f"      {text}", style)
        if result.error is not None and lost:
            message = result.error.message
            failed = ((turn.place, turn.error) for turn in result.items)
            places = (place for place, error in failed if error is not None and error.message == message)
            self._told[host, message] = next(places, result.place) or host
        for change in result.changes:
            self._change(change)

    def _turns(self, result: TaskResult, *, advice: bool) -> None:
        """The turns of a loop that failed, each with its message; with ``-v`` all of them."""
        hints: set[str] = set()
        for turn in result.items:
            if turn.error is None and not self._verbose:
                continue
            self._turn(turn, "" if turn.place == result.place else turn.place)
            if turn.error is None:
                continue
            for stream, text in unsaid(turn.error).items():
                self._output(stream, text.splitlines())
            if advice and turn.error.hint not in hints:
                # turns mostly fail alike
                hints.add(turn.error.hint)
                self._hint(turn.error.hint)

    def _turn(self, turn: TurnResult, place: str) -> None:
        at = f" -> {place}" if place else ""
        text = turn.message if turn.error is None else turn.error.message
        first, *more = text.splitlines() or [""]
        label = "\\n".join(turn.label.split("\n"))
        line = f"      {turn.status.value:<11} {label}{at}: {first}".removesuffix(": ")
        style = "red" if turn.error is not None else STYLES[turn.status]
        for told in (line, *(f"        {text}" for text in more)):
            self._tell(told, style)

    def _error(self, host: str, error: KlopsError, *, advice: bool) -> None:
        first, *more = error.message.splitlines() or [""]
        # what follows a failure may quote it
        quoted = any(one.splitlines()[1:] == more for name, one in self._told if name == host)
        for text in (first.removeprefix(f"{host}: "), *([] if quoted else more)):
            self._tell(f"      {text}", "red")
        if advice:
            self._hint(error.hint)
        for stream, text in unsaid(error).items():
            self._output(stream, text.splitlines())

    def _hint(self, hint: str) -> None:
        first, *more = hint.splitlines() or [""]
        if first:
            self._say(f"      fix: {first}")
        for text in more:
            self._say(f"           {text}")

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
            for line in recap_lines(result, self._redactor):
                self._print(line)
            self._console.print()
        shown = {host: error for host, error in self._failures.items() if host in result.errors}
        for last in closing_lines(result, shown or result.errors, self._where_told):
            (self._say if last.whole else self._tell)(last.text, last.style)
        self._say(summary(result), "bold red" if not result.ok else "bold")

    def _where_told(self, host: str, error: KlopsError) -> str | None:
        return self._told.get((host, error.message))
