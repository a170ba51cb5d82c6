"""``klops logs``: the log of one service of one host."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from klops.cli.options import Common, HostArgument, ServiceOption, host_command_without

if TYPE_CHECKING:
    from klops.cli.place import Place
    from klops.cli.session import Session
    from klops.cli.tail import Tail
    from klops.errors import HostUnreachable
    from klops.remote.base import Remote

#: Lines shown when neither -n nor --since says otherwise.
DEFAULT_LINES = 200
#: Lines asked for after a broken link, in which the last shown ones are looked for.
RESUME_LINES = 20_000
#: Seconds a link may stay broken before following gives up.
GIVE_UP_AFTER = 600.0
#: Longest wait between two tries, seconds.
LONGEST_WAIT = 15.0


@host_command_without("check", "diff", "forks", "yes")
def logs(
    host: HostArgument,
    *,
    service: ServiceOption = None,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, metavar="N", help=f"Last lines; {DEFAULT_LINES} by default."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the log grows; ends with Ctrl-C.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="SPAN", help="All that is newer: 90s, 10m, 2h.")
    ] = None,
    common: Common,
) -> None:
    """Show the log of a service; following survives a broken link.

    Example: klops logs p800-01 --service qwen --since 10m --follow
    """
    from klops.cli.durations import parse_span
    from klops.cli.place import Place, choose_service
    from klops.cli.session import open_session
    from klops.cli.tail import Tail
    from klops.errors import Interrupted, UsageError

    if follow and common.json:
        raise UsageError("--follow never ends, and JSON is one document", hint="leave one of the two out")
    if lines is not None and since is not None:
        raise UsageError(
            "--lines counts from the end, --since goes by the time: one of the two",
            hint="leave one of the two out",
        )
    span = None if since is None else parse_span(since)
    session = open_session(common)
    name = session.one(host)
    settings = session.settings(name)
    unit = choose_service(name, settings, service)
    if lines is None and span is None:
        lines = DEFAULT_LINES
    collected: list[str] = []

    def write(text: str) -> None:
        shown = session.redactor(text)
        if common.json:
            collected.append(shown)
            return
        sys.stdout.write(shown)
        sys.stdout.flush()

    tail = Tail(write)
    try:
        _Follower(session, Place.of(name, settings), unit, tail, lines, span, follow).show()
    except KeyboardInterrupt:
        # that is how following ends
        tail.finish()
        raise typer.Exit(Interrupted.exit_status) from None
    tail.finish()
    if common.json:
        content = {"service": unit, "lines": "".join(collected).splitlines()}
        session.print_json({"ok": True, "hosts": {name: content}})


@dataclass
class _Follower:
    """Shows one log, and takes it up again after a broken link."""

    session: Session
    place: Place
    unit: str
    tail: Tail
    lines: int | None
    span: float | None
    follow: bool
    connected: bool = False
    broken_at: float | None = None

    def show(self) -> None:
        """Until the log ends; for ever when following. Raises :class:`HostUnreachable` when it gives up."""
        wait = 1.0
        while (error := self._once()) is not None:
            if not (self.follow and self.connected and error.retryable):
                raise error
            if self.broken_at is None:
                wait = 1.0
                self.broken_at = time.monotonic()
                self._note(f"{self.session.redactor(error.message)}; trying again")
            elif time.monotonic() - self.broken_at > GIVE_UP_AFTER:
                raise error
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            self.tail.resume()
            if self.tail.started:
                self.lines, self.span = RESUME_LINES, None

    def _once(self) -> HostUnreachable | None:
        from klops.errors import HostUnreachable

        try:
            with self.session.remote(self.place.host) as remote:
                args = _arguments(remote, self.place, self.lines, self.span, self.follow)
                if self.broken_at is not None:
                    self.broken_at = None
                    self._note("connected again")
                self.connected = True
                _stream(remote, self.place, self.unit, args, self.tail)
        except HostUnreachable as error:
            return error
        return None

    @staticmethod
    def _note(text: str) -> None:
        sys.stderr.write(f"--- klops: {text} ---\n")


def _arguments(
    remote: Remote, place: Place, lines: int | None, span: float | None, follow: bool
) -> list[str]:
    """Options of the agent's ``logs``. What "since" means is the host's clock's business, not ours."""
    replies = remote.read([*place.looks, place.ask("status")])
    place.require_running(replies)
    now = float(place.answer(replies["status"], "now"))
    args: list[str] = []
    if lines is not None:
        args += ["--lines", str(lines)]
    if span is not None:
        args += ["--since", f"{now - span:.3f}"]
    if follow:
        args.append("--follow")
    return args


def _stream(remote: Remote, place: Place, unit: str, args: list[str], tail: Tail) -> None:
    from klops.errors import AgentError

    complaints: list[bytes] = []
    argv = place.while_read("logs", unit, *args)
    rc = remote.stream(argv, on_stdout=tail.feed, on_stderr=complaints.append, keep_stdin=True)
    if rc != 0:
        # a container that stopped meanwhile is reason enough, and docker exec does not name it
        place.require_running(remote.read(place.looks))
        said = b"".join(complaints).decode("utf-8", "replace").strip()
        raise AgentError(
            f"{place.host}: the log of {unit} can't be read (exit status {rc}): {said or 'no reason given'}",
            hint=f"klops status {place.host} shows what is there",
        )
