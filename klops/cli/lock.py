"""``klops lock status`` and ``klops lock break``: who is changing a host, and what to do when nobody is."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from klops.cli.options import Common, HostArgument, HostsArgument, host_command_without

if TYPE_CHECKING:
    from klops.cli.session import Session

app = typer.Typer(help="Who is changing a host.", no_args_is_help=True)


@app.command()
@host_command_without("check", "diff", "yes")
def status(hosts: HostsArgument, *, common: Common) -> None:
    """Show who holds the locks of hosts, since when, and whether that run still lives.

    Example: klops lock status p800
    """
    from klops.cli.session import open_session
    from klops.errors import KlopsError, exit_status
    from klops.remote.locklook import look
    from klops.ui.faults import describe
    from klops.ui.json import host_document
    from klops.ui.locks import lock_text
    from klops.ui.plain import printable

    session = open_session(common)
    names = session.select(hosts)
    roots = {name: session.settings(name).root for name in names}

    def one(name: str) -> dict[str, Any]:
        with session.remote(name) as remote:
            found = look(remote, roots[name])
            return {"lock": found.as_json() if found else None}

    found = session.each(names, one)
    if common.json:
        session.print_json(host_document(found))
    else:
        for name, result in found.items():
            text = describe(result) if isinstance(result, KlopsError) else lock_text(result["lock"])
            session.outlet.write(f"{name}  {printable(session.redactor(text))}\n")
    session.end(exit_status([e.exit_status for e in found.values() if isinstance(e, KlopsError)]))


@app.command(name="break")
@host_command_without("diff", "forks")
def break_(host: HostArgument, *, common: Common) -> None:
    """Remove the lock of a host, whoever has it. A run that still lives stops before its next change.

    Example: klops lock break p800-01
    """
    from klops.cli.audited import audited
    from klops.cli.session import open_session
    from klops.errors import KlopsError, UsageError
    from klops.ui.faults import describe
    from klops.ui.json import host_document

    session = open_session(common)
    name = session.one(host)
    root = session.settings(name).root
    outcome: dict[str, Any] | KlopsError
    try:
        with nullcontext() if common.check else audited(session, "lock-break", [name], {}):
            outcome = _break(session, name, root)
    except UsageError:
        raise
    except KlopsError as error:
        outcome = error
        if not common.json:
            _say(session, describe(error))
    if common.json:
        session.print_json(host_document({name: outcome}))
    session.end(outcome.exit_status if isinstance(outcome, KlopsError) else 0)


def _break(session: Session, name: str, root: str) -> dict[str, Any]:
    """Look, ask, remove: what was there, and what became of it."""
    from klops.cli.session import confirm
    from klops.errors import TaskFailed
    from klops.remote.lock import LockOwner
    from klops.remote.locklook import break_lock, look
    from klops.ui.locks import lock_text

    with session.remote(name) as remote:
        found = look(remote, root)
        if found is None:
            raise TaskFailed(f"{name}: nobody holds the lock; nothing was done", code="lock-free")
        _say(session, f"{name}: {lock_text(found.as_json())}")
        outcome = {
            "lock": found.as_json(),
            "outcome": "would be broken" if session.common.check else "broken",
        }
        if not session.common.check:
            live = " Its run may be changing the host just now." if found.alive else ""
            confirm(f"Break the lock of {name}?{live}", session.common)
            unnoted = break_lock(remote, root, found, LockOwner.here())
            if unnoted:
                _say(session, f"{name}: that could not be noted in {root}/audit.jsonl: {unnoted}")
        _say(session, f"{name}: {outcome['outcome']}")
        return outcome


def _say(session: Session, text: str) -> None:
    from klops.ui.plain import printable

    if not session.common.json:
        sys.stderr.write(printable(session.redactor(text)) + "\n")
