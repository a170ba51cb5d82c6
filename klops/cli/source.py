"""``klops sync``, ``klops releases`` and ``klops rollback``: source and generations of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.options import (
    Common,
    DetailedExitcodeOption,
    HostsArgument,
    host_command,
    host_command_without,
)

if TYPE_CHECKING:
    from klops.cli.session import Session
    from klops.playbook.results import RunResult

#: What a host's object of ``klops sync`` holds.
_SYNCED = ("release", "current", "commit", "digest", "files", "sent_files", "sent_bytes", "normalised")


@host_command
def sync(
    hosts: HostsArgument,
    *,
    ref: Annotated[
        str | None,
        typer.Option(
            "--ref",
            metavar="REV",
            help="A commit, branch or tag, or REV:PATH for a folder of it; else klops.source.ref.",
            show_default=False,
        ),
    ] = None,
    dirty: Annotated[
        bool,
        typer.Option(
            "--dirty", help="Ship the working tree as it is, with what isn't committed; the release says so."
        ),
    ] = False,
    no_restart: Annotated[
        bool,
        typer.Option(
            "--no-restart", help="Leave services that run on the release that they were started on."
        ),
    ] = False,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Send the source tree to hosts as a release, make it current, and restart services that run on another.

    Services that don't get healthy on it: the last good generation comes back (klops.generations.rollback).

    Example: klops sync p800 --ref v0.4.1 --check --diff
    """
    extra: dict[str, Any] = {} if ref is None else {"ref": ref}
    if dirty:
        extra["dirty"] = True
    if no_restart:
        extra["restart"] = False
    session, result = _run("sync.yml", hosts, extra, common)
    from klops.ui.json import run_document, status_values

    found = status_values(result, "klops.source")
    # where it was gone back from the release, or where nobody knows how far that came
    stands = {
        host: {"current": one["current"]}
        for host, one in status_values(result, "klops.rollback", told_by="current").items()
        if "current" in one
    }
    values = {
        host: {key: {**one, **stands.get(host, {})}.get(key) for key in _SYNCED}
        for host, one in found.items()
    }
    if common.json:
        session.print_json(run_document(result, values))
    elif values:
        from klops.ui.releases import synced_view

        console = session.console()
        console.print()
        console.print(synced_view(values, session.redactor, check=common.check))
    session.end(result.exit_status(detailed=detailed_exitcode))


@host_command
def rollback(
    hosts: HostsArgument,
    *,
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="GENERATION",
            min=1,
            help="The number of a generation; else the last good one before what stands.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Take hosts back to an earlier generation: release, packages, patches and services, as one step.

    It waits until the services are healthy. The settings stay: the next klops up follows them again.

    Example: klops rollback p800-01 --to 7
    """
    from klops.cli.running import finish

    session, result = _run("rollback.yml", hosts, {} if to is None else {"to": to}, common)
    finish(session, result, show_status=True, detailed=detailed_exitcode)


@host_command_without("check", "diff", "yes")
def releases(hosts: HostsArgument, *, common: Common) -> None:
    """List what ran on hosts, to go back to, and the releases that are there. Nothing is written.

    Example: klops releases p800
    """
    from klops.cli.releasereads import read_releases
    from klops.cli.session import open_session
    from klops.errors import KlopsError, exit_status
    from klops.ui.json import host_document

    session = open_session(common)
    names = session.select(hosts)
    settings = {name: session.settings(name) for name in names}

    def look(name: str) -> dict[str, Any]:
        with session.remote(name) as remote:
            return read_releases(name, settings[name], remote)

    found = session.each(names, look)
    if common.json:
        session.print_json(host_document(found))
    else:
        from klops.ui.releases import releases_view

        session.console().print(releases_view(found, session.redactor))
    session.end(exit_status([e.exit_status for e in found.values() if isinstance(e, KlopsError)]))


def _run(
    playbook: str, patterns: list[str], extra: dict[str, Any], common: Common
) -> tuple[Session, RunResult]:
    from klops.cli.running import run_playbook
    from klops.cli.session import open_session
    from klops.cli.taken import require_uses
    from klops.playbook.shipped import find

    session = open_session(common)
    hosts = session.select(patterns)
    path, origin = find(playbook)
    require_uses(path, extra)
    return session, run_playbook(session, path, origin, limit=hosts, extra=extra)
