"""``klops cron install``, ``remove`` and ``status``: the pass that a host runs by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from klops.cli.options import (
    Common,
    DetailedExitcodeOption,
    HostsArgument,
    host_command,
    host_command_without,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from klops.cli.session import Session
    from klops.errors import KlopsError
    from klops.playbook.results import RunResult

app = typer.Typer(help="The clean-up that hosts run by themselves.", no_args_is_help=True)


@app.command()
@host_command
def install(
    hosts: HostsArgument, *, detailed_exitcode: DetailedExitcodeOption = False, common: Common
) -> None:
    """Have hosts clean up by themselves, as klops.cleanup says; what was there before is replaced.

    Example: klops cron install p800 --check --diff
    """
    _run("present", hosts, common, detailed=detailed_exitcode)


@app.command()
@host_command
def remove(
    hosts: HostsArgument, *, detailed_exitcode: DetailedExitcodeOption = False, common: Common
) -> None:
    """Have hosts not do that any more.

    Example: klops cron remove p800-01
    """
    _run("absent", hosts, common, detailed=detailed_exitcode)


@app.command()
@host_command_without("check", "diff", "yes")
def status(hosts: HostsArgument, *, common: Common) -> None:
    """Show what runs the clean-up of hosts, when, and how the last one ended.

    Example: klops cron status p800
    """
    from klops.actions.own.cron import timer
    from klops.actions.own.cron.look import Look, reads
    from klops.cli.session import open_session
    from klops.errors import KlopsError, exit_status
    from klops.ui.json import host_document

    session = open_session(common)
    names = session.select(hosts)
    settings = {name: session.settings(name) for name in names}

    def look(name: str) -> dict[str, Any]:
        with session.remote(name) as remote:
            replies = remote.read((*reads(settings[name]), *timer.status_reads(settings[name])))
        return timer.shown(Look.of(replies, settings[name]), settings[name], replies)

    found = session.each(names, look)
    if common.json:
        session.print_json(host_document(found))
    else:
        _show(session, found)
    session.end(exit_status([e.exit_status for e in found.values() if isinstance(e, KlopsError)]))


def _run(state: str, patterns: list[str], common: Common, *, detailed: bool) -> None:
    from klops.cli.running import run_playbook
    from klops.cli.session import open_session
    from klops.playbook.shipped import find
    from klops.ui.json import run_document, status_values

    session = open_session(common)
    hosts = session.select(patterns)
    path, origin = find("cron.yml")
    result = run_playbook(session, path, origin, limit=hosts, extra={"state": state})
    values = status_values(result, "klops.cron", told_by="installed")
    if common.json:
        session.print_json(run_document(result, values))
    elif values:
        session.outlet.write("\n")
        _show(session, values, _foretold(result) if common.check else ())
    session.end(result.exit_status(detailed=detailed))


def _foretold(result: RunResult) -> set[str]:
    """The hosts whose schedule a run in check mode would change."""
    from klops.playbook.results import Status

    tasks = [task for play in result.plays for task in play.tasks if task.action == "klops.cron"]
    return {host for task in tasks for host, done in task.hosts.items() if done.status is Status.CHANGED}


def _show(
    session: Session,
    shown: Mapping[str, Mapping[str, Any] | KlopsError],
    foretold: Collection[str] = (),
) -> None:
    from klops.errors import KlopsError
    from klops.ui.cron import cron_text
    from klops.ui.faults import describe
    from klops.ui.plain import printable

    for name, one in shown.items():
        text = describe(one) if isinstance(one, KlopsError) else cron_text(one, foretold=name in foretold)
        session.outlet.write(f"{name}  {printable(session.redactor(text))}\n")
