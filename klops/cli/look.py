"""``klops status`` and ``klops ps``: what is there. Nothing is written."""

from __future__ import annotations

from typing import Any

from klops.cli.options import Common, HostsArgument, host_command_without


@host_command_without("check", "diff", "yes")
def status(hosts: HostsArgument, *, common: Common) -> None:
    """Show services, container, cards and lock of hosts.

    Example: klops status p800
    """
    from klops.cli.running import run_quietly
    from klops.cli.session import open_session
    from klops.errors import KlopsError
    from klops.playbook.shipped import find
    from klops.ui.json import host_document, status_values

    session = open_session(common)
    names = session.select(hosts)
    path, origin = find("status.yml")
    result = run_quietly(session, path, origin, limit=names)
    values = status_values(result)
    shown: dict[str, Any] = {
        name: result.errors.get(name) or values.get(name) or KlopsError("nothing was read", code="internal")
        for name in names
    }
    if common.json:
        session.print_json(host_document(shown))
    else:
        from klops.ui.status import fleet_view

        session.console().print(fleet_view(shown, session.redactor))
    session.end(result.exit_status())


@host_command_without("check", "diff", "yes")
def ps(hosts: HostsArgument, *, common: Common) -> None:
    """List the processes in the containers of hosts, with the cards that they hold.

    Example: klops ps p800-01 -v    (long titles whole)
    """
    from klops.cli.processes import read_processes
    from klops.cli.session import open_session
    from klops.errors import KlopsError, exit_status
    from klops.ui.json import host_document

    session = open_session(common)
    names = session.select(hosts)
    settings = {name: session.settings(name) for name in names}

    def look(name: str) -> dict[str, Any]:
        with session.remote(name) as remote:
            return {"processes": read_processes(name, settings[name], remote)}

    found = session.each(names, look)
    if common.json:
        session.print_json(host_document(found))
    else:
        from klops.ui.processes import processes_view

        session.console().print(processes_view(found, session.redactor, full=common.verbose > 0))
    session.end(exit_status([e.exit_status for e in found.values() if isinstance(e, KlopsError)]))
