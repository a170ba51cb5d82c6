"""``klops hosts trust``: show and record host keys. Unknown keys are refused everywhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.options import Common, HostsArgument, host_command_without

if TYPE_CHECKING:
    from klops.cli.session import Session
    from klops.errors import KlopsError
    from klops.remote.trust import Shown

app = typer.Typer(help="Which hosts are trusted.", no_args_is_help=True)

ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="With --yes: also replace keys that differ from the recorded ones."),
]


@app.callback()
def _group() -> None:
    """Which hosts are trusted."""


@app.command()
@host_command_without("diff", "forks")
def trust(hosts: HostsArgument, *, replace: ReplaceOption = False, common: Common) -> None:
    """Show the ssh keys of hosts and, once confirmed, record them in known_hosts.

    Example: klops hosts trust p800
    """
    from klops.cli.session import open_session
    from klops.errors import KlopsError, exit_status
    from klops.ui.json import host_document

    session = open_session(common)
    found: dict[str, Any] = {}
    # one after the other: each may ask a question
    for name in session.select(hosts):
        found[name] = _attempt(session, name, replace=replace)
    if common.json:
        session.print_json(host_document(found))
    raise typer.Exit(exit_status([e.exit_status for e in found.values() if isinstance(e, KlopsError)]))


def _attempt(session: Session, name: str, *, replace: bool) -> dict[str, Any] | KlopsError:
    """The outcome for a host, or why there is none; what can't be meant ends the whole command."""
    from klops.errors import KlopsError, UsageError
    from klops.ui.faults import describe

    try:
        return _trust(session, name, replace=replace)
    except UsageError:
        raise
    except KlopsError as error:
        if not session.common.json:
            sys.stderr.write(f"{session.redactor(describe(error))}\n")
        return error


def _trust(session: Session, name: str, *, replace: bool) -> dict[str, Any]:
    """Every hop to the host: show, ask, record."""
    from klops.remote.trust import look

    connection = session.connection(name)
    if connection.kind == "local":
        _say(session, f"{name}: local, no key needed")
        return {"keys": []}
    keys = []
    for shown in look(connection):
        outcome = "known"
        if shown.verdict.kind == "known":
            _say(session, f"{shown.target.name}: {shown.target.place} shows {shown.key}: already trusted")
        else:
            outcome = _ask_and_record(session, shown, replace=replace)
        keys.append(
            {
                "address": shown.target.address,
                "port": shown.target.port,
                "type": shown.key.type,
                "fingerprint": shown.key.fingerprint,
                "recorded": shown.recorded,
                "outcome": outcome,
            }
        )
    return {"keys": keys}


def _ask_and_record(session: Session, shown: Shown, *, replace: bool) -> str:
    from klops.cli.session import confirm
    from klops.errors import ConfirmationNeeded

    target, common = shown.target, session.common
    changed = shown.verdict.kind == "changed"
    text = f"{target.name}: {target.place} shows {shown.key}"
    if changed:
        text += f"\n  RECORDED IS ANOTHER KEY: {', '.join(shown.recorded)}\n  Somebody may be in between."
    _say(session, text)
    if common.check:
        return "would be replaced" if changed else "would be recorded"
    if changed and common.yes and not replace:
        raise ConfirmationNeeded(
            f"{target.name}: shows {shown.key}, recorded is {', '.join(shown.recorded)};"
            " --yes alone does not replace a recorded key",
            hint="compare the new fingerprint with the host's own, then say --yes --replace",
        )
    question = f"Trust {shown.key} for {target.place}?"
    if changed:
        old = ", ".join(str(e.key) for e in shown.verdict.entries)
        question = f"Replace {old} by {shown.key} for {target.place}?"
    confirm(question, common)
    file = shown.record()
    _say(session, f"{target.name}: recorded in {file}")
    return "replaced" if changed else "recorded"


def _say(session: Session, text: str) -> None:
    if not session.common.json:
        sys.stderr.write(session.redactor(text) + "\n")
