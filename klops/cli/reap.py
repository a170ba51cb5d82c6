"""``klops reap``: what units left behind is ended, here or on other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.complete import complete_hosts
from klops.cli.options import Common, DetailedExitcodeOption, host_command, split_commas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klops.cli.session import Session
    from klops.errors import KlopsError


@host_command
def reap(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOST",
            help="Hosts, groups or patterns: p800, 'p800:!host3', 'host[01:08]', all.",
            autocompletion=complete_hosts,
            show_default=False,
        ),
    ] = None,
    *,
    include_unowned: Annotated[
        list[str] | None,
        typer.Option(
            "--include-unowned",
            metavar="PID:START",
            help="End this process too, though no unit started it; repeatable. As klops reap lists it.",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            min=0,
            help="Leave alone what was started less than this ago; else klops.cleanup.grace.",
            show_default=False,
        ),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="This machine itself; no inventory is read.")
    ] = False,
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="With --local: klops.root of this machine, else /var/lib/klops.",
            show_default=False,
        ),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(
            "--container",
            metavar="NAME",
            help="With --local: klops' container, else klops.",
            show_default=False,
        ),
    ] = None,
    device_dir: Annotated[
        str | None,
        typer.Option(
            "--device-dir",
            metavar="DIR",
            help="With --local: where the card nodes are, else /dev.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """End what units left behind on the cards of hosts, and name who else holds one.

    Only processes that klops itself started, or that are left in a container it made, are ended.

    Example: klops reap p800 --check
    """
    from klops.actions.own.reap.judge import identity
    from klops.errors import UsageError

    named = list(split_commas(include_unowned))
    for one in named:
        try:
            identity(one)
        except ValueError as error:
            raise UsageError(f"--include-unowned: {error}", hint="for example 4711:123456") from error
    if local == bool(hosts):
        raise UsageError(
            "name hosts, or say --local" if not local else "--local and hosts exclude each other"
        )
    here = {"root": root, "container": container, "device_dir": device_dir}
    if local:
        _here({**here, "grace": grace}, named, common, detailed=detailed_exitcode)
        return
    wrong = [f"--{name.replace('_', '-')}" for name, value in here.items() if value is not None]
    if wrong:
        raise UsageError(f"only with --local: {', '.join(wrong)}", hint="of other hosts the inventory tells")
    extra: dict[str, Any] = {} if grace is None else {"grace": grace}
    if named:
        extra["include_unowned"] = named
    _reap(hosts or [], extra, common, detailed=detailed_exitcode)


def _here(given: Mapping[str, Any], named: list[str], common: Common, *, detailed: bool) -> None:
    """Of this machine, with what was given of its settings."""
    from klops.actions.own.reap.here import Here
    from klops.cli.reaphere import reap_here
    from klops.errors import UsageError

    idle = {
        "--inventory": common.inventory,
        "--extra-vars": common.extra_vars,
        "--diff": common.diff,
        "--detailed-exitcode": detailed,
    }
    wrong = [option for option, value in idle.items() if value]
    if wrong:
        raise UsageError(
            f"not with --local: {', '.join(wrong)}", hint="no inventory is read, and no playbook is run"
        )
    known = {key: value for key, value in given.items() if value is not None}
    reap_here(Here(**known, include=tuple(named), check=common.check), common)


def _reap(patterns: list[str], extra: Mapping[str, Any], common: Common, *, detailed: bool) -> None:
    from klops.cli.running import run_playbook
    from klops.cli.session import open_session
    from klops.playbook.shipped import find
    from klops.ui.json import run_document, status_values

    session = open_session(common)
    hosts = session.select(patterns)
    path, origin = find("reap.yml")
    result = run_playbook(session, path, origin, limit=hosts, extra=extra)
    values = status_values(result, "klops.reap", told_by="processes")
    if common.json:
        session.print_json(run_document(result, values))
    else:
        shown = {host: values[host] for host in result.hosts if host in values}
        _show(session, shown, result.errors, check=common.check)
    session.end(result.exit_status(detailed=detailed))


def _show(
    session: Session,
    shown: Mapping[str, Mapping[str, Any]],
    errors: Mapping[str, KlopsError],
    *,
    check: bool,
) -> None:
    """Hosts of which nothing is known were told about above."""
    from klops.ui.reap import reap_view

    if shown:
        console = session.console()
        console.print()
        console.print(reap_view(shown, session.redactor, errors=errors, check=check))
