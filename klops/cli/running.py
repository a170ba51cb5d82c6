"""Run a playbook, show it, and turn its result into output and exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from klops.cli.session import Session
from klops.playbook.shipped import SHIPPED

if TYPE_CHECKING:
    from klops.errors import KlopsError
    from klops.playbook.events import Event, Sink
    from klops.playbook.plays.run import RunOptions
    from klops.playbook.results import RunResult
    from klops.remote.ahead import Ahead
    from klops.ui.audit import AuditSink
    from klops.ui.terminal import TerminalSink


def run_playbook(
    session: Session,
    path: Path,
    origin: str,
    *,
    limit: Sequence[str] | None,
    extra: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    skip_tags: Sequence[str] = (),
    start_at_task: str | None = None,
) -> RunResult:
    """Load and run one playbook on the hosts of ``limit`` (None: wherever the playbook says), and show it.

    ``extra``: variables from the command's own options, which are what was typed, never templates.
    Raises :class:`UsageError` before anything runs; what fails on a host is in the result.
    """
    with session.connecting(_sure(origin, limit)) as ahead:
        from klops.inventory import default_sources
        from klops.playbook.options import verbatim
        from klops.playbook.plays.run import RunOptions

        common = session.common
        options = RunOptions(
            limit=limit,
            tags=tuple(tags),
            skip_tags=tuple(skip_tags),
            check=common.check,
            diff=common.diff,
            forks=common.forks,
            extra_vars={**session.extra, **verbatim(extra or {})},
            start_at_task=start_at_task,
            verbosity=common.verbose,
            inventory_sources=tuple(map(str, default_sources(common.inventory))),
        )
        shown = _Shown(session, origin)
        try:
            return _run(session, path, options, [shown], ahead)
        finally:
            shown.close()


class _Shown:
    """The sinks of a run that somebody sees, made at the first event: the hosts are being asked by then."""

    def __init__(self, session: Session, origin: str) -> None:
        self._session = session
        self._origin = origin

    def handle(self, event: Event) -> None:
        """Show it and note it."""
        self._terminal.handle(event)
        self._audit.handle(event)

    def close(self) -> None:
        """Take down what is still shown live."""
        if "_terminal" in vars(self):
            self._terminal.close()

    @cached_property
    def _terminal(self) -> TerminalSink:
        from klops.ui.terminal import TerminalSink

        session, common = self._session, self._session.common
        console = session.console()
        return TerminalSink(
            console, session.redactor, origin=self._origin, diff=common.diff, verbose=common.verbose
        )

    @cached_property
    def _audit(self) -> AuditSink:
        from klops.cli.arguments import masked, typed
        from klops.remote.lock import LockOwner
        from klops.ui.audit import AuditSink
        from klops.ui.auditfile import AuditFile

        redactor, who = self._session.redactor, LockOwner.here()
        return AuditSink(AuditFile(redactor), masked(typed.get(), redactor), who.who, who.origin)


def run_quietly(session: Session, path: Path, origin: str, *, limit: Sequence[str]) -> RunResult:
    """Run a playbook that only looks: as a check, so that it can't write, and with nothing shown."""
    with session.connecting(_sure(origin, limit)) as ahead:
        from klops.playbook.plays.run import RunOptions

        options = RunOptions(
            limit=limit, check=True, forks=session.common.forks, extra_vars=dict(session.extra)
        )
        return _run(session, path, options, [], ahead)


def _sure(origin: str, limit: Sequence[str] | None) -> Sequence[str]:
    """Hosts that are worked on whatever the playbook holds, and over connections as the inventory has them.

    klops' own playbooks are about all hosts that a command names; of a user's nobody knows before it is read.
    """
    return limit or () if origin == SHIPPED else ()


def _run(session: Session, path: Path, options: RunOptions, sinks: list[Sink], ahead: Ahead) -> RunResult:
    from klops.actions.catalog import catalog
    from klops.playbook.load.plays import load_playbook
    from klops.playbook.plays.run import run

    return run(
        load_playbook(path, catalog()),
        session.inventory,
        options,
        sinks=sinks,
        open_remote=ahead.open_remote,
        redactor=session.redactor,
    )


def finish(session: Session, result: RunResult, *, show_status: bool, detailed: bool = False) -> NoReturn:
    """Print what a run came to, and end the command with its exit status."""
    from klops.ui.json import run_document, status_values

    values = status_values(result) if show_status else {}
    if session.common.json:
        session.print_json(run_document(result, values))
    elif values:
        from klops.ui.status import fleet_view

        shown: dict[str, Mapping[str, Any] | KlopsError] = {}
        for host in result.hosts:
            if host in values:
                shown[host] = values[host]
            elif host in result.errors:
                shown[host] = result.errors[host]
        console = session.console()
        console.print()
        console.print(fleet_view(shown, session.redactor))
    session.end(result.exit_status(detailed=detailed))
